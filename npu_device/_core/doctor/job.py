"""Checks of how the environment describes the job: variables, rank table, spelling."""

from __future__ import annotations

from typing import Mapping

from npu_device._core import cluster, environment
from npu_device._core.doctor.finding import FAILURE, NOTE, OK, WARNING, Finding


def check(environ: Mapping[str, str]) -> tuple[list[Finding], int]:
    """Returns what is to be said of the job that `environ` describes, and its number of ranks.

    Args:
        environ: the environment, such as os.environ.
    """
    findings = [Finding(FAILURE, text) for text in environment.problems(environ)]
    ranks = 1
    if not findings:
        read = environment.read(environ)
        try:
            description = cluster.describe(read)
        except ValueError as error:
            findings += [Finding(FAILURE, line) for line in str(error).splitlines()]
        else:
            ranks = description.size
            findings.append(Finding(OK, _in_words(description)))
            findings += [Finding(NOTE, note) for note in description.notes]
        findings += [
            _variable(variable, read[variable.name])
            for variable in environment.VARIABLES
            if read.is_set(variable.name)
        ]
    findings += [
        Finding(WARNING, f"{name} is not a variable that is read. Was {nearest} meant?")
        for name, nearest in environment.misspelt(environ)
    ]
    return findings, ranks


def _in_words(description: cluster.ClusterDescription) -> str:
    if description.size == 1:
        return "a world of one rank: every collective is the identity"
    if description.rank is None:
        return (
            f"a job of {description.size} ranks that get their numbers when they meet (CM_*), "
            f"device {description.device}"
        )
    text = f"rank {description.rank} of {description.size}, device {description.device}"
    if len(description.servers) > 1:
        text += f", on {len(description.servers)} servers: {', '.join(description.servers)}"
    return text


def _variable(variable: environment.Variable, value: object) -> Finding:
    text = f"{variable.name} = {value}: {variable.meaning}"
    if variable.effect == environment.USED:
        return Finding(OK, text)
    return Finding(NOTE, f"{text}; {variable.effect}")

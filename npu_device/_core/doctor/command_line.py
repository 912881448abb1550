"""The command `npu-doctor`."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Sequence

from npu_device._core import library
from npu_device._core.doctor import job, machine, trial, versions
from npu_device._core.doctor.finding import FAILURE, Finding

# A shell's own codes begin at 126.
_FOUND_FAILURES = 1


def examine(run_trial: bool) -> dict[str, list[Finding]]:
    """Returns all findings by section, in the order of the page.

    Args:
        run_trial: whether to run a job of two ranks, some seconds long.
    """
    sections = {"versions": versions.check()}
    usable = not any(finding.level == FAILURE for finding in sections["versions"])
    sections["job"], ranks = job.check(os.environ)
    sections["machine"] = machine.check(library.native() if usable else None, ranks)
    if run_trial and usable:
        sections["trial"] = trial.check(os.environ)
    return sections


def page(sections: dict[str, list[Finding]]) -> str:
    """Returns the findings as a person reads them."""
    lines = []
    for name, findings in sections.items():
        lines.append(name)
        for finding in findings:
            first, *rest = finding.text.splitlines()
            lines.append(f"  {finding.level:8}{first}")
            lines += [" " * 10 + line for line in rest]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: without the program's name; None: those of this process.

    Returns:
        The exit code: 0, or 1 when something was found with which jobs do not run.
    """
    parser = argparse.ArgumentParser(
        prog="npu-doctor",
        description="Looks at this machine, at what is installed and at the job that the "
        "environment describes, and says what would go wrong. The exit code is 1 when jobs would "
        "not run.",
    )
    parser.add_argument("--json", action="store_true", help="the findings as JSON")
    parser.add_argument("--no-trial", action="store_true", help="do not run a job of two ranks")
    options = parser.parse_args(arguments)
    sections = examine(run_trial=not options.no_trial)
    failures = [f for findings in sections.values() for f in findings if f.level == FAILURE]
    if options.json:
        found = {name: [f._asdict() for f in findings] for name, findings in sections.items()}
        print(json.dumps({"failures": len(failures), "sections": found}, indent=2))
    else:
        print(page(sections))
        print("nothing in the way" if not failures else f"in the way: {len(failures)}, see failure")
    return _FOUND_FAILURES if failures else 0


if __name__ == "__main__":
    sys.exit(main())

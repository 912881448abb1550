"""Checks of the machine: processors, memory, limits, and what the kernel allows."""

from __future__ import annotations

import os
import resource
from typing import Any

from npu_device._core.doctor.finding import FAILURE, NOTE, OK, WARNING, Finding
from npurun import memory_file
from npurun.rank_environment import available_processors

_GIB = 1 << 30
# Below this, a rank of a small model runs out while TensorFlow is imported.
_LITTLE_MEMORY = 2 * _GIB
# Python with TensorFlow holds about 50; each rank of a host adds two for every other one.
_DESCRIPTORS_OF_A_PROCESS = 64


def check(native: Any, ranks: int) -> list[Finding]:
    """Returns what this machine gives to a job.

    Args:
        native: the native module; None where it does not load.
        ranks: ranks of the job that the environment describes.
    """
    return [
        _processors(ranks),
        *_memory(native),
        *_limits(ranks),
        _memory_files(),
        _process_descriptors(),
    ]


def _processors(ranks: int) -> Finding:
    processors = available_processors()
    text = "1 processor" if processors == 1 else f"{processors} processors"
    if ranks <= processors:
        return Finding(OK, text + (f" for the {ranks} ranks of this job" if ranks > 1 else ""))
    return Finding(
        NOTE,
        f"{text} for {ranks} ranks: they take turns. That works, but times say little about "
        f"a machine with a processor for each rank.",
    )


def _memory(native: Any) -> list[Finding]:
    if native is None:
        return []
    available = native.available_memory_bytes()
    text = f"{available / _GIB:.1f} GiB of memory available, limits of the container heeded"
    if available >= _LITTLE_MEMORY:
        return [Finding(OK, text)]
    return [Finding(WARNING, text + "; every rank with TensorFlow takes 0.5 GiB and more.")]


def _limits(ranks: int) -> list[Finding]:
    findings = []
    for name, limit, option in (
        ("address space", resource.RLIMIT_AS, "-v"),
        ("file sizes", resource.RLIMIT_FSIZE, "-f"),
    ):
        value = resource.getrlimit(limit)[0]
        if value != resource.RLIM_INFINITY:
            findings.append(
                Finding(
                    FAILURE,
                    f"The limit on {name} (ulimit {option}) is {value // 1024} KiB. Shared memory "
                    f"is one large sparse file, of which hardly any is touched: run with `ulimit "
                    f"{option} unlimited`.",
                )
            )
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    needed = _DESCRIPTORS_OF_A_PROCESS + 2 * ranks
    if files < needed:
        findings.append(
            Finding(
                WARNING,
                f"A process may open {files} files (ulimit -n); a rank of this job needs about "
                f"{needed}.",
            )
        )
    return findings or [Finding(OK, f"no limit in the way (open files: {files})")]


def _memory_files() -> Finding:
    try:
        os.close(memory_file.create("npu_doctor", b"1"))
    except OSError as error:
        return Finding(
            FAILURE,
            f"Memory files (memfd_create) are refused: {error}. Shared memory needs them; where a "
            f"sandbox forbids them, allow the system call memfd_create.",
        )
    return Finding(OK, "memory files can be made; nothing is kept in /dev/shm")


def _process_descriptors() -> Finding:
    if not hasattr(os, "pidfd_open"):
        return Finding(NOTE, "pidfd_open was not tried: Python 3.9 and later can")
    try:
        os.close(os.pidfd_open(os.getpid()))
    except OSError as error:
        return Finding(
            NOTE,
            f"pidfd_open is refused ({error}): the end of a rank is noticed after half a second "
            f"instead of at once.",
        )
    return Finding(OK, "the end of a rank is noticed at once (pidfd_open)")

"""Finds the processes of a job by a variable in their environment, whatever they have become."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Dict, List, NamedTuple

# Every process that a job starts, and all of their children, inherit it with the job's own value.
JOB_VARIABLE = "HARNESS_JOB"


class Process(NamedTuple):
    pid: int
    parent: int
    command: str
    environment: Dict[str, str]


def of_job(job: str) -> List[Process]:
    """Returns the processes of a job that run, zombies not among them."""
    marker = f"{JOB_VARIABLE}={job}".encode()
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        # A process may end, or be another user's, between any two of these lines.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            variables = _read(name, "environ").split(b"\0")
            if marker not in variables:
                continue
            state, parent = _read(name, "stat").rpartition(b")")[2].split()[:2]
            if state in (b"Z", b"X"):
                continue
            command = _read(name, "cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
            pairs = (v.decode(errors="replace").partition("=") for v in variables)
            found.append(Process(int(name), int(parent), command, {k: v for k, _, v in pairs}))
    return found


def kill_all(job: str, limit: float = 10.0) -> None:
    """Kills all processes of a job, those too that they start meanwhile."""
    wait_until_gone(job, limit, signal.SIGKILL)


def wait_until_gone(job: str, limit: float, number: int = 0) -> List[Process]:
    """Waits until a job has no processes, sends them a signal meanwhile, and returns the rest."""
    deadline = time.monotonic() + limit
    while True:
        processes = of_job(job)
        for process in processes:
            if number:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, number)
        if not processes or time.monotonic() > deadline:
            return processes
        time.sleep(0.01)  # polled: processes that are not our children say nothing when they end


def _read(pid: str, name: str) -> bytes:
    with open(f"/proc/{pid}/{name}", "rb") as file:
        return file.read()

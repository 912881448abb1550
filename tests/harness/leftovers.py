"""Finds what a job has left in the places where shared memory and temporary files live."""

from __future__ import annotations

import os
import re
import time
from typing import List, Set

FOLDERS = ("/dev/shm", "/tmp")
JOB_FOLDER_PREFIX = "npu-test-job-"

# Of other programs: the test runner's and this harness's folders, those of compilers and pip that
# run on the same machine, and the file in which TensorFlow keeps the source of a converted
# function, which stays when the process is killed.
_OTHERS = re.compile(
    rf"pytest-|{JOB_FOLDER_PREFIX}|cc\w{{6}}\.|pip-[a-z-]+-\w+|__autograph_generated_file"
)


def snapshot() -> Set[str]:
    """Returns the paths of all entries of FOLDERS that are this user's."""
    found = set()
    for folder in FOLDERS:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            try:
                if os.lstat(path).st_uid == os.getuid() and not _OTHERS.match(name):
                    found.add(path)
            except FileNotFoundError:
                continue
    return found


def new_since(before: Set[str], limit: float = 5.0) -> List[str]:
    """Returns entries that were not there in a snapshot, that stay, and that nobody uses.

    Called when a job's processes are gone: what a process uses then is another program's, and so
    is what goes away within `limit` seconds.
    """
    deadline = time.monotonic() + limit
    others: Set[str] = set()
    while True:
        found = snapshot() - before - others
        others |= _used(found)
        found -= others
        if not found or time.monotonic() > deadline:
            return sorted(found)
        time.sleep(0.05)


def _used(paths: Set[str]) -> Set[str]:
    """Returns those paths that a process has open, works in, or has on its command line."""
    used: Set[str] = set()
    for pid in filter(str.isdigit, os.listdir("/proc") if paths else []):
        try:
            with open(f"/proc/{pid}/cmdline", errors="replace") as file:
                mentioned = file.read()
            files = [f"/proc/{pid}/fd/{fd}" for fd in os.listdir("/proc/%s/fd" % pid)]
            links = [os.readlink(link) for link in [*files, "/proc/%s/cwd" % pid]]
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has ended, or is another user's, whose files do not count
        for path in paths:
            if path in mentioned or any((link + "/").startswith(path + "/") for link in links):
                used.add(path)
    return used


def temporary_files(folder: str) -> List[str]:
    """Returns what is in the folder that a job had for temporary files."""
    return sorted(name for name in os.listdir(folder) if not _OTHERS.match(name))

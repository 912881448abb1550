"""One rank: a process in a process group of its own that cannot outlive the launcher."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from typing import Dict, List, Optional

_PR_SET_PDEATHSIG = 1
# Loaded before any fork: the child between fork and exec must not import or allocate much.
_prctl = ctypes.CDLL(None, use_errno=True).prctl


class StartError(RuntimeError):
    """A rank could not be started. The text is a sentence for the user."""


class RankProcess:
    """A rank that runs, or has ended.

    Its process group holds what it starts itself, so that a signal reaches all of it and nothing
    else. The session stays the launcher's: ranks of one session find each other without delay.

    Ranks must be started by the main thread, before other threads exist: the kernel ends them when
    the thread that started them dies, and only async-signal-safe code may run after a fork of a
    process with threads.

    Args:
        rank: its number.
        command: what to execute.
        environment: all of it.
        stdin: a descriptor, or subprocess.PIPE or subprocess.DEVNULL.

    Attributes:
        exit_code: None while it runs; negative when a signal ended it.
        ended_at: when its end was noted, in time.monotonic() seconds; set by the supervisor.

    Raises:
        StartError: the system could not start it.
    """

    def __init__(self, rank: int, command: List[str], environment: Dict[str, str], stdin: int):
        self.rank = rank
        self.exit_code: Optional[int] = None
        self.ended_at = 0.0
        launcher = os.getpid()

        def prepare() -> None:
            os.setpgid(0, 0)
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            # The launcher may have died before the line above: then no signal comes.
            if os.getppid() != launcher:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            self._process = subprocess.Popen(
                command,
                env=environment,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                preexec_fn=prepare,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise StartError(f"rank {rank} could not be started: {error}.")
        assert self._process.stdout is not None and self._process.stderr is not None
        self.stdout = self._process.stdout
        self.stderr = self._process.stderr
        self.stdin = self._process.stdin

    @property
    def pid(self) -> int:
        """Process id, also the id of its process group."""
        return self._process.pid

    @property
    def released(self) -> bool:
        """Whether it has ended and its process id was given back to the system."""
        return self._process.returncode is not None

    def send(self, number: int) -> None:
        """Sends a signal to the rank and to all that it started, if any of it is left."""
        # Until release() the id cannot belong to anyone else, even when the rank has ended.
        if not self.released:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def check_ended(self) -> bool:
        """Returns whether the rank has ended, and notes its exit code; its id stays taken."""
        if self.exit_code is None:
            options = os.WEXITED | os.WNOHANG | os.WNOWAIT
            found = os.waitid(os.P_PID, self.pid, options)
            if found is None:
                return False
            exited = found.si_code == os.CLD_EXITED
            self.exit_code = found.si_status if exited else -found.si_status
        return True

    def has_children(self) -> bool:
        """Returns whether processes that an ended rank has started still run in its group."""
        return any(
            _runs_in_group(name, self.pid)
            for name in os.listdir("/proc")
            if name.isdigit() and int(name) != self.pid
        )

    def release(self) -> None:
        """Kills what is left of an ended rank's group and gives its process id back."""
        self.send(signal.SIGKILL)
        self._process.wait()


def _runs_in_group(name: str, group: int) -> bool:
    """Returns whether the process called `name` in /proc is alive and in a process group."""
    try:
        with open(f"/proc/{name}/stat", "rb") as file:
            # After the command, in parentheses and possibly with some inside: state, parent, group.
            fields = file.read().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return False  # it has ended since
    return fields[0] not in (b"Z", b"X") and int(fields[2]) == group

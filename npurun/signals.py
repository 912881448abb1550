"""Signals as bytes in a pipe, so that the launcher's loop handles them one by one."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import List, Optional

# Not a signal: something else happened that the loop must look at.
WAKE = 0

_HANDLED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGTSTP,
    signal.SIGCHLD,
)


class SignalPipe:
    """Collects this process's signals from its making on.

    A signal that was ignored when the launcher started stays ignored (nohup; Ctrl-C for what a
    script's shell starts in the background), except the death of ranks.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        for number in _HANDLED:
            if number == signal.SIGCHLD or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, _noted)

    def fileno(self) -> int:
        """The descriptor that can be read when read() has something."""
        return self._read

    def wake(self) -> None:
        """Makes read() return WAKE. May be called by any thread."""
        try:
            os.write(self._write, bytes([WAKE]))
        except BlockingIOError:
            pass  # full: the loop has reason enough to wake

    def read(self) -> List[int]:
        """Returns the numbers of the signals that have come, in their order."""
        try:
            return list(os.read(self._read, 4096))
        except BlockingIOError:
            return []


def _noted(number: int, frame: Optional[FrameType]) -> None:
    """Does nothing: Python has written the number to the pipe."""

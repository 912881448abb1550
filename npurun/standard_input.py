"""Standard input, which rank 0 alone gets."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import time
from typing import IO, Optional

_READ_BYTES = 1 << 16
# A launcher in the background looks this often whether it was brought to the foreground.
_BACKGROUND_SECONDS = 1.0


def of_rank(rank: int) -> int:
    """Returns what a rank's standard input is made of: a descriptor, or a constant of subprocess.

    Rank 0 inherits a file or pipe. A terminal may only be read by the foreground process group,
    which is the launcher's: StandardInput hands on what is typed there.
    """
    if rank != 0:
        return subprocess.DEVNULL
    return subprocess.PIPE if os.isatty(0) else 0


class StandardInput:
    """Hands what is typed at the launcher's terminal to rank 0.

    Args:
        pipe: rank 0's standard input; None when there is nothing to hand on.
        selector: the launcher's, whose events go to handle().
    """

    def __init__(self, pipe: Optional[IO[bytes]], selector: selectors.BaseSelector):
        self._pipe = pipe
        self._selector = selector
        self._unsent = b""
        self._look_again: Optional[float] = None
        if pipe is not None:
            os.set_blocking(pipe.fileno(), False)
            selector.register(0, selectors.EVENT_READ, self)

    def close(self) -> None:
        """Hands nothing on any more."""
        self._look_again = None
        for file in (0, self._pipe):
            with contextlib.suppress(KeyError):
                if file is not None:
                    self._selector.unregister(file)
        if self._pipe is not None:
            self._pipe.close()
            self._pipe = None

    def timeout(self) -> Optional[float]:
        """Returns the seconds after which tick() has something to do, or None."""
        return None if self._look_again is None else max(0.0, self._look_again - time.monotonic())

    def tick(self) -> None:
        """Listens to the terminal again, some time after it could not be read."""
        if self._look_again is not None and time.monotonic() >= self._look_again:
            self._look_again = None
            self._selector.register(0, selectors.EVENT_READ, self)

    def handle(self) -> None:
        """Moves bytes on, when the terminal can be read or the pipe can be written."""
        if self._pipe is None:
            return
        if self._unsent:
            self._send()
            return
        try:
            in_foreground = os.tcgetpgrp(0) == os.getpgrp()
            # Reading in the background would stop the launcher.
            data = os.read(0, _READ_BYTES) if in_foreground else None
        except OSError:
            data = b""  # the terminal is gone
        if data is None:
            self._selector.unregister(0)
            self._look_again = time.monotonic() + _BACKGROUND_SECONDS
        elif data:
            self._unsent = data
            self._selector.unregister(0)
            self._selector.register(self._pipe, selectors.EVENT_WRITE, self)
        else:
            self._selector.unregister(0)
            self._pipe.close()
            self._pipe = None

    def _send(self) -> None:
        assert self._pipe is not None
        try:
            self._unsent = self._unsent[os.write(self._pipe.fileno(), self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            # Rank 0 has closed its input, or ended.
            self._selector.unregister(self._pipe)
            self._pipe.close()
            self._pipe = None
            self._unsent = b""
            return
        if not self._unsent:
            self._selector.unregister(self._pipe)
            self._selector.register(0, selectors.EVENT_READ, self)

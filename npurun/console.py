"""The launcher's own output and error streams: ranks' lines with the rank in front."""

from __future__ import annotations

import os
import selectors
import threading
from typing import List, Optional, Tuple

# Cyan, yellow, green, magenta, blue, red and their bright forms: told apart on dark and light.
_COLORS = (36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91)


def write_all(descriptor: int, data: bytes) -> None:
    """Writes all of `data`, also where the descriptor does not block.

    Raises:
        OSError: it cannot be written.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            # Another process made the terminal or pipe, which is shared with us, non-blocking.
            with selectors.DefaultSelector() as selector:
                selector.register(descriptor, selectors.EVENT_WRITE)
                selector.select()


class Console:
    """The launcher's own output and error streams.

    Args:
        color: False for no colours. Else they are used on terminals, unless NO_COLOR is set.
    """

    def __init__(self, color: bool = True):
        # Guards writes and _unfinished: ranks' lines come from the reader's thread.
        self._lock = threading.Lock()
        self._terminal = {stream: os.isatty(stream) for stream in (1, 2)}
        plain = not color or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        self._color = {stream: self._terminal[stream] and not plain for stream in (1, 2)}
        # The stream and rank of the beginning of a line that stands at a terminal's cursor.
        self._unfinished: Optional[Tuple[int, int]] = None

    def is_terminal(self, stream: int) -> bool:
        """Whether stream 1 or 2 is a terminal."""
        return self._terminal[stream]

    def show(self, stream: int, rank: int, lines: List[bytes]) -> None:
        """Writes lines of a rank. One without a newline may be continued, on a terminal.

        Raises:
            OSError: the stream cannot be written.
        """
        prefix = self._prefix(stream, rank)
        with self._lock:
            text = b"".join(self._place(stream, rank, prefix, line) for line in lines)
            write_all(stream, text)

    def say(self, text: str) -> None:
        """Writes a line of the launcher's own to the error stream, if it can be written at all."""
        line = b"npurun: " + text.encode(errors="replace") + b"\n"
        # A pager that does not read keeps the reader's thread in its write, and the lock taken:
        # the launcher itself must not wait for it.
        locked = self._lock.acquire(timeout=1.0)
        try:
            write_all(2, self._end_unfinished() + line)
        except OSError:
            pass  # nowhere left to say it
        finally:
            if locked:
                self._lock.release()

    def finish(self) -> None:
        """Ends the line that stands at the cursor."""
        with self._lock:
            end = self._end_unfinished()
            if end:
                write_all(1 if self._terminal[1] else 2, end)

    def _prefix(self, stream: int, rank: int) -> bytes:
        text = f"[{rank}] "
        if self._color[stream]:
            text = f"\x1b[{_COLORS[rank % len(_COLORS)]}m[{rank}]\x1b[0m "
        return text.encode()

    def _place(self, stream: int, rank: int, prefix: bytes, line: bytes) -> bytes:
        finished = line.endswith(b"\n")
        if not self._terminal[stream]:
            return prefix + line + (b"" if finished else b"\n")
        body, end = (line[:-1], b"\n") if finished else (line, b"")
        if body.endswith(b"\r") and finished:
            body, end = body[:-1], b"\r\n"
        # A progress bar goes back to the start of the line and would write over the rank.
        body = body.replace(b"\r", b"\r" + prefix) + end
        if self._unfinished != (stream, rank):
            body = self._end_unfinished() + prefix + body
        self._unfinished = None if finished else (stream, rank)
        return body

    def _end_unfinished(self) -> bytes:
        end = b"\n" if self._unfinished else b""
        self._unfinished = None
        return end

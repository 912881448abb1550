"""Cuts what a rank writes into lines, and keeps the last ones."""

from __future__ import annotations

import collections
from typing import Deque, Dict, List

# A longer line is shown in several, each with its rank: waiting for its end could take all memory.
MAX_LINE_BYTES = 1 << 20

_KEPT_LINES = 200
_KEPT_LINE_BYTES = 4096
_SHOWN_LINES = 40
_TRACEBACK = b"Traceback (most recent call last):"


class LineSplitter:
    """Cuts a stream of bytes, of any encoding or none, after each newline."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> List[bytes]:
        """Takes the next bytes and returns the lines that they complete, with their newlines.

        A line over MAX_LINE_BYTES comes in pieces, of which only the last ends with a newline.
        """
        self._pending += chunk
        if b"\n" not in chunk and len(self._pending) < MAX_LINE_BYTES:
            return []
        lines: List[bytes] = []
        *complete, rest = bytes(self._pending).split(b"\n")
        for line in complete:
            lines += _cut(line + b"\n")
        pieces = _cut(rest) if len(rest) >= MAX_LINE_BYTES else [rest]
        lines += pieces[:-1]
        self._pending = bytearray(pieces[-1])
        return lines

    def flush(self) -> bytes:
        """Returns, and forgets, the beginning of a line whose end has not come."""
        piece = bytes(self._pending)
        self._pending.clear()
        return piece

    @property
    def pending(self) -> bool:
        """Whether there is the beginning of a line."""
        return bool(self._pending)


def _cut(line: bytes) -> List[bytes]:
    """Cuts a line into pieces below MAX_LINE_BYTES, never inside a UTF-8 character."""
    pieces = []
    while len(line) > MAX_LINE_BYTES:
        end = MAX_LINE_BYTES
        # A character has at most three bytes after its first; more are no UTF-8.
        while end > MAX_LINE_BYTES - 4 and line[end] & 0xC0 == 0x80:
            end -= 1
        pieces.append(line[:end])
        line = line[end:]
    return [*pieces, line]


class LastLines:
    """The last lines of one rank, for the report after its failure."""

    def __init__(self) -> None:
        self._lines: Dict[int, Deque[bytes]] = {
            stream: collections.deque(maxlen=_KEPT_LINES) for stream in (1, 2)
        }

    def add(self, stream: int, line: bytes) -> None:
        """Takes a line of stream 1 (output) or 2 (errors)."""
        if len(line) > _KEPT_LINE_BYTES:
            line = line[:_KEPT_LINE_BYTES] + b" ..."
        self._lines[stream].append(line.rstrip(b"\r\n"))

    def shown(self) -> List[bytes]:
        """Returns the lines to show: the last traceback where there is one, else the last few.

        Errors go before output: a rank that failed says why on its error stream, if at all.
        """
        lines = list(self._lines[2] or self._lines[1])
        starts = [i for i, line in enumerate(lines) if line.startswith(_TRACEBACK)]
        if not starts:
            return lines[-_SHOWN_LINES:]
        first = starts[-1]
        # "During handling of the above exception": the cause, above it, belongs to it.
        for start in reversed(starts[:-1]):
            between = b" ".join(lines[start:first])
            if not between.rstrip().endswith(_CHAINED):
                break
            first = start
        return lines[first:]


# How Python joins an exception to the one that it came from.
_CHAINED = (
    b"During handling of the above exception, another exception occurred:",
    b"The above exception was the direct cause of the following exception:",
)

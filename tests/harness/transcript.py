"""What the ranks of a job have written so far, and waiting for a line of it."""

from __future__ import annotations

import re
import threading
from typing import Callable, Dict, List, NamedTuple, Optional

LAUNCHER = -1  # stands for npurun in the place of a rank

_PREFIX = re.compile(r"\[ *(\d+)\] ?(.*)", re.DOTALL)


class Line(NamedTuple):
    stream: int  # 1: output, 2: errors
    text: str  # with its newline, except where the stream ended without one


class Transcript:
    """Lines by rank, in the order in which they arrived. Safe to use from several threads."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._lines: Dict[int, List[Line]] = {}
        self._pending: Dict[object, bytes] = {}

    def add(self, rank: int, stream: int, chunk: bytes, split_ranks: bool = False) -> None:
        """Adds bytes that arrived; an empty chunk ends the stream.

        Args:
            rank: whose.
            stream: 1 or 2.
            chunk: bytes, of any length.
            split_ranks: whether lines carry the rank in front, as npurun writes them.
        """
        key = (rank, stream)
        data = self._pending.pop(key, b"") + chunk
        if chunk:
            complete, newline, self._pending[key] = data.rpartition(b"\n")
            data = complete + newline
        with self.changed:
            for raw in data.splitlines(True) if data else []:
                text = raw.decode("utf-8", "replace")
                match = _PREFIX.match(text) if split_ranks else None
                if match:
                    self._append(int(match.group(1)), Line(stream, match.group(2)))
                else:
                    self._append(rank, Line(stream, text))
            self.changed.notify_all()

    def text(self, rank: int, stream: Optional[int] = None) -> str:
        """Returns what a rank has written, to one stream or to both."""
        with self.changed:
            lines = self._lines.get(rank, [])
            return "".join(line.text for line in lines if stream in (None, line.stream))

    def wait_for_line(
        self, rank: int, text: str, count: int, has_ended: Callable[[], bool]
    ) -> Optional[str]:
        """Waits for the `count`th line of a rank that contains a text.

        Returns:
            The line; None when has_ended() is true before it has come. Whoever makes has_ended()
            true notifies `changed`.
        """
        with self.changed:
            while True:
                # Asked first: lines that come before the end are there when it is true.
                ended = has_ended()
                found = [line.text for line in self._lines.get(rank, []) if text in line.text]
                if len(found) >= count:
                    return found[count - 1].rstrip("\n")
                if ended:
                    return None
                self.changed.wait()

    def _append(self, rank: int, line: Line) -> None:
        self._lines.setdefault(rank, []).append(line)

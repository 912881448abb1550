"""Reads what ranks write, shows it line by line and keeps it in files."""

from __future__ import annotations

import os
import selectors
import threading
import time
from typing import IO, Callable, Dict, List, Optional

from npurun.console import Console, write_all
from npurun.lines import LastLines, LineSplitter

_READ_BYTES = 1 << 16
# A prompt or a progress bar has no newline: on a terminal it is shown after this silence.
_PARTIAL_LINE_SECONDS = 0.2
# A process that left its rank's group may hold its output open for ever.
_DRAIN_SECONDS = 1.0


class LogFolder:
    """A file per rank with all that it writes, as it wrote it.

    Args:
        path: the folder, made if it is not there.
        ranks: number of ranks.

    Raises:
        OSError: it cannot be written.
    """

    def __init__(self, path: str, ranks: int):
        os.makedirs(path, exist_ok=True)
        self._files: Dict[int, IO[bytes]] = {}
        for rank in range(ranks):
            self._files[rank] = open(os.path.join(path, f"rank_{rank}.log"), "wb", buffering=0)

    def write(self, rank: int, lines: List[bytes]) -> None:
        """Appends lines to a rank's file.

        Raises:
            OSError: it cannot be written; this rank's file then takes no more.
        """
        file = self._files.get(rank)
        if file is not None:
            try:
                write_all(file.fileno(), b"".join(lines))
            except OSError:
                self._files.pop(rank).close()
                raise

    def close(self) -> None:
        """Closes all files."""
        for file in self._files.values():
            file.close()
        self._files.clear()


class _Source:
    """One stream of one rank."""

    def __init__(self, rank: int, stream: int, file: IO[bytes]):
        self.rank = rank
        self.stream = stream
        self.file = file
        self.splitter = LineSplitter()
        self.last_read = 0.0


class OutputReader:
    """A thread that reads all ranks' streams and shows them.

    Reading and writing have a thread of their own so that a slow reader of the launcher's output
    slows ranks down, but never keeps the launcher from signals.

    Args:
        console: where lines are shown.
        logs: where they are kept, or None.
        notify: called, from the thread, when writing has failed and when all is read.

    Attributes:
        write_error: why the console cannot be written, or None. What ranks write is then lost.
    """

    def __init__(self, console: Console, logs: Optional[LogFolder], notify: Callable[[], None]):
        self.write_error: Optional[OSError] = None
        self._console = console
        self._logs = logs
        self._notify = notify
        self._last: Dict[int, LastLines] = {}
        self._selector = selectors.DefaultSelector()
        self._open: List[_Source] = []
        self._draining = threading.Event()
        self._wake_read, self._wake_write = os.pipe()
        self._selector.register(self._wake_read, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run, name="output", daemon=True)

    def add(self, rank: int, stream: int, file: IO[bytes]) -> None:
        """Adds a stream of a rank: 1 for its output, 2 for its errors. Before start() only."""
        source = _Source(rank, stream, file)
        self._open.append(source)
        self._last.setdefault(rank, LastLines())
        self._selector.register(file, selectors.EVENT_READ, source)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def drain(self) -> None:
        """Makes the thread end when all streams are at their end, or silent for a second."""
        self._draining.set()
        os.write(self._wake_write, b"\0")

    @property
    def finished(self) -> bool:
        """Whether all is read and shown."""
        return not self._thread.is_alive()

    def last_lines(self, rank: int) -> List[bytes]:
        """Returns the last lines of a rank. Once finished only."""
        return self._last[rank].shown()

    def _run(self) -> None:
        try:
            while self._open:
                events = self._selector.select(self._timeout())
                if not events and self._draining.is_set():
                    break
                for key, _ in events:
                    if key.data is None:
                        os.read(self._wake_read, _READ_BYTES)
                    else:
                        self._read(key.data)
                self._show_partial_lines()
            for source in list(self._open):
                self._end(source)
        finally:
            self._notify()

    def _timeout(self) -> Optional[float]:
        if self._draining.is_set():
            return _DRAIN_SECONDS
        waiting = any(
            s.splitter.pending and self._console.is_terminal(s.stream) for s in self._open
        )
        return _PARTIAL_LINE_SECONDS if waiting else None

    def _read(self, source: _Source) -> None:
        chunk = os.read(source.file.fileno(), _READ_BYTES)
        if not chunk:
            self._end(source)
            return
        source.last_read = time.monotonic()
        self._pass_on(source, source.splitter.feed(chunk))

    def _end(self, source: _Source) -> None:
        self._pass_on(source, [source.splitter.flush()])
        self._selector.unregister(source.file)
        self._open.remove(source)

    def _show_partial_lines(self) -> None:
        now = time.monotonic()
        for source in self._open:
            silent = now - source.last_read >= _PARTIAL_LINE_SECONDS
            if silent and source.splitter.pending and self._console.is_terminal(source.stream):
                self._pass_on(source, [source.splitter.flush()])

    def _pass_on(self, source: _Source, lines: List[bytes]) -> None:
        lines = [line for line in lines if line]
        if not lines:
            return
        for line in lines:
            self._last[source.rank].add(source.stream, line)
        if self._logs is not None:
            try:
                self._logs.write(source.rank, lines)
            except OSError as error:
                self._console.say(f"log of rank {source.rank} stops here: {error}.")
        if self.write_error is None:
            try:
                self._console.show(source.stream, source.rank, lines)
            except OSError as error:
                self.write_error = error
                self._notify()

"""Runs the processes of a job in the background: reads them, notes their ends, keeps the limit."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from typing import IO, Any, Dict, List, Optional, Sequence, Tuple, Union

from tests.harness import fork_client, processes
from tests.harness.program import HERE
from tests.harness.transcript import LAUNCHER, Transcript

_READ_BYTES = 1 << 16
# At the limit: time to write stacks after SIGABRT.
_STACKS_SECONDS = 3.0
# A process that has left the job may hold its output open; what the job wrote is there by then.
_DRAIN_SECONDS = 2.0
SETTLE_SECONDS = 10.0  # for processes that outlive their rank by a moment


class Runner:
    """What shell loops and npurun have in common.

    Args:
        job: the job's name.
        ranks: number of ranks.
        transcript: takes what they write; also guards the attributes.
        limit: seconds until everything is killed.

    Attributes:
        exit_codes: of ranks that have ended, and of npurun under LAUNCHER.
        timed_out: whether the job was killed at its limit.
        left_processes: those that were still there when the job had ended by itself.
        reported: those whose exit codes this can see: ranks, or npurun alone.
    """

    def __init__(self, job: str, ranks: int, transcript: Transcript, limit: float):
        self.exit_codes: Dict[int, int] = {}
        self.timed_out = False
        self.left_processes: List[processes.Process] = []
        self.reported: List[int] = []
        self._job = job
        self._ranks = ranks
        self._transcript = transcript
        self._deadline = time.monotonic() + limit
        self._selector = selectors.DefaultSelector()
        self._process: Union[subprocess.Popen[bytes], fork_client.ForkedLoop, None] = None
        self._inputs: Dict[int, IO[bytes]] = {}
        self._thread = threading.Thread(target=self._run, name="job " + job, daemon=True)

    def start(
        self, command: Sequence[str], environments: List[Dict[str, str]], folder: Optional[str]
    ) -> None:
        """Starts the processes and the thread that reads them."""
        raise NotImplementedError

    def process_id(self, rank: int) -> int:
        """Returns the process id of a rank, or of npurun for LAUNCHER."""
        raise NotImplementedError

    def ended(self, rank: int) -> bool:
        """Whether a rank has ended."""
        return rank in self.exit_codes or not self._thread.is_alive()

    def send(self, rank: int, number: int) -> None:
        """Sends a signal to a rank, if it still runs."""
        with self._transcript.changed:
            if not self.ended(rank):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.process_id(rank), number)

    def close_input(self, rank: int) -> None:
        """Ends a rank's standard input."""
        self._inputs.pop(rank).close()

    def wait(self) -> None:
        """Waits for the end of the job."""
        self._thread.join()

    def kill(self) -> None:
        """Kills all processes of the job."""
        processes.kill_all(self._job)

    def _run(self) -> None:
        try:
            self._read_until_end()
            if not self.timed_out:
                self.left_processes = processes.wait_until_gone(self._job, SETTLE_SECONDS)
        finally:
            self.kill()
            assert self._process is not None
            self._process.wait()
            for file in self._inputs.values():
                file.close()
            self._selector.close()
            with self._transcript.changed:
                self._transcript.changed.notify_all()

    def _read_until_end(self) -> None:
        drain_until: Optional[float] = None
        while self._selector.get_map() or not self._has_ended():
            now = time.monotonic()
            if drain_until is None and self._has_ended():
                drain_until = now + _DRAIN_SECONDS
            if drain_until is not None and now >= drain_until:
                break
            if now >= self._deadline and not self.timed_out:
                self._end_at_limit()
                drain_until = time.monotonic() + _DRAIN_SECONDS
                continue
            until = self._deadline if drain_until is None else drain_until
            # Not longer than a moment: the end of a process makes nothing readable by itself.
            self._read_ready(max(0.0, min(until - now, 0.2)))

    def _register(self, file: IO[bytes], handler: Any) -> None:
        os.set_blocking(file.fileno(), False)
        self._selector.register(file, selectors.EVENT_READ, handler)

    def _read_ready(self, timeout: float) -> None:
        """Reads once from each file that can be read."""
        for key, _ in self._selector.select(timeout):
            self._read(key.fileobj, key.data)

    def _read(self, file: Any, handler: Any) -> bool:
        """Reads once; returns whether there was something, and ends with the file's end."""
        if file.closed:
            return False
        try:
            chunk = os.read(file.fileno(), _READ_BYTES)
        except BlockingIOError:
            return False  # read to its momentary end after it was found ready
        handler(chunk)
        if not chunk:
            self._selector.unregister(file)
            file.close()
        return bool(chunk)

    def _has_ended(self) -> bool:
        assert self._process is not None
        return self._process.poll() is not None

    def _end_at_limit(self) -> None:
        with self._transcript.changed:
            self.timed_out = True
        for process in processes.of_job(self._job):
            # faulthandler writes the stacks of all threads.
            if "RANK_ID" in process.environment:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGABRT)
        until = time.monotonic() + _STACKS_SECONDS
        while time.monotonic() < until and not self._has_ended():
            self._read_ready(0.2)
        self.kill()


class LoopRunner(Runner):
    """Ranks started by shell_loop.py.

    Args:
        job, ranks, transcript, limit: see Runner.
        job_folder: removed by shell_loop.py when the test process dies.
        server: forks the ranks; None starts each as a new interpreter.
    """

    def __init__(
        self,
        job: str,
        ranks: int,
        transcript: Transcript,
        limit: float,
        job_folder: str,
        server: Optional[fork_client.Server],
    ):
        super().__init__(job, ranks, transcript, limit)
        self.reported = list(range(ranks))
        self._job_folder = job_folder
        self._server = server
        self._process_ids: Dict[int, int] = {}
        self._outputs: Dict[int, List[Tuple[IO[bytes], Any]]] = {}
        self._unread = b""

    def start(
        self, command: Sequence[str], environments: List[Dict[str, str]], folder: Optional[str]
    ) -> None:
        streams = []
        for rank in range(self._ranks):
            read_input, write_input = os.pipe()
            read_output, write_output = os.pipe()
            read_errors, write_errors = os.pipe()
            streams.append([read_input, write_output, write_errors])
            self._inputs[rank] = os.fdopen(write_input, "wb", 0)
            self._outputs[rank] = [
                (os.fdopen(read_output, "rb", 0), self._adder(rank, 1)),
                (os.fdopen(read_errors, "rb", 0), self._adder(rank, 2)),
            ]
            for file, handler in self._outputs[rank]:
                self._register(file, handler)
        inherited = [descriptor for one in streams for descriptor in one]
        # Not marked as a process of the job: it lives to report the ends of ranks that are killed.
        own = {k: v for k, v in environments[0].items() if k != processes.JOB_VARIABLE}
        if self._server is not None:
            self._process = self._server.start_loop(folder, inherited)
            numbers = map(fork_client.stream_number, range(len(inherited)))
            streams = [[next(numbers) for _ in one] for one in streams]
        else:
            self._process = subprocess.Popen(
                [sys.executable, "-S", os.path.join(HERE, "shell_loop.py")],
                env=own,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=folder,
                pass_fds=inherited,
                start_new_session=True,
            )
        for descriptor in inherited:
            os.close(descriptor)
        assert self._process.stdin is not None and self._process.stdout is not None
        self._register(self._process.stdout, self._note)
        job = {
            "command": list(command),
            "environments": environments,
            "streams": streams,
            "folder": self._job_folder,
        }
        self._process.stdin.write(json.dumps(job).encode() + b"\n")
        self._process.stdin.flush()
        self._thread.start()
        with self._transcript.changed:
            while len(self._process_ids) < self._ranks and self._thread.is_alive():
                self._transcript.changed.wait()

    def process_id(self, rank: int) -> int:
        return self._process_ids[rank]

    def _adder(self, rank: int, stream: int) -> Any:
        return lambda chunk: self._transcript.add(rank, stream, chunk)

    def _note(self, chunk: bytes) -> None:
        """Takes what shell_loop.py reports."""
        *lines, self._unread = (self._unread + chunk).split(b"\n")
        for line in lines:
            event = json.loads(line.decode())
            rank = event["rank"]
            if "exit_code" in event:
                # Whoever sees that a rank has ended has all that it wrote.
                for file, handler in self._outputs[rank]:
                    while self._read(file, handler):
                        pass
            with self._transcript.changed:
                if "pid" in event:
                    self._process_ids[rank] = event["pid"]
                else:
                    self.exit_codes[rank] = event["exit_code"]
                self._transcript.changed.notify_all()


class NpurunRunner(Runner):
    """Ranks started by npurun."""

    def __init__(self, job: str, ranks: int, transcript: Transcript, limit: float):
        super().__init__(job, ranks, transcript, limit)
        self.reported = [LAUNCHER]

    def start(
        self, command: Sequence[str], environments: List[Dict[str, str]], folder: Optional[str]
    ) -> None:
        self._process = subprocess.Popen(
            list(command),
            env=environments[0],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            bufsize=0,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._inputs[0] = self._process.stdin
        for stream, file in ((1, self._process.stdout), (2, self._process.stderr)):
            assert file is not None
            self._register(file, self._adder(stream))
        self._thread.start()

    def process_id(self, rank: int) -> int:
        assert self._process is not None
        if rank == LAUNCHER:
            return self._process.pid
        for process in processes.of_job(self._job):
            is_child = process.parent == self._process.pid
            if is_child and process.environment.get("RANK_ID") == str(rank):
                return process.pid
        raise ProcessLookupError(f"rank {rank} does not run")

    def _adder(self, stream: int) -> Any:
        return lambda chunk: self._transcript.add(LAUNCHER, stream, chunk, split_ranks=True)

    def _has_ended(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        if code is not None and LAUNCHER not in self.exit_codes:
            with self._transcript.changed:
                self.exit_codes[LAUNCHER] = code
                self._transcript.changed.notify_all()
        return code is not None

"""A job of several ranks: starting, waiting, sending signals, and what may be expected of it."""

from __future__ import annotations

import contextlib
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
from types import TracebackType
from typing import Any, List, Mapping, Optional, Sequence, Type

from tests.harness import fork_client, leftovers, program
from tests.harness.runner import LoopRunner, NpurunRunner, Runner
from tests.harness.transcript import LAUNCHER, Transcript

_SHOWN_CHARACTERS = 12000  # of each rank, in a report


class JobError(AssertionError):
    """An expectation that a job did not meet. The text shows every rank's output."""


def run_ranks(ranks: int, script: Optional[program.Program] = None, **options: Any) -> Job:
    """Runs a job to its end. Takes what start_ranks takes."""
    job = start_ranks(ranks, script, **options)
    job.wait()
    return job


def start_ranks(
    ranks: int,
    script: Optional[program.Program] = None,
    *,
    limit: float,
    path: Optional[str] = None,
    arguments: Sequence[Any] = (),
    environment: Optional[Mapping[str, Optional[str]]] = None,
    rank_environment: Optional[Mapping[int, Mapping[str, Optional[str]]]] = None,
    launcher: str = "loop",
    options: Sequence[str] = (),
    tf1: bool = False,
    folder: Optional[str] = None,
    python: str = sys.executable,
    fresh: bool = False,
) -> Job:
    """Starts a job and returns it while it runs.

    Args:
        ranks: number of ranks.
        script: text of a script, or a function at the top level of a file.
        limit: seconds until everything is killed.
        path: path of a script, in place of `script`.
        arguments: of the script, or of the function.
        environment: changes to the environment of all ranks; None removes a variable.
        rank_environment: further changes, by rank. Not with npurun, which gives ranks their own.
        launcher: "loop" or "npurun".
        options: npurun's, before the script.
        tf1: whether the script is written for TensorFlow 1, as for `npurun --tf1`.
        folder: where ranks start; the test's own by default.
        python: the interpreter that runs them.
        fresh: whether each rank is a new interpreter, also where it could be forked.
    """
    given = path if script is None else script
    if given is None or (script is not None and path is not None):
        raise ValueError("give either a script or the path of one")
    if launcher not in ("loop", "npurun") or (launcher == "npurun" and rank_environment):
        raise ValueError("launcher must be loop, or npurun without rank_environment")
    if options and launcher == "loop":
        raise ValueError("options are npurun's")
    forked = launcher == "loop" and not fresh and python == sys.executable
    changed = set(environment or {}).union(*(rank_environment or {}).values())
    forked = forked and fork_client.can_fork(changed)
    server = None
    if forked:
        started_with = program.common_environment()
        if tf1:
            program.enable_tensorflow_1(started_with)
        # Outside the limit: it may take long, and only the first time.
        server = fork_client.server(started_with)
    job = Job(ranks, limit)
    try:
        command = program.command(given, arguments, job.folder)
        common = program.environment(job.name, job.folder)
        if launcher == "npurun":
            command = [
                *program.npurun(python),
                *("-n", str(ranks)),
                *(["--tf1"] if tf1 else []),
                *options,
                *command,
            ]
            variables = program.change(common, environment or {})
            runner: Runner = NpurunRunner(job.name, ranks, job.transcript, limit)
            runner.start(command, [variables], folder)
        else:
            if tf1:
                program.enable_tensorflow_1(common)
            all_variables = []
            for rank in range(ranks):
                exported = {"RANK_ID": str(rank), "RANK_SIZE": str(ranks), "JOB_ID": job.name}
                changed = program.change({**common, **exported}, environment or {})
                own = (rank_environment or {}).get(rank, {})
                all_variables.append(program.change(changed, own))
            runner = LoopRunner(job.name, ranks, job.transcript, limit, job.folder, server)
            runner.start([python, *command], all_variables, folder)
    except BaseException:
        shutil.rmtree(job.folder, ignore_errors=True)
        raise
    job.runner = runner
    return job


class Job:
    """A job that runs or has ended. Made by start_ranks and run_ranks.

    Attributes:
        ranks: number of ranks.
        name: the job's own name, also its JOB_ID in a shell loop.
        results: what each rank's function returned; None where it did not. After wait().
        left_files: names of temporary files that were there at the end. After wait().
    """

    runner: Runner

    def __init__(self, ranks: int, limit: float):
        self.ranks = ranks
        self.limit = limit
        self.name = program.new_job_id()
        self.transcript = Transcript()
        self.folder = tempfile.mkdtemp(prefix=leftovers.JOB_FOLDER_PREFIX)
        os.mkdir(os.path.join(self.folder, "tmp"))
        self.results: List[Any] = [None] * ranks
        self.left_files: List[str] = []
        self._before = leftovers.snapshot()
        self._finished = False

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if kind is not None:
            self.runner.kill()
        self.wait()

    # What it wrote.

    @property
    def outputs(self) -> List[str]:
        """What each rank has written to both streams, in the order in which it arrived."""
        return [self.transcript.text(rank) for rank in range(self.ranks)]

    @property
    def stdout(self) -> List[str]:
        """What each rank has written to its output."""
        return [self.transcript.text(rank, 1) for rank in range(self.ranks)]

    @property
    def stderr(self) -> List[str]:
        """What each rank has written to its error stream."""
        return [self.transcript.text(rank, 2) for rank in range(self.ranks)]

    @property
    def launcher_output(self) -> str:
        """What npurun has written itself."""
        return self.transcript.text(LAUNCHER)

    # How it ended.

    @property
    def exit_codes(self) -> List[Optional[int]]:
        """Each rank's exit code, negative for a signal; None while it runs, and under npurun."""
        return [self.runner.exit_codes.get(rank) for rank in range(self.ranks)]

    @property
    def exit_code(self) -> Optional[int]:
        """npurun's exit code."""
        return self.runner.exit_codes.get(LAUNCHER)

    @property
    def process_ids(self) -> List[int]:
        """Each rank's process id."""
        return [self.runner.process_id(rank) for rank in range(self.ranks)]

    # While it runs.

    def wait(self) -> None:
        """Waits for the end of all ranks, which the limit bounds."""
        if self._finished:
            return
        self._finished = True
        try:
            self.runner.wait()
            self.left_files = leftovers.temporary_files(os.path.join(self.folder, "tmp"))
            for rank in range(self.ranks):
                with contextlib.suppress(FileNotFoundError):
                    path = os.path.join(self.folder, f"result_{rank}.pickle")
                    with open(path, "rb") as file:
                        self.results[rank] = pickle.load(file)
        finally:
            shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for_line(self, rank: int, text: str, count: int = 1) -> str:
        """Waits until a rank has written `count` lines that contain a text; returns the last."""
        line = self.transcript.wait_for_line(rank, text, count, lambda: self.runner.ended(rank))
        if line is None:
            raise self.error(f"rank {rank} ended without writing {text!r}")
        return line

    def wait_for_launcher_line(self, text: str) -> str:
        """Waits until npurun itself has written a line that contains a text, and returns it."""
        return self.wait_for_line(LAUNCHER, text)

    def wait_for_exit(self, rank: int) -> Optional[int]:
        """Waits until a rank has ended and returns its exit code."""
        with self.transcript.changed:
            while not self.runner.ended(rank):
                self.transcript.changed.wait()
        return self.runner.exit_codes.get(rank)

    def send(self, rank: int, number: int) -> None:
        """Sends a signal to a rank that runs."""
        self.runner.send(rank, number)

    def kill(self, rank: int) -> None:
        """Kills a rank with SIGKILL."""
        self.send(rank, signal.SIGKILL)

    def stop(self, rank: int) -> None:
        """Freezes a rank with SIGSTOP."""
        self.send(rank, signal.SIGSTOP)

    def resume(self, rank: int) -> None:
        """Lets a frozen rank go on."""
        self.send(rank, signal.SIGCONT)

    def interrupt(self, rank: int) -> None:
        """Sends a rank what Ctrl-C sends."""
        self.send(rank, signal.SIGINT)

    def send_launcher(self, number: int) -> None:
        """Sends a signal to npurun, and to nothing else."""
        self.send(LAUNCHER, number)

    def close_input(self, rank: int) -> None:
        """Ends a rank's standard input; npurun's is that of rank 0."""
        self.runner.close_input(rank)

    # What is expected.

    def expect_success(self) -> None:
        """Every rank ended with 0, in time, and no process is left."""
        self.wait()
        self._expect_end()
        if any(self.runner.exit_codes.get(one) != 0 for one in self.runner.reported):
            raise self.error("expected success of all ranks")
        self._expect_no_process()

    def expect_exit(self, rank: int, code: int) -> None:
        """A rank ended with this code, negative for a signal; in time."""
        self.wait()
        self._expect_end()
        got = self.runner.exit_codes.get(rank)
        if got != code:
            raise self.error(f"expected exit code {code} of rank {rank}, got {got}")

    def expect_launcher_exit(self, code: int) -> None:
        """npurun ended with this code, in time."""
        self.expect_exit(LAUNCHER, code)

    def expect_failure(self, rank: int) -> None:
        """A rank ended with an exit code other than 0, in time."""
        self.wait()
        self._expect_end()
        if self.runner.exit_codes.get(rank) == 0:
            raise self.error(f"expected failure of rank {rank}")

    def expect_error(self, rank: int, text: str) -> None:
        """A rank failed, and wrote a text; where it breaks lines does not matter."""
        self.expect_failure(rank)
        if _joined(text) not in _joined(self.transcript.text(rank)):
            raise self.error(f"expected rank {rank} to write {text!r}")

    def expect_exception(self, rank: int, name: str, pattern: str = "") -> None:
        """A rank ended with a Python exception of this name whose text matches a pattern."""
        self.expect_failure(rank)
        errors = self.transcript.text(rank, 2)
        # The last line of a traceback: the class, with its module, and the beginning of the text.
        lines = re.finditer(rf"^([\w.]*\.)?{re.escape(name)}\b", errors, re.MULTILINE)
        if not any(re.search(pattern, errors[line.start() :]) for line in lines):
            raise self.error(f"expected rank {rank} to end with {name} matching {pattern!r}")

    def expect_nothing_left(self) -> None:
        """No process is left, no temporary file, and nothing in /dev/shm or /tmp."""
        self.wait()
        self._expect_no_process()
        left = self.left_files + leftovers.new_since(self._before)
        if left:
            raise self.error(f"expected no file to be left: {left}")

    def report(self) -> str:
        """Returns how each rank ended and what it wrote."""
        parts = []
        everyone = [*range(self.ranks), LAUNCHER]
        for rank in everyone:
            text = self.transcript.text(rank)
            code = self.runner.exit_codes.get(rank)
            if rank == LAUNCHER and code is None and not text:
                continue
            if len(text) > _SHOWN_CHARACTERS:
                text = "[...]" + text[-_SHOWN_CHARACTERS:]
            who = "npurun" if rank == LAUNCHER else f"rank {rank}"
            end = "exit code not seen" if code is None else f"exit code {code}"
            parts.append("--- {} ({}) ---\n{}".format(who, end, text.rstrip("\n")))
        return "\n".join(parts)

    def error(self, text: str) -> JobError:
        """Returns an error with what went wrong and the report."""
        if self.runner.timed_out:
            text += f"\nThe job was killed at its limit of {self.limit:g} s."
        return JobError(text + "\n" + self.report())

    def _expect_no_process(self) -> None:
        if self.runner.left_processes:
            commands = [f"{p.command} ({p.pid})" for p in self.runner.left_processes]
            raise self.error("expected no process to be left: " + ", ".join(commands))

    def _expect_end(self) -> None:
        if self.runner.timed_out:
            raise self.error("expected the job to end by itself")


def _joined(text: str) -> str:
    return " ".join(text.split())

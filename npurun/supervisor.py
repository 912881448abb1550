"""Runs a job: starts its ranks, passes signals on, ends all when one fails."""

from __future__ import annotations

import os
import selectors
import signal
import time
from typing import List, Optional

from npurun import report, signals, standard_input
from npurun.console import Console
from npurun.output import LogFolder, OutputReader
from npurun.rank_environment import RankEnvironment
from npurun.rank_process import RankProcess, StartError

# After the first failure the others have until SETTLE to fail by themselves, with a text of their
# own about their peer; then they get SIGTERM, and at KILL SIGKILL. All are gone within 5 s.
SETTLE_SECONDS = 2.5
KILL_SECONDS = 4.0
# What an ended rank has started gets this long, for instance to remove its temporary files.
CHILDREN_SECONDS = 1.0
_CHILDREN_POLL_SECONDS = 0.05
# After a signal, what nobody has read by then is lost.
UNREAD_SECONDS = 3.0
# `timeout` and the like send a signal to the launcher and to its group: one request, not two.
_SAME_REQUEST_SECONDS = 0.5


class Supervisor:
    """One run of a job.

    Args:
        command: what every rank executes.
        environment: what every rank finds in its environment.
        console: where the ranks' lines are shown.
        logs: where they are kept, or None.
        grace: seconds that ranks have to end after SIGINT, SIGTERM or SIGHUP.
    """

    def __init__(
        self,
        command: List[str],
        environment: RankEnvironment,
        console: Console,
        logs: Optional[LogFolder],
        grace: float,
    ):
        self._command = command
        self._environment = environment
        self._console = console
        self._logs = logs
        self._grace = grace
        self._ranks: List[RankProcess] = []
        self._outcome = report.Outcome()
        self._stop_time = 0.0
        # Deadlines in time.monotonic() seconds; None: not set.
        self._terminate_at: Optional[float] = None
        self._kill_at: Optional[float] = None
        self._release_at = 0.0

    def run(self) -> int:
        """Runs the job to its end and returns its exit code.

        Raises:
            StartError: a rank could not be started; those that were are killed.
        """
        self._signals = signals.SignalPipe()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._signals, selectors.EVENT_READ, None)
        self._output = OutputReader(self._console, self._logs, self._signals.wake)
        self._start_ranks()
        self._input = standard_input.StandardInput(self._ranks[0].stdin, self._selector)
        self._output.start()
        while not all(rank.released for rank in self._ranks):
            self._wait()
            self._check_ranks()
            self._check_output()
            self._keep_deadlines()
        if not self._finish_output():
            return report.shell_code(-(self._outcome.stop_signal or signal.SIGINT))
        return report.conclude(self._outcome, self._ranks, self._output.last_lines, self._console)

    def _start_ranks(self) -> None:
        try:
            for number in range(self._environment.ranks):
                rank = RankProcess(
                    number,
                    self._command,
                    self._environment.of_rank(number),
                    standard_input.of_rank(number),
                )
                self._ranks.append(rank)
                self._output.add(number, 1, rank.stdout)
                self._output.add(number, 2, rank.stderr)
        except (StartError, OSError) as error:
            for rank in self._ranks:
                rank.release()
            if isinstance(error, StartError):
                raise
            raise StartError(f"no more ranks can be started: {error}.")

    def _wait(self) -> None:
        """Waits for a signal, a deadline or standard input, and handles signals and input."""
        now = time.monotonic()
        waits = [
            at - now for at in (self._terminate_at, self._kill_at, self._release_at or None) if at
        ]
        input_timeout = self._input.timeout()
        if input_timeout is not None:
            waits.append(input_timeout)
        for key, _ in self._selector.select(max(0.0, min(waits)) if waits else None):
            if key.data is not None:
                key.data.handle()
        self._input.tick()
        for number in self._signals.read():
            self._handle_signal(number)

    def _handle_signal(self, number: int) -> None:
        if number == signal.SIGTSTP:
            self._send(signal.SIGTSTP)
            os.kill(os.getpid(), signal.SIGSTOP)
            self._send(signal.SIGCONT)
        elif number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._stop(number)

    def _stop(self, number: int) -> None:
        now = time.monotonic()
        name = signal.Signals(number).name
        if self._outcome.failed or self._outcome.output_error:
            self._kill()  # the job is ending already, and its exit code stands
        elif self._outcome.stop_signal is None:
            self._outcome.stop_signal = number
            self._stop_time = now
            self._terminate_at = None
            self._kill_at = now + self._grace
            self._send(number)
            self._console.say(
                f"{name} sent to all ranks; they have {self._grace:g} s. Once more kills them."
            )
        elif number != self._outcome.stop_signal or (now - self._stop_time > _SAME_REQUEST_SECONDS):
            self._kill()

    def _send(self, number: int) -> List[RankProcess]:
        """Sends a signal to the ranks that run, and returns them."""
        running = [rank for rank in self._ranks if rank.exit_code is None]
        for rank in running:
            rank.send(number)
        return running

    def _kill(self) -> None:
        self._kill_at = None
        self._outcome.killed += self._send(signal.SIGKILL)

    def _check_ranks(self) -> None:
        now = time.monotonic()
        for rank in self._ranks:
            if rank.exit_code is None and rank.check_ended():
                self._note_end(rank, now)
        self._release_ended(now)

    def _note_end(self, rank: RankProcess, now: float) -> None:
        rank.ended_at = now
        if rank.exit_code == 0:
            return
        if not self._outcome.ending:
            self._outcome.failed.append(rank)
        if (
            self._outcome.stop_signal is None
            and self._terminate_at is None
            and self._kill_at is None
        ):
            self._terminate_at = now + SETTLE_SECONDS
            self._kill_at = now + KILL_SECONDS

    def _release_ended(self, now: float) -> None:
        waiting = False
        for rank in self._ranks:
            if rank.exit_code is None or rank.released:
                continue
            if now - rank.ended_at >= CHILDREN_SECONDS or not rank.has_children():
                rank.release()
            else:
                waiting = True
        self._release_at = now + _CHILDREN_POLL_SECONDS if waiting else 0.0

    def _check_output(self) -> None:
        error = self._output.write_error
        if error is not None and self._outcome.output_error is None:
            self._outcome.output_error = error
            now = time.monotonic()
            self._terminate_at = now
            self._kill_at = now + KILL_SECONDS

    def _keep_deadlines(self) -> None:
        now = time.monotonic()
        if self._terminate_at is not None and now >= self._terminate_at:
            self._terminate_at = None
            self._outcome.ending = True
            self._outcome.terminated = self._send(signal.SIGTERM)
        if self._kill_at is not None and now >= self._kill_at:
            self._kill()

    def _finish_output(self) -> bool:
        """Waits until all is shown, and returns whether it is.

        A pager may take its time. But who sends a signal, or has sent one before, does not want to
        wait for a reader that does not read.
        """
        self._input.close()
        self._output.drain()
        end = time.monotonic() + UNREAD_SECONDS if self._outcome.stop_signal else float("inf")
        while not self._output.finished:
            self._selector.select(min(1.0, max(0.0, end - time.monotonic())))
            numbers = self._signals.read()
            asked = any(n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) for n in numbers)
            if asked or time.monotonic() >= end:
                return False
        if self._logs is not None:
            self._logs.close()
        return True

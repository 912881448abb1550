"""What a job's end was: the exit code, and the sentences that stand last."""

from __future__ import annotations

import signal
from typing import Callable, List, Optional

from npurun.console import Console
from npurun.rank_process import RankProcess


class Outcome:
    """What happened to a job, as far as it cannot be read from its ranks' exit codes.

    Attributes:
        failed: ranks that ended by themselves with an exit code other than 0, in that order.
        ending: whether the launcher has begun to end the others after a failure.
        terminated: ranks that got SIGTERM after another one failed.
        killed: ranks that got SIGKILL.
        stop_signal: the signal that the launcher got and passed on, or None.
        output_error: why the launcher's own output could not be written, or None.
    """

    def __init__(self) -> None:
        self.failed: List[RankProcess] = []
        self.ending = False
        self.terminated: List[RankProcess] = []
        self.killed: List[RankProcess] = []
        self.stop_signal: Optional[int] = None
        self.output_error: Optional[OSError] = None


def shell_code(exit_code: int) -> int:
    """Returns the exit code as a shell gives it: 128 + signal where a signal ended the process."""
    return 128 - exit_code if exit_code < 0 else exit_code


def signal_name(number: int) -> str:
    """Returns a signal's name, also of real-time signals, which have none in Python."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def describe(exit_code: int) -> str:
    """Returns how a process ended, in words."""
    if exit_code < 0:
        text = f"was ended by {signal_name(-exit_code)} (exit code {shell_code(exit_code)})"
        if exit_code == -signal.SIGKILL:
            text += "; the system does that when memory runs out"
        return text
    return f"ended with exit code {exit_code}"


def name_ranks(ranks: List[RankProcess]) -> str:
    """Returns ranks in words: "rank 3", "ranks 0,1,3"."""
    numbers = sorted({rank.rank for rank in ranks})
    text = ",".join(str(number) for number in numbers)
    return ("rank " if len(numbers) == 1 else "ranks ") + text


def conclude(
    outcome: Outcome,
    ranks: List[RankProcess],
    last_lines: Callable[[int], List[bytes]],
    console: Console,
) -> int:
    """Writes what there is to say at the end of a job and returns its exit code.

    Args:
        outcome: what happened.
        ranks: all ranks, which have ended.
        last_lines: gives the last lines of a rank.
        console: where to write.
    """
    try:
        console.finish()
        if outcome.output_error is not None:
            return _output_failed(outcome.output_error, console)
        if outcome.stop_signal is not None:
            return _stopped(outcome, ranks, console)
        if not outcome.failed:
            return 0
        return _rank_failed(outcome, last_lines, console)
    except OSError as error:
        return _output_failed(error, console)


def _output_failed(error: OSError, console: Console) -> int:
    if not isinstance(error, BrokenPipeError):
        console.say(f"the ranks were ended: their output cannot be written: {error}.")
        return 1
    return shell_code(-signal.SIGPIPE)  # as every program whose reader has gone


def _stopped(outcome: Outcome, ranks: List[RankProcess], console: Console) -> int:
    assert outcome.stop_signal is not None
    unclean = [rank for rank in ranks if rank.exit_code != 0]
    if not unclean:
        return 0  # the script handles the signal and calls that a success
    text = f"ended by {signal_name(outcome.stop_signal)}."
    if outcome.killed:
        names = name_ranks(outcome.killed)
        text += f" {names[0].upper()}{names[1:]} had to be killed."
    console.say(text)
    return shell_code(-outcome.stop_signal)


def _rank_failed(
    outcome: Outcome, last_lines: Callable[[int], List[bytes]], console: Console
) -> int:
    first, others = outcome.failed[0], outcome.failed[1:]
    if others:
        console.say(f"{name_ranks(others)} failed after rank {first.rank}.")
    if outcome.terminated:
        killed = [rank for rank in outcome.killed if rank in outcome.terminated]
        console.say(
            "{} still ran after rank {} failed, and got SIGTERM{}.".format(
                name_ranks(outcome.terminated),
                first.rank,
                f"; {name_ranks(killed)} then SIGKILL" if killed else "",
            )
        )
    lines = last_lines(first.rank)
    if lines:
        console.say(f"the last lines of rank {first.rank}, which failed first:")
        console.show(2, first.rank, [line + b"\n" for line in lines])
    assert first.exit_code is not None
    console.say(f"rank {first.rank} {describe(first.exit_code)}.")
    return shell_code(first.exit_code)

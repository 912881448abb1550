"""The command `npurun`: reads the command line and runs the job."""

from __future__ import annotations

import argparse
import os
import re
import sys
from typing import List, Optional, Tuple

from npurun.console import Console
from npurun.output import LogFolder
from npurun.rank_environment import MAX_RANKS, RankEnvironment
from npurun.rank_process import StartError
from npurun.supervisor import Supervisor

# What follows one of these belongs to it: needed to find where the script's own arguments begin.
OPTIONS_WITH_VALUE = ("-n", "--log-dir", "--grace")

# What a shell returns for a command that was not called as it must be.
USAGE_ERROR = 2


def build_parser() -> argparse.ArgumentParser:
    """Returns the parser of npurun's own options, without the script and its arguments."""
    parser = argparse.ArgumentParser(
        prog="npurun",
        usage="npurun -n RANKS [options] script.py [arguments]\n"
        "       npurun -n RANKS [options] -m module [arguments]",
        description="Starts RANKS processes of a Python script on this host, as one job. Each "
        "gets RANK_ID, RANK_SIZE, DEVICE_ID, DEVICE_INDEX, ASCEND_DEVICE_ID, RANK_TABLE_FILE and "
        "JOB_ID. Lines of output carry the rank in front. When a rank fails, the others are ended "
        "and npurun returns its exit code (128 + signal, if a signal ended it).",
        epilog="Threads per rank are bounded to the processors divided by the ranks, unless "
        "OMP_NUM_THREADS, TF_NUM_INTRAOP_THREADS or TF_NUM_INTEROP_THREADS is set. "
        "Standard input goes to rank 0. A second Ctrl-C kills.",
    )
    parser.add_argument("-n", dest="ranks", metavar="RANKS", required=True, help="ranks to start")
    parser.add_argument(
        "--tf1",
        action="store_true",
        help="the script is written for TensorFlow 1: on TensorFlow 2, `import tensorflow` gives "
        "it the compat.v1 API, with version 2 behaviour off",
    )
    parser.add_argument(
        "--log-dir",
        metavar="FOLDER",
        help="also write each rank's output to FOLDER/rank_<rank>.log, without the rank in front",
    )
    parser.add_argument("--no-color", action="store_true", help="no colours on a terminal")
    parser.add_argument(
        "--grace",
        metavar="SECONDS",
        default="30",
        help="time that ranks have to end after Ctrl-C or SIGTERM before they are killed; 30",
    )
    return parser


def split_command(arguments: List[str]) -> Tuple[List[str], List[str]]:
    """Splits a command line into npurun's options and the command, by hand.

    argparse would look for npurun's options among the script's arguments too, and refuse those
    that abbreviate two of them.

    Returns:
        The options, and the command: a script and its arguments, or "-m", a module and its own.
    """
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        if argument == "--":
            return arguments[:position], arguments[position + 1 :]
        if argument == "-m" or not argument.startswith("-"):
            break
        position += 2 if argument in OPTIONS_WITH_VALUE else 1
    return arguments[:position], arguments[position:]


def parse_ranks(text: str) -> int:
    """Returns the number of ranks.

    Raises:
        ValueError: with a sentence, when it is not a number from 1 to MAX_RANKS.
    """
    # int() alone would also take "1_0" and digits of other scripts.
    if re.match(r"[0-9]{1,9}\Z", text) and 1 <= int(text) <= MAX_RANKS:
        return int(text)
    raise ValueError(f"-n {text}: the number of ranks must be an integer from 1 to {MAX_RANKS}.")


def parse_grace(text: str) -> float:
    """Returns the seconds that ranks have to end after a signal.

    Raises:
        ValueError: with a sentence, when it is not a number of seconds up to a day.
    """
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise ValueError(f"--grace {text}: must be seconds, from 0 to 86400.")
    return seconds


def check_command(command: List[str]) -> None:
    """Raises ValueError, with a sentence, when there is no script or it is not there."""
    if not command or command == ["-m"]:
        raise ValueError("no script: name one, as in `npurun -n 4 train.py`.")
    if command[0] != "-m" and not os.path.exists(command[0]):
        raise ValueError(f"script {command[0]} does not exist in {os.getcwd()}.")


def open_standard_descriptors() -> None:
    """Opens /dev/null for each of 0, 1 and 2 that is closed: else the next file would take it."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def main(arguments: Optional[List[str]] = None) -> int:
    """Runs the command line.

    Args:
        arguments: without the program's name; None: those of this process.

    Returns:
        The exit code: 0 when every rank ended with 0; else that of the rank that failed first,
        128 + signal when a signal ended it; 2 when the command line is wrong.
    """
    open_standard_descriptors()
    own, command = split_command(sys.argv[1:] if arguments is None else arguments)
    parser = build_parser()
    options = parser.parse_args(own)
    console = Console(color=not options.no_color)
    try:
        ranks = parse_ranks(options.ranks)
        grace = parse_grace(options.grace)
        check_command(command)
        logs = LogFolder(options.log_dir, ranks) if options.log_dir is not None else None
    except ValueError as error:
        console.say(f"{error} `npurun --help` tells more.")
        return USAGE_ERROR
    except OSError as error:
        console.say(
            f"--log-dir {options.log_dir}: cannot write there: {error}. "
            "Name a folder that can be written."
        )
        return USAGE_ERROR
    environment = RankEnvironment(ranks, os.environ, tensorflow_1=options.tf1)
    for note in environment.notes:
        console.say(note)
    # As `python script.py` does, the interpreter itself finds the script's folder or the module.
    supervisor = Supervisor([sys.executable, *command], environment, console, logs, grace)
    try:
        return supervisor.run()
    except StartError as error:
        console.say(str(error))
        return 1
    finally:
        environment.close()

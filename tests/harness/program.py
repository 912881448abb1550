"""What ranks run: turns the program of a test into a command and an environment."""

from __future__ import annotations

import os
import pickle
import re
import textwrap
import uuid
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from npurun import tf1_compat
from tests.harness.processes import JOB_VARIABLE

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

Program = Union[str, "os.PathLike[str]", Callable[..., Any]]

# Describe the job that the test itself may run in, or change how the ranks behave.
_NOT_INHERITED = re.compile(
    r"(RANK|CM|HCCL|NPU_BRIDGE)_|(DEVICE_ID|DEVICE_INDEX|ASCEND_DEVICE_ID|JOB_ID|PYTEST_.*)\Z"
)


def command(program: Program, arguments: Sequence[Any], folder: str) -> List[str]:
    """Returns the script and its arguments, as they follow `python` or `npurun -n 2`.

    Args:
        program: see tests.harness.
        arguments: a function's arguments, or a script's.
        folder: the job's, where a script's text or a function's arguments are written.
    """
    if callable(program):
        if "." in program.__qualname__ or program.__name__ == "<lambda>":
            raise ValueError(
                f"ranks load {program.__qualname__} from its file: "
                "it must be a function at the top level"
            )
        where = os.path.abspath(program.__code__.co_filename)
        return _call(where, program.__name__, arguments, folder)
    text = os.fspath(program)
    if "\n" in text:
        path = os.path.join(folder, "script.py")
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
    else:
        path = os.path.abspath(text)
        if not os.path.exists(path):
            raise ValueError("neither a script's text, which has a newline, nor a path: " + text)
    return [path] + [str(argument) for argument in arguments]


def npurun(python: str) -> List[str]:
    """Returns the start of a command line that runs npurun, installed or from this checkout."""
    code = (
        "import sys; sys.path.append({!r}); from npurun.command_line import main; sys.exit(main())"
    )
    return [python, "-c", code.format(ROOT)]


def environment(job: str, folder: str) -> Dict[str, str]:
    """Returns what all processes of a job have in their environment, before what a test adds."""
    return {
        **common_environment(),
        "TMPDIR": os.path.join(folder, "tmp"),
        JOB_VARIABLE: job,
    }


def common_environment() -> Dict[str, str]:
    """Returns the part of it that is the same for all jobs."""
    variables = {k: v for k, v in os.environ.items() if not _NOT_INHERITED.match(k)}
    variables.update(
        # Lines must be seen when they are printed, and a killed rank must say where it was.
        PYTHONUNBUFFERED="1",
        PYTHONFAULTHANDLER="1",
        PYTHONDONTWRITEBYTECODE="1",
        PYTHONIOENCODING="utf-8",
        TF_CPP_MIN_LOG_LEVEL=variables.get("TF_CPP_MIN_LOG_LEVEL", "2"),
    )
    return variables


def enable_tensorflow_1(variables: Dict[str, str]) -> None:
    """Does to the environment of a shell loop's ranks what `npurun --tf1` does."""
    folders = [tf1_compat.STARTUP_FOLDER, variables.get("PYTHONPATH", "")]
    variables["PYTHONPATH"] = os.pathsep.join(folder for folder in folders if folder)


def change(variables: Mapping[str, str], changes: Mapping[str, Optional[str]]) -> Dict[str, str]:
    """Returns variables with changes, where None removes one."""
    changed: Dict[str, Optional[str]] = {**variables, **changes}
    return {name: value for name, value in changed.items() if value is not None}


def new_job_id() -> str:
    """Returns a name that no other job has."""
    return "test-" + uuid.uuid4().hex


def _call(where: str, function: str, arguments: Sequence[Any], folder: str) -> List[str]:
    with open(os.path.join(folder, "arguments.pickle"), "wb") as file:
        pickle.dump(tuple(arguments), file)
    return [os.path.join(HERE, "call_function.py"), where, function, folder]

"""The one logger of this project and the two ways in which it keeps quiet.

The logger is called `npu_bridge`. It has no handler and no level of its own, so that the
application decides: without any set-up Python shows its warnings on stderr, and
`logging.basicConfig(level=logging.INFO)` shows the rest.
"""

from __future__ import annotations

import logging
import os
from typing import Any, Mapping

from npu_device._core import environment

LOGGER_NAME = "npu_bridge"

# Bounds the memory of `once` for callers whose messages vary without end.
_MOST_REMEMBERED = 4096

# Values are one object per call: whoever finds its own there was first. A lock would do as well,
# but could be held by a thread that a forked child does not have.
_said: dict[tuple[int, str], object] = {}


def logger() -> logging.Logger:
    """Returns the logger of npu_bridge, npu_device and hccl."""
    return logging.getLogger(LOGGER_NAME)


def once(level: int, message: str, *args: Any) -> bool:
    """Logs a message the first time that this process has it to say.

    Args:
        level: a level of the standard logging module, such as logging.WARNING.
        message: the text, with %-placeholders for `args`.
        *args: values for the placeholders. Messages with other values are other messages.

    Returns:
        True if the message was logged, False if it had been before.
    """
    text = message % args if args else message
    if len(_said) >= _MOST_REMEMBERED:
        _said.clear()
    mine = object()
    if _said.setdefault((level, text), mine) is not mine:
        return False
    logger().log(level, "%s", text)
    return True


def info_from_rank_0(message: str, *args: Any, environ: Mapping[str, str] | None = None) -> bool:
    """Logs a message once at INFO, on one rank of the job only.

    For what is the same on every rank, such as an option that has no effect here. The rank is
    taken from the environment as it is now, without starting anything or fixing what later calls
    read, so this may be called while modules are imported.

    Args:
        message: the text, with %-placeholders for `args`.
        *args: values for the placeholders.
        environ: the environment that says which rank this is; os.environ if None.

    Returns:
        True if this process logged the message.
    """
    if not environment.speaks_for_job(os.environ if environ is None else environ):
        return False
    return once(logging.INFO, message, *args)


def forget() -> None:
    """Lets every message be said again. For tests."""
    _said.clear()

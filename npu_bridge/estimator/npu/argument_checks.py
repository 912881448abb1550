"""Checks of what scripts pass: plain types, and options by the table of session options."""

from __future__ import annotations

import operator
import os
from typing import Any, List, Optional, Sequence

from npu_device._core import session_options

#: What a profile may record.
PROFILING_OPTIONS = ("training_trace", "task_time", "op_trace")
AOE_MODES = ("1", "2", "4")


def check_not_none(value: Any, name: str) -> None:
    """Refuses None.

    Args:
        value: what was passed.
        name: of the argument, for the error.

    Raises:
        ValueError: the value is None.

    Source of the contract: CANN TF Adapter API, util.check_not_none.
    """
    if value is None:
        raise ValueError(f"{name} is None, a value is needed.")


def check_positive_integer(value: Any, name: str) -> None:
    """Refuses everything but integers above 0.

    Args:
        value: what was passed.
        name: of the argument, for the error.

    Raises:
        TypeError: the value is no integer.
        ValueError: it is 0 or less.

    Source of the contract: CANN TF Adapter API, util.check_positive_integer.
    """
    _check_integer(value, name, 1)


def check_nonnegative_integer(value: Any, name: str) -> None:
    """Refuses everything but integers of 0 or more.

    Args:
        value: what was passed.
        name: of the argument, for the error.

    Raises:
        TypeError: the value is no integer.
        ValueError: it is less than 0.

    Source of the contract: CANN TF Adapter API, util.check_nonnegative_integer.
    """
    _check_integer(value, name, 0)


def check_bool_type(value: Any, name: str) -> None:
    """Refuses everything but True and False.

    Args:
        value: what was passed.
        name: of the argument, for the error.

    Raises:
        TypeError: the value is neither.

    Source of the contract: CANN TF Adapter API, util.check_bool_type.
    """
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, allowed is True or False.")


def convert_bool_to_int(value: Any) -> int:
    """Turns a bool into a number.

    Args:
        value: anything.

    Returns:
        1 for True, 0 for False, -1 for all else.

    Source of the contract: CANN TF Adapter API, util.convert_bool_to_int.
    """
    return int(value) if isinstance(value, bool) else -1


def format_string(value: Optional[str], name: str) -> str:
    """Turns what is optional into a text.

    Args:
        value: a str or None.
        name: of the argument, for the error.

    Returns:
        The text, "" for None.

    Raises:
        TypeError: the value is something else.

    Source of the contract: CANN TF Adapter API, util.format_string.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}, allowed is a str or None.")
    return value


def check_profiling_options(profiling_options: Sequence[str] = ()) -> str:
    """Checks what a profile is to record.

    Args:
        profiling_options: one or more of training_trace, task_time and op_trace.

    Returns:
        All of them as one text, with colons between.

    Raises:
        ValueError: there is none, or an unknown one.

    Source of the contract: CANN TF Adapter API, util.check_profiling_options.
    """
    words = isinstance(profiling_options, (list, tuple, set, frozenset))
    if (
        not words
        or not profiling_options
        or any(one not in PROFILING_OPTIONS for one in profiling_options)
    ):
        raise ValueError(
            f"profiling_options is {profiling_options!r}, allowed is a list of one or more of "
            f"{', '.join(PROFILING_OPTIONS)}."
        )
    return ":".join(profiling_options)


def check_path(path: str) -> str:
    """Checks that a folder can be used.

    Args:
        path: of the folder.

    Returns:
        The path without links in it.

    Raises:
        TypeError: the path is no text.
        ValueError: there is no such folder, or this process may not read and write there.

    Source of the contract: CANN TF Adapter API, util.check_path.
    """
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"path is {path!r}, allowed is the path of a folder, a str.")
    real = os.path.realpath(path)
    if not os.path.exists(real):
        raise ValueError(f"There is no folder {path!r}. Create it, or give another.")
    if not os.path.isdir(real):
        raise ValueError(f"{path!r} is no folder. Give the path of one.")
    if not os.access(real, os.R_OK | os.W_OK):
        raise ValueError(f"This process may not read and write in the folder {path!r}.")
    return real


def check_aoe_mode(aoe_mode: Any) -> None:
    """Checks what the tuning engine is asked to do.

    Args:
        aoe_mode: "1" tunes the graph, "2" ops, "4" how gradients are split.

    Raises:
        ValueError: it is something else.

    Source of the contract: CANN TF Adapter API, util.check_aoe_mode.
    """
    if aoe_mode not in AOE_MODES:
        raise ValueError(f"aoe_mode is {aoe_mode!r}, allowed is one of {', '.join(AOE_MODES)}.")


def check_graph_run_mode(graph_run_mode: Any) -> None:
    """Checks whether a graph is for inference or training.

    Args:
        graph_run_mode: 0 for inference, 1 for training.

    Raises:
        TypeError: it is no integer.
        ValueError: it is another number.

    Source of the contract: CANN TF Adapter API, npu_plugin.check_graph_run_mode.
    """
    check_nonnegative_integer(graph_run_mode, "graph_run_mode")
    if graph_run_mode > 1:
        raise ValueError(
            f"graph_run_mode is {graph_run_mode}, allowed is 0 (inference) or 1 (training)."
        )


def listed(where: str, name: str, value: Any, items: str) -> List[Any]:
    """Checks that an argument holds several objects.

    Args:
        where: function that it is passed to.
        name: of the argument.
        value: what was passed.
        items: what it should hold, for the error.

    Returns:
        The objects in a new list.

    Raises:
        TypeError: it is a text, or nothing that can be iterated over.
    """
    try:
        if not isinstance(value, (str, bytes)):
            return list(value)
    except TypeError:
        pass  # the sentence below says more
    raise TypeError(f"{where}: {name} is {value!r}, allowed is a list of {items}.")


def session(where: str, value: Any, method: str = "run") -> Any:
    """Checks that an argument is a session, or has what is needed of one.

    Args:
        where: function that it is passed to as `sess`.
        value: what was passed.
        method: what the function calls.

    Returns:
        The value.

    Raises:
        TypeError: it is something else.
    """
    if isinstance(value, type) or not callable(getattr(value, method, None)):
        raise TypeError(f"{where}: sess is {value!r}, allowed is a session, such as tf.Session().")
    return value


def instance_or_none(value: Any, kind: type, name: str) -> Any:
    """Checks that an argument is an object of a class, or None.

    Args:
        value: what was passed.
        kind: the class.
        name: of the argument, for the error.

    Returns:
        The value.

    Raises:
        ValueError: it is something else; the original raises this class, too.
    """
    if value is not None and not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}, allowed is an object of {kind.__name__} or None.")
    return value


def train_optimizer(where: str, name: str, value: Any) -> Any:
    """Checks that an argument computes and applies gradients as those of tf.train do.

    Args:
        where: class that it is passed to.
        name: of the argument.
        value: what was passed.

    Returns:
        The value.

    Raises:
        TypeError: it is something else.
    """
    for method in ("compute_gradients", "apply_gradients"):
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise TypeError(
                f"{where}: {name} is {value!r}, allowed is an optimizer of tf.train, such as "
                f"tf.train.AdamOptimizer(0.001). npu_distributed_optimizer_wrapper takes those of "
                f"Keras."
            )
    return value


def loss_scale_manager(where: str, value: Any) -> Any:
    """Checks that an argument decides about the factor of a loss.

    Args:
        where: class that it is passed to.
        value: what was passed.

    Returns:
        The value.

    Raises:
        ValueError: it is None.
        TypeError: it is something else.
    """
    example = "such as FixedLossScaleManager(1024)"
    if value is None:
        raise ValueError(f"{where} needs a loss_scale_manager, {example}, got None.")
    for method in ("get_loss_scale", "update_loss_scale"):
        if isinstance(value, type) or not callable(getattr(value, method, None)):
            raise TypeError(
                f"{where}: loss_scale_manager is {value!r}, allowed is an object {example}."
            )
    return value


def option(
    where: str,
    name: str,
    value: Any,
    *,
    key: str = "",
    at_least: Optional[int] = None,
    at_most: Optional[int] = None,
) -> Any:
    """Checks an argument that becomes an option of a session, by the table of those.

    Args:
        where: class or function that it is passed to.
        name: of the argument.
        value: what was passed; None passes.
        key: the option's name, if it is not the argument's.
        at_least: smallest integer that is allowed.
        at_most: largest integer that is allowed.

    Returns:
        The value as the option's type.

    Raises:
        TypeError: it has another type, and converting it would lose something.
        ValueError: it is none of the values that a release knows.
    """
    if value is None:
        return None
    known = session_options.BY_NAME[key or name]
    at = f"{where}: {name} is {value!r}"
    value = _as_kind(value, known.kinds, at)
    values = known.values + known.older_values
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if values and text not in values:
        raise ValueError(f"{at}, allowed is one of {', '.join(values)}.")
    if (at_least is not None and value < at_least) or (at_most is not None and value > at_most):
        bounds = f"from {at_least}" + ("" if at_most is None else f" to {at_most}")
        raise ValueError(f"{at}, allowed is an int {bounds}.")
    return value


def _as_kind(value: Any, kinds: Sequence[str], at: str) -> Any:
    """Returns a value as the Python type of one of some fields of a protocol buffer."""
    words = {"b": "a bool", "i": "an int", "s": "a str"}
    for kind in kinds:
        if kind == "s" and isinstance(value, str):
            return value
        if kind == "b" and isinstance(value, bool):
            return value
        number = _integer(value)
        if number is None:
            continue
        # A protocol buffer takes True for an integer and 1 for a bool; so do old scripts.
        if kind == "i":
            return number
        if kind == "b" and number in (0, 1):
            return bool(number)
    raise TypeError(f"{at}, allowed is {' or '.join(words[kind] for kind in kinds)}.")


def _check_integer(value: Any, name: str, at_least: int) -> None:
    number = None if isinstance(value, bool) else _integer(value)
    bound = f"an int of {at_least} or more"
    if number is None:
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, allowed is {bound}.")
    if number < at_least:
        raise ValueError(f"{name} is {value!r}, allowed is {bound}.")


def _integer(value: Any) -> Optional[int]:
    try:
        # A bool stays one in older Pythons.
        return int(operator.index(value))
    except TypeError:
        return None

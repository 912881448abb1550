"""The names of what ops are given, which ranks compare where NPU_BRIDGE_CHECK_NAMES is 1.

Ops on different ranks belong together by their own names, which TensorFlow numbers in the order in
which they are made. A rank that makes them in another order pairs each with another tensor, and
where dtypes and shapes are equal nothing else tells.

Names have variables (theirs) and tensors of a graph: the name of the tensor, after the names of the
functions that its graph is in, without TensorFlow's counters, see `tags`. Eager tensors, numpy
arrays and Python numbers have none, and are not compared; nor is a rank that records none.

Two kinds of op record none:

* send and receive: what leaves one rank is another tensor on the other.
* Gradients of our ops: each is named after the op whose gradient it is, which is compared. What
  the gradients that they are given are called depends on all that was made of the op's result.
"""

from __future__ import annotations

import functools
import threading
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.ops.variables import PartitionedVariable

from npu_device._core import op_arguments, runtime, tags
from npu_device._core.autograph import AnyFunction

NAMES_ATTRIBUTE = "_npu_input_names"

# An eager op has no attributes but those of its definition, so that its names travel in `group`.
# The two are those of csrc/tf/attributes.h.
_SEPARATOR = "\x1f"
_EAGER_MARK = _SEPARATOR + NAMES_ATTRIBUTE

_thread = threading.local()


def of(values: List[Any]) -> Optional[List[str]]:
    """Returns the names to record with an op.

    Args:
        values: its data inputs as the script passed them, before their conversion to tensors.

    Returns:
        A name for each, "" for what has none; None if there is nothing to record.

    Raises:
        ValueError: NPU_BRIDGE_CHECK_NAMES has a value that is not allowed.
    """
    if not runtime.current().checks_names() or getattr(_thread, "unrecorded", False):
        return None
    names = [name(value) for value in values]
    return names if any(names) else None


def name(value: Any) -> str:
    """Returns what the program calls a value, "" where it has no name.

    Args:
        value: a tensor, variable (of TensorFlow or Keras), IndexedSlices, or anything else that
            can be a tensor.
    """
    variable = op_arguments.keras_variable(value)
    if isinstance(variable, (op_arguments.Variable, PartitionedVariable)):
        # In Keras 3 the path tells layers apart, and the name does not.
        return str(variable.name if variable is value else getattr(value, "path", variable.name))
    if isinstance(value, tf.IndexedSlices):
        value = value.values
    if not isinstance(value, tf.Tensor) or tags.graph_op(value) is None:
        return ""
    return "/".join(reversed([value.name, *tags.function_names(value.graph)]))


def record(op: tf.Operation, names: List[str]) -> None:
    """Gives an op in a graph the names of its data inputs."""
    encoded = [one.encode("utf-8") for one in names]
    tags.set_attribute(op, NAMES_ATTRIBUTE, tf.AttrValue(list=tf.AttrValue.ListValue(s=encoded)))


def beside(group: str, names: Optional[List[str]]) -> str:
    """Returns the attribute `group` for an op about to be made: with the names, if it is eager."""
    if names is None or not tf.executing_eagerly():
        return group
    return group + _EAGER_MARK + "".join(_SEPARATOR + one for one in names)


def group_alone(attribute: str) -> str:
    """Returns the group in an attribute that `beside` returned."""
    return attribute.partition(_EAGER_MARK)[0]


def unrecorded(function: AnyFunction) -> AnyFunction:
    """Makes a function whose ops carry no names."""

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        before = getattr(_thread, "unrecorded", False)
        _thread.unrecorded = True
        try:
            return function(*arguments)
        finally:
            _thread.unrecorded = before

    return call  # type: ignore[return-value]

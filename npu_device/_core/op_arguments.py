"""What may be passed to an op: conversion of tensors, and checks that need only Python values.

Only what is wrong whatever the group is found here. What depends on the group (its ranks, its size)
is checked natively when the op runs: a refusal there reaches every rank of the group, whereas an
exception here leaves the other ranks waiting until this one ends.
"""

from __future__ import annotations

import operator
from typing import Any, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

# What all kinds of variables have in common; the public name is that of one kind in some versions.
from tensorflow.python.ops.variables import Variable

from npu_device._core import groups

MAX_FUSION_ID = 0x7FFFFFFF
REDUCTIONS = ("min", "max", "prod", "sum")

#: Values that attribute `fusion` may have, by op.
FUSION_VALUES = {
    "HcomAllReduce": (0, 1, 2),
    "HcomAllGather": (0, 2),
    "HcomAllToAllVC": (0, 2),
    "HcomBroadcast": (0, 2),
    "HcomReduce": (0, 2),
    "HcomReduceScatter": (0, 2),
}

_DATA_TYPES = (
    tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
    tf.float16, tf.float32, tf.float64, tf.bfloat16,
)  # fmt: skip
# Sets: comparing dtypes one after the other takes longer than a small op.
_DATA_TYPE_SET = frozenset(_DATA_TYPES)
_NOT_NUMBERS = frozenset((tf.string, tf.resource, tf.variant))


class Node(NamedTuple):
    """An op that is about to be made, for error texts.

    Attributes:
        op_type: the registered name, such as HcomAllReduce.
        asked: the name asked for; the op's type if None. A graph makes it unique.
    """

    op_type: str
    asked: Optional[str] = None

    def __str__(self) -> str:
        name = self.asked or self.op_type
        if not tf.executing_eagerly():
            name = tf.get_default_graph().unique_name(name, mark_as_used=False)
        return f"{self.op_type} '{name}'"


def tensor(value: Any, at: Node, what: str, dtype: Any = None) -> tf.Tensor:
    """Converts what a script passes as data.

    Args:
        value: a tensor, variable (of TensorFlow or Keras), IndexedSlices, numpy array, or anything
            else that tf.convert_to_tensor takes.
        at: the op that it is for.
        what: the argument's name.
        dtype: the dtype that the op wants; None for the value's own.

    Returns:
        The tensor.

    Raises:
        TypeError: there is no tensor of numbers in it.
    """
    converted = _converted(value, at, what, dtype)
    if converted.dtype.base_dtype in _NOT_NUMBERS:
        raise TypeError(
            f"{at}: {what} has dtype {converted.dtype.base_dtype.name}, which is not moved between "
            f"ranks. Pass numbers."
        )
    return converted


def data_tensor(value: Any, at: Node, what: str) -> tf.Tensor:
    """Like `tensor`, for ops that move one of the dtypes that the device knows.

    Raises:
        TypeError: the dtype is another.
    """
    converted = _converted(value, at, what)
    dtype = converted.dtype.base_dtype
    if dtype not in _DATA_TYPE_SET:
        allowed = ", ".join(known.name for known in _DATA_TYPES)
        raise TypeError(
            f"{at}: {what} has dtype {dtype.name}, allowed are {allowed}. Cast it with tf.cast."
        )
    return converted


def _converted(value: Any, at: Node, what: str, dtype: Any = None) -> tf.Tensor:
    if isinstance(value, tf.Tensor) and dtype is None:
        return value
    try:
        return tf.convert_to_tensor(keras_variable(value), dtype=dtype)
    except (TypeError, ValueError) as error:
        text = f"{at}: {what} is no tensor of one dtype and shape: {error}"
        raise type(error)(text) from error


def keras_variable(value: Any) -> Any:
    """Returns the TensorFlow variable inside a Keras 3 variable, and any other value as it is."""
    inner = getattr(value, "_value", None)
    if isinstance(inner, Variable) and not isinstance(value, Variable):
        return inner
    return value


def integer(value: Any, at: Node, what: str, at_least: Optional[int] = None) -> int:
    """Checks an attribute that is a number.

    Args:
        value: a Python or numpy integer.
        at: the op that it is for.
        what: the attribute's name.
        at_least: the smallest value allowed.

    Returns:
        The value as a Python int.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is too small.
    """
    if isinstance(value, bool):
        raise TypeError(f"{at}: {what} must be an integer, got {value!r}.")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{at}: {what} must be an integer, got {value!r}.") from None
    if at_least is not None and number < at_least:
        raise ValueError(f"{at}: {what} must be at least {at_least}, got {number}.")
    return number


def reduction(value: Any, at: Node, allowed: Sequence[str] = REDUCTIONS) -> str:
    """Checks the name of a reduction.

    Raises:
        ValueError: it is none of `allowed`.
    """
    if value not in allowed:
        raise ValueError(f"{at}: reduction must be one of {', '.join(allowed)}, got {value!r}.")
    return str(value)


def group(value: Any, at: Node) -> str:
    """Checks the name of a group, not whether there is one.

    Raises:
        ValueError: it is not a str of 1 to 127 bytes.
    """
    if value == groups.WORLD:
        return groups.WORLD
    try:
        return groups.check_name(value)
    except ValueError as error:
        raise ValueError(f"{at}: {error}") from None


class Fusion(NamedTuple):
    """The attributes by which ops are merged."""

    fusion: int
    fusion_id: int


UNFUSED = Fusion(0, -1)


def fusion(value: Any, fusion_id: Any, at: Node) -> Fusion:
    """Checks the attributes `fusion` and `fusion_id` of an op.

    Args:
        value: 0 never merges the op; 1 (HcomAllReduce only) merges it by the group's split
            strategy and needs fusion_id -1; 2 merges it with ops of the same fusion_id, which then
            lies in 0 to 0x7fffffff.
        fusion_id: see `value`; without meaning where that is 0.
        at: the op that they are for.

    Returns:
        Both as Python ints.

    Raises:
        TypeError: one of them is not an integer.
        ValueError: the op does not allow them; names both.
    """
    both = Fusion(integer(value, at, "fusion"), integer(fusion_id, at, "fusion_id"))
    got = f"got fusion={both.fusion} with fusion_id={both.fusion_id}"
    allowed = FUSION_VALUES[at.op_type]
    if both.fusion not in allowed:
        raise ValueError(f"{at}: fusion must be one of {', '.join(map(str, allowed))}, {got}.")
    if both.fusion == 1 and both.fusion_id != -1:
        raise ValueError(f"{at}: fusion=1 needs fusion_id=-1, {got}.")
    if both.fusion == 2 and not 0 <= both.fusion_id <= MAX_FUSION_ID:
        raise ValueError(f"{at}: fusion=2 needs a fusion_id from 0 to {MAX_FUSION_ID}, {got}.")
    return both

"""What the computing ops share: conversion and checks of arguments, and vector-Jacobian products.

Every error names the op, the argument, what it wants and what it got.
"""

from __future__ import annotations

import numbers
from typing import Any, Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util

#: Dtypes in which sums lose too much: what is computed from them is computed in float32.
_NARROW = (tf.float16, tf.bfloat16)

#: tf.where of TensorFlow 2, which broadcasts, in every version.
select = tf.where_v2

#: Returns what a tensor is known to hold as a numpy array, or None; not public in TensorFlow 1.15.
static_value = tensor_util.constant_value


def tensor(op: str, what: str, value: Any, dtype: Any = None) -> tf.Tensor:
    """Converts an argument.

    Args:
        op: the function's published name.
        what: the argument's name.
        value: what was passed.
        dtype: the dtype wanted; None for the value's own.

    Returns:
        The tensor.

    Raises:
        TypeError: it is none.
    """
    try:
        return tf.convert_to_tensor(value, dtype=dtype)
    except (TypeError, ValueError) as error:
        wanted = "a tensor" if dtype is None else f"a tensor of {tf.as_dtype(dtype).name}"
        raise TypeError(
            f"{op}: {what} must be {wanted}, not {type(value).__name__}: {error}"
        ) from None


def floating(op: str, what: str, value: Any, dtype: Any = None) -> tf.Tensor:
    """Converts an argument that must hold floating-point numbers; see `tensor`.

    Raises:
        TypeError: it does not.
    """
    converted = tensor(op, what, value, dtype)
    if not converted.dtype.is_floating:
        raise TypeError(
            f"{op}: {what} must be of a floating-point dtype, such as float16 or float32, "
            f"not {converted.dtype.base_dtype.name}. Use tf.cast."
        )
    return converted


def same_dtype(op: str, first: str, x: tf.Tensor, second: str, y: tf.Tensor) -> None:
    """Compares the dtypes of two arguments.

    Raises:
        TypeError: they differ.
    """
    if x.dtype.base_dtype != y.dtype.base_dtype:
        raise TypeError(
            f"{op}: {first} is {x.dtype.base_dtype.name} and {second} is "
            f"{y.dtype.base_dtype.name}; both must be of one dtype. Use tf.cast."
        )


def rank(op: str, what: str, x: tf.Tensor, wanted: int, axes: str) -> None:
    """Checks the number of dimensions, if it is known.

    Args:
        op: the function's published name.
        what: the argument's name.
        x: the argument.
        wanted: its number of dimensions.
        axes: what they are, such as "[batch, height, width, channels]".

    Raises:
        ValueError: it is another.
    """
    found = x.shape.ndims
    if found is not None and found != wanted:
        raise ValueError(
            f"{op}: {what} must have {wanted} dimensions {axes}, "
            f"got shape {tuple(x.shape.as_list())}"
        )


def dimension(op: str, what: str, x: tf.Tensor, axis: int, wanted: Optional[int]) -> None:
    """Checks one dimension, where both it and the wanted size are known.

    Raises:
        ValueError: it has another size.
    """
    found = x.shape.as_list()[axis] if x.shape.ndims is not None else None
    if found is not None and wanted is not None and found != wanted:
        raise ValueError(
            f"{op}: dimension {axis} of {what} must be {wanted}, "
            f"got shape {tuple(x.shape.as_list())}"
        )


def one_of(op: str, what: str, value: Any, allowed: Sequence[Any]) -> None:
    """Checks a choice.

    Raises:
        ValueError: the value is not among those allowed.
    """
    if value not in allowed:
        raise ValueError(
            f"{op}: {what} must be {' or '.join(repr(one) for one in allowed)}, got {value!r}"
        )


def axis_of(op: str, what: str, axis: Any, x: tf.Tensor) -> int:
    """Returns a dimension of a tensor, counted from the front if the tensor's rank is known.

    Args:
        op: the function's published name.
        what: the argument's name.
        axis: what was passed.
        x: the tensor.

    Returns:
        The dimension; as it was passed where the rank is not known.

    Raises:
        TypeError: it is no integer.
        ValueError: the tensor has no such dimension.
    """
    if isinstance(axis, bool) or not isinstance(axis, numbers.Integral):
        raise TypeError(f"{op}: {what} must be an integer, got {axis!r}")
    dims = x.shape.ndims
    if dims is None:
        return int(axis)
    if not -dims <= axis < dims:
        raise ValueError(f"{op}: {what} must be from {-dims} to {dims - 1}, got {axis}")
    return int(axis) + dims if axis < 0 else int(axis)


def widened(x: tf.Tensor) -> tf.Tensor:
    """Returns float16 and bfloat16 as float32, everything else as it is."""
    return tf.cast(x, tf.float32) if x.dtype.base_dtype in _NARROW else x


def like(op: str, what: str, value: Any, other: tf.Tensor, name: str = "input0") -> tf.Tensor:
    """Converts an argument that must be like another one.

    Raises:
        TypeError: it does not hold floating-point numbers of the other's dtype.
        ValueError: it has another shape.
    """
    value = floating(op, what, value)
    if value.dtype.base_dtype != other.dtype.base_dtype:
        raise TypeError(
            f"{op}: {what} is {value.dtype.base_dtype.name} and {name} is "
            f"{other.dtype.base_dtype.name}; both must be of one dtype. Use tf.cast."
        )
    if not value.shape.is_compatible_with(other.shape):
        raise ValueError(
            f"{op}: {what} must have the shape of {name}, {tuple(other.shape.as_list())}, "
            f"got {tuple(value.shape.as_list())}"
        )
    return value


def scalars(op: str, dtype: Any, **values: Any) -> List[tf.Tensor]:
    """Converts scalars to a dtype; each may also be a tensor with one element.

    Raises:
        ValueError: one has more elements.
    """
    converted = []
    for what, value in values.items():
        # Numbers of Python become the dtype at once: float32 in between would round them.
        number = isinstance(value, numbers.Real)
        one = tensor(op, what, value, dtype if number else None)
        if one.shape.ndims is not None and one.shape.num_elements() not in (None, 1):
            raise ValueError(
                f"{op}: {what} must be a scalar, got shape {tuple(one.shape.as_list())}"
            )
        converted.append(tf.reshape(tf.cast(one, dtype), []))
    return converted


def static_shape(x: tf.Tensor) -> List[Any]:
    """Returns the sizes of a tensor's dimensions: numbers where they are known, else tensors."""
    known = x.shape.as_list()
    if None not in known:
        return known
    found = tf.shape(x)
    return [found[axis] if size is None else size for axis, size in enumerate(known)]


def vector_jacobian(
    function: Callable[..., Any], inputs: Sequence[Any], gradients: Sequence[Any]
) -> List[tf.Tensor]:
    """Returns the gradients of a function's inputs, from those of its outputs.

    Args:
        function: takes the inputs and returns a tensor or a sequence of tensors.
        inputs: floating-point tensors.
        gradients: one for each output; None stands for zeros.

    Returns:
        One for each input, zeros where the outputs do not depend on it.
    """
    inputs = [tf.identity(one) for one in inputs]
    if tf.executing_eagerly():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs = _as_list(function(*inputs))
        return tape.gradient(
            outputs,
            inputs,
            output_gradients=_without_none(gradients, outputs),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
    # A tape does not pass the loops of TensorFlow 1.
    outputs = _as_list(function(*inputs))
    return tf.gradients(
        outputs,
        inputs,
        grad_ys=_without_none(gradients, outputs),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )


def _as_list(outputs: Any) -> List[tf.Tensor]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _without_none(gradients: Sequence[Any], outputs: Sequence[tf.Tensor]) -> List[tf.Tensor]:
    return [tf.zeros_like(y) if dy is None else dy for dy, y in zip(gradients, outputs)]

"""Normalization: layer_norm and centralization."""

from __future__ import annotations

import numbers
from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import (
    axis_of,
    floating,
    same_dtype,
    vector_jacobian,
    widened,
)


def centralization(x: Any, axes: Any, name: Optional[str] = None) -> tf.Tensor:
    """Subtracts the mean over some dimensions.

    Args:
        x: a floating-point tensor of any shape.
        axes: the dimensions, a list of integers from -rank to rank - 1.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        TypeError: x does not hold floating-point numbers, or axes is no list of integers.
        ValueError: there is no such dimension.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.centralization.
    """
    x = floating("centralization", "x", x)
    try:
        axes = [axes] if isinstance(axes, numbers.Integral) else list(axes)
    except TypeError:
        raise TypeError(
            f"centralization: axes must be an integer or a list of integers, got {axes!r}"
        ) from None
    for axis in axes:
        axis_of("centralization", "axes", axis, x)
    with tf.name_scope(name, "centralization", [x]):
        wide = widened(x)
        return tf.cast(wide - tf.reduce_mean(wide, axes, keepdims=True), x.dtype.base_dtype)


def layer_norm(
    x: Any,
    gamma: Any,
    beta: Any,
    begin_norm_axis: int = 0,
    begin_params_axis: int = 0,
    epsilon: float = 1e-7,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Normalizes to mean 0 and variance 1 over the last dimensions, then scales and shifts.

    (x - mean) / sqrt(variance + epsilon) * gamma + beta, with the variance divided by the number of
    elements.

    Args:
        x: a floating-point tensor.
        gamma: the scale, of x's dtype and of shape x.shape[begin_params_axis:].
        beta: the shift, like gamma.
        begin_norm_axis: the first dimension that is normalized over.
        begin_params_axis: the first dimension that gamma and beta have.
        epsilon: keeps the square root away from 0.
        name: a name for the result.

    Returns:
        [result, mean, variance], of x's dtype. The latter two have x's rank, with size 1 where
        it was normalized.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: there is no such dimension, or gamma or beta have another shape.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.layer_norm.
    """
    x = floating("layer_norm", "x", x)
    gamma, beta = floating("layer_norm", "gamma", gamma), floating("layer_norm", "beta", beta)
    same_dtype("layer_norm", "x", x, "gamma", gamma)
    same_dtype("layer_norm", "x", x, "beta", beta)
    if x.shape.ndims is None:
        raise ValueError("layer_norm: x must have a known number of dimensions. Use set_shape.")
    first = axis_of("layer_norm", "begin_norm_axis", begin_norm_axis, x)
    params = axis_of("layer_norm", "begin_params_axis", begin_params_axis, x)
    for what, value in (("gamma", gamma), ("beta", beta)):
        if not x.shape[params:].is_compatible_with(value.shape):
            raise ValueError(
                f"layer_norm: {what} must have shape {tuple(x.shape[params:].as_list())}, x's from "
                f"begin_params_axis={begin_params_axis} on, got {tuple(value.shape.as_list())}"
            )
    with tf.name_scope(name, "layer_norm", [x, gamma, beta]):
        wide = widened(x)
        axes = list(range(first, x.shape.ndims))
        mean = tf.reduce_mean(wide, axes, keepdims=True)
        away = wide - mean
        variance = tf.reduce_mean(tf.square(away), axes, keepdims=True)
        result = away * tf.rsqrt(variance + epsilon) * widened(gamma) + widened(beta)
        return [tf.cast(one, x.dtype.base_dtype) for one in (result, mean, variance)]


def layer_norm_grad(
    dy: Any, x: Any, variance: Any, mean: Any, gamma: Any, name: Optional[str] = None
) -> List[tf.Tensor]:
    """The gradients of `layer_norm`.

    Args:
        dy: the gradient of the result.
        x: its argument.
        variance: its third result; its shape says which dimensions were normalized.
        mean: its second result.
        gamma: its argument.
        name: a name for the gradients.

    Returns:
        Those of x, gamma and beta. epsilon is not known here and counts as 1e-7.

    Raises:
        TypeError: dtypes differ or are not of floating point.

    Source of the contract: CANN TF Adapter API, op FusedLayerNormGrad.
    """
    dy, x = floating("layer_norm_grad", "dy", dy), floating("layer_norm_grad", "x", x)
    gamma = floating("layer_norm_grad", "gamma", gamma)
    variance = floating("layer_norm_grad", "variance", variance)
    mean = floating("layer_norm_grad", "mean", mean)
    if x.shape.ndims is None or gamma.shape.ndims is None or variance.shape.ndims is None:
        raise ValueError("layer_norm_grad: x, variance and gamma must have known shapes.")
    normalized = variance.shape.as_list()
    first = len(normalized)
    while first > 0 and normalized[first - 1] == 1:
        first -= 1

    def function(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        return layer_norm(x, gamma, beta, first, x.shape.ndims - gamma.shape.ndims)[0]

    with tf.name_scope(name, "layer_norm_grad", [dy, x, variance, mean, gamma]):
        return vector_jacobian(function, [x, gamma, tf.zeros_like(gamma)], [dy])

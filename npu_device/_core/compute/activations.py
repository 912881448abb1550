"""Activation functions: gelu and its fast forms, prelu.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

import math
from typing import Any, List, Optional, Tuple

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import floating, same_dtype, select, widened

_SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)
_CUBE = 0.044715
_FAST = 1.702
_V2_SCALE, _V2_SQUARE, _V2_CLIP = 0.7071, -0.1444, 1.769


def gelu(features: Any, name: Optional[str] = None) -> tf.Tensor:
    """Gaussian error linear unit, in the form with tanh.

    0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))

    Args:
        features: a floating-point tensor of any shape.
        name: a name for the result.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        TypeError: the features are not floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_unary_ops.gelu; the formula is the one that its
    migration guide replaces by it.
    """
    x = floating("gelu", "features", features)
    with tf.name_scope(name, "gelu", [x]):
        wide = widened(x)
        result = 0.5 * wide * (1.0 + tf.tanh(_gelu_argument(wide)))
        return tf.cast(result, x.dtype.base_dtype)


def gelu_grad(dy: Any, x: Any, y: Any = None, name: Optional[str] = None) -> tf.Tensor:
    """The gradient of `gelu`.

    Args:
        dy: the gradient of its result.
        x: its features, of the shape and dtype of dy.
        y: its result; not needed.
        name: a name for the gradient.

    Returns:
        The gradient of the features.

    Raises:
        TypeError: dtypes differ or are not of floating point.

    Source of the contract: CANN TF Adapter API, op GeluGrad.
    """
    del y
    dy, x = floating("gelu_grad", "dy", dy), floating("gelu_grad", "x", x)
    same_dtype("gelu_grad", "dy", dy, "x", x)
    with tf.name_scope(name, "gelu_grad", [dy, x]):
        wide = widened(x)
        tanh = tf.tanh(_gelu_argument(wide))
        slope = _SQRT_2_OVER_PI * (1.0 + 3.0 * _CUBE * tf.square(wide))
        factor = 0.5 * (1.0 + tanh) + 0.5 * wide * (1.0 - tf.square(tanh)) * slope
        return tf.cast(widened(dy) * factor, x.dtype.base_dtype)


def fast_gelu(features: Any, name: Optional[str] = None) -> tf.Tensor:
    """The approximation x / (1 + exp(-1.702 x)) of gelu.

    Args:
        features: a floating-point tensor of any shape.
        name: a name for the result.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        TypeError: the features are not floating-point numbers.

    Source of the contract: CANN TF Adapter API, op FastGelu.
    """
    x = floating("fast_gelu", "features", features)
    with tf.name_scope(name, "fast_gelu", [x]):
        wide = widened(x)
        return tf.cast(wide * tf.sigmoid(_FAST * wide), x.dtype.base_dtype)


def fast_gelu_grad(dy: Any, x: Any, name: Optional[str] = None) -> tf.Tensor:
    """The gradient of `fast_gelu`.

    Args:
        dy: the gradient of its result.
        x: its features, of the shape and dtype of dy.
        name: a name for the gradient.

    Returns:
        The gradient of the features.

    Raises:
        TypeError: dtypes differ or are not of floating point.

    Source of the contract: CANN TF Adapter API, op FastGeluGrad.
    """
    dy, x = floating("fast_gelu_grad", "dy", dy), floating("fast_gelu_grad", "x", x)
    same_dtype("fast_gelu_grad", "dy", dy, "x", x)
    with tf.name_scope(name, "fast_gelu_grad", [dy, x]):
        wide = widened(x)
        gate = tf.sigmoid(_FAST * wide)
        factor = gate * (1.0 + _FAST * wide * (1.0 - gate))
        return tf.cast(widened(dy) * factor, x.dtype.base_dtype)


def fast_gelu_v2(x: Any, name: Optional[str] = None) -> tf.Tensor:
    """An approximation of gelu by a parabola, without an exponential.

    x (sgn(x) (-0.1444 (min(0.7071 |x|, 1.769) - 1.769)^2 + 0.5) + 0.5), where sgn(0) is 1.

    Args:
        x: a floating-point tensor of any shape.
        name: a name for the result.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        TypeError: x does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.fast_gelu_v2.
    """
    x = floating("fast_gelu_v2", "x", x)
    with tf.name_scope(name, "fast_gelu_v2", [x]):
        wide = widened(x)
        below = tf.minimum(_V2_SCALE * tf.abs(wide), _V2_CLIP) - _V2_CLIP
        half = _V2_SQUARE * tf.square(below) + 0.5
        result = wide * (select(wide >= 0, half, -half) + 0.5)
        return tf.cast(result, x.dtype.base_dtype)


def prelu(x: Any, weight: Any, name: Optional[str] = None) -> tf.Tensor:
    """X where it is above 0, weight * x elsewhere.

    Args:
        x: a floating-point tensor of any shape.
        weight: the slopes below 0, of x's dtype, in a shape that broadcasts to x's.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: weight does not broadcast to x.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.prelu.
    """
    x = floating("prelu", "x", x)
    weight = floating("prelu", "weight", weight)
    same_dtype("prelu", "x", x, "weight", weight)
    _weight_fits(x, weight)
    with tf.name_scope(name, "prelu", [x, weight]):
        return select(x > 0, x, weight * x)


def prelu_grad(dy: Any, x: Any, weight: Any, name: Optional[str] = None) -> List[tf.Tensor]:
    """The gradients of `prelu`.

    Args:
        dy: the gradient of its result.
        x: its first argument.
        weight: its second.
        name: a name for the gradients.

    Returns:
        Those of x and weight.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: weight does not broadcast to x.

    Source of the contract: CANN TF Adapter API, op PReluGrad.
    """
    dy, x = floating("prelu_grad", "dy", dy), floating("prelu_grad", "x", x)
    weight = floating("prelu_grad", "weight", weight)
    same_dtype("prelu_grad", "x", x, "weight", weight)
    _weight_fits(x, weight)
    with tf.name_scope(name, "prelu_grad", [dy, x, weight]):
        positive = x > 0
        dx = select(positive, dy, weight * dy)
        each = widened(select(positive, tf.zeros_like(x), x * dy))
        return [dx, tf.cast(_summed_to(each, weight), weight.dtype.base_dtype)]


def _gelu_argument(x: tf.Tensor) -> tf.Tensor:
    return _SQRT_2_OVER_PI * (x + _CUBE * x * tf.square(x))


def _weight_fits(x: tf.Tensor, weight: tf.Tensor) -> None:
    if x.shape.ndims is None or weight.shape.ndims is None:
        return
    try:
        fits = tf.broadcast_static_shape(x.shape, weight.shape).is_compatible_with(x.shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"prelu: weight of shape {_shape(weight)} must broadcast to x, "
            f"which has shape {_shape(x)}"
        )


def _shape(x: tf.Tensor) -> Tuple[Any, ...]:
    return tuple(x.shape.as_list())


def _summed_to(each: tf.Tensor, like: tf.Tensor) -> tf.Tensor:
    """Sums what was broadcast, to the shape that it was broadcast from."""
    shape = tf.shape(like)
    missing = tf.rank(each) - tf.rank(like)
    aligned = tf.concat([tf.ones([missing], tf.int32), shape], axis=0)
    axes = tf.reshape(tf.where(tf.equal(aligned, 1)), [-1])
    return tf.reshape(tf.reduce_sum(each, axis=axes, keepdims=True), shape)

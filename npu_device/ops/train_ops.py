"""Activation functions as the device computes them."""

from __future__ import annotations

import math
from typing import Any, List

import tensorflow.compat.v1 as tf

from npu_device._core import keras_functional
from npu_device._core.autograph import unconverted
from npu_device._core.compute.arguments import floating, widened
from npu_device._core.compute.op_gradients import inputs_of
from npu_device.npu_device import gen_npu_ops
from npu_device.utils import npu_wrapper

__all__ = ["fast_gelu_grad", "gelu", "gen_npu_ops", "npu_wrapper"]

npu_wrapper.npu_symbol_register("npu.ops.gelu", gen_npu_ops.fast_gelu)


def fast_gelu_grad(op: Any, grad: Any) -> List[tf.Tensor]:
    """The gradient of an op FastGelu, for scripts that register it themselves.

    Here fast_gelu is made of ops that have gradients, so that nothing needs it.

    Args:
        op: the operation; its first input holds the features.
        grad: the gradient of its result, of the features' shape and dtype.

    Returns:
        The gradient of the features, in a list.

    Raises:
        TypeError: `op` is no operation, or dtypes differ or are not of floating point.
        ValueError: `op` has no input.

    Source of the contract: CANN TF Adapter, npu_device.ops.train_ops.
    """
    features = inputs_of("fast_gelu_grad", op, "features")[0]
    return [gen_npu_ops.fast_gelu_grad(grad, features)]


@unconverted
def gelu(x: Any) -> Any:
    """Gaussian error linear unit, as the device computes it.

    In a function and in a functional model of Keras it is the approximation x / (1 + exp(-1.702 x))
    that training uses on the device, which differs from x P(X <= x) by at most 0.021. Executed
    eagerly it is x P(X <= x) itself, as in the original.

    Args:
        x: a floating-point tensor of any shape, or a symbolic tensor of Keras.

    Returns:
        A tensor of the same shape and dtype.

    Raises:
        TypeError: x does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu.ops.gelu.
    """
    if keras_functional.is_symbolic(x):
        return npu_wrapper.NpuOpLambda(gen_npu_ops.fast_gelu)(x)
    if not tf.executing_eagerly():
        return gen_npu_ops.fast_gelu(x)
    features = floating("gelu", "x", x)
    wide = widened(features)
    return tf.cast(0.5 * wide * (1.0 + tf.math.erf(wide / math.sqrt(2.0))), features.dtype)

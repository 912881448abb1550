"""Layer-wise adaptive rate scaling (LARS) of gradients.

float16 and bfloat16 are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import floating, like, scalars, widened


def lars(
    inputs_w: Sequence[Any],
    inputs_g: Sequence[Any],
    weight_decay: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """Scales gradients layer by layer (LARS).

    For each pair: hyperpara |w| / (|g| + weight_decay |w| + epsilon) * (g + weight_decay w), with
    Euclidean norms.

    Args:
        inputs_w: weights, floating-point tensors.
        inputs_g: their gradients, in the same order, dtypes and shapes.
        weight_decay: a scalar.
        hyperpara: the trust coefficient.
        epsilon: keeps the denominator away from 0.
        name: a name for the results.

    Returns:
        A new gradient for each weight.

    Raises:
        ValueError: the lists differ in length, are empty, or a pair differs in shape.
        TypeError: something does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_ops.LARS.
    """
    inputs_w, inputs_g = _listed(inputs_w), _listed(inputs_g)
    if not inputs_w or len(inputs_w) != len(inputs_g):
        raise ValueError(
            f"LARS: inputs_w and inputs_g must be lists of one length, at least 1, "
            f"got {len(inputs_w)} and {len(inputs_g)}"
        )
    with tf.name_scope(name, "lars"):
        return [
            _lars_step("LARS", f"inputs_w[{i}]", w, f"inputs_g[{i}]", g, weight_decay,
                       None, hyperpara, epsilon)
            for i, (w, g) in enumerate(zip(inputs_w, inputs_g))
        ]  # fmt: skip


def lars_v2(
    input_weight: Any,
    input_grad: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: float = 0.001,
    epsilon: float = 0.00001,
    use_clip: bool = False,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Scales the gradient of one layer (LARS).

    hyperpara |w| / (|g| + weight_decay |w| + epsilon) * (g + weight_decay w), with Euclidean norms,
    as `LARS` does for many.

    Args:
        input_weight: the weight, a floating-point tensor.
        input_grad: its gradient, of the same dtype and shape.
        weight_decay: a scalar.
        learning_rate: a scalar, used with use_clip only.
        hyperpara: the trust coefficient.
        epsilon: keeps the denominator away from 0.
        use_clip: divide the coefficient by the learning rate, and limit it to [0, 1].
        name: a name for the result.

    Returns:
        The new gradient.

    Raises:
        ValueError: the shapes differ.
        TypeError: something does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, npu_ops.LARSV2.
    """
    with tf.name_scope(name, "lars_v2"):
        return _lars_step("LARSV2", "input_weight", input_weight, "input_grad", input_grad,
                          weight_decay, learning_rate if use_clip else None, hyperpara,
                          epsilon)  # fmt: skip


def _lars_step(
    op: str,
    w_name: str,
    w: Any,
    g_name: str,
    g: Any,
    weight_decay: Any,
    learning_rate: Any,
    hyperpara: float,
    epsilon: float,
) -> tf.Tensor:
    weight = floating(op, w_name, w)
    dtype = weight.dtype.base_dtype
    gradient = widened(like(op, g_name, g, weight, w_name))
    weight = widened(weight)
    (decay,) = scalars(op, weight.dtype, weight_decay=weight_decay)
    w_norm = tf.sqrt(tf.reduce_sum(tf.square(weight)))
    g_norm = tf.sqrt(tf.reduce_sum(tf.square(gradient)))
    coefficient = hyperpara * w_norm / (g_norm + decay * w_norm + epsilon)
    if learning_rate is not None:
        (rate,) = scalars(op, weight.dtype, learning_rate=learning_rate)
        coefficient = tf.clip_by_value(coefficient / rate, 0.0, 1.0)
    return tf.cast(coefficient * (gradient + decay * weight), dtype)


def _listed(values: Any) -> List[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]

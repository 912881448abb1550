"""Makes the Dropout layer of Keras use npu_ops.dropout, when it is imported.

With Keras 3 (TensorFlow 2.16 and later) the layer is left as it is: its interface is another, and
its result has the same distribution.
"""

from __future__ import annotations

from typing import Any, Callable

import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_device._core.compute.arguments import static_value

__all__ = ["dropout_call", "npu_ops"]


def dropout_call(self: Any, inputs: Any, training: Any = None) -> tf.Tensor:
    """Computes a Dropout layer of Keras.

    Args:
        self: the layer: has `rate`, `seed` and `noise_shape`.
        inputs: a floating-point tensor.
        training: whether to drop anything: a bool, a number, or a scalar tensor. None for Keras'
            learning phase.

    Returns:
        A tensor of the inputs' shape and dtype.

    Source of the contract: CANN TF Adapter API, npu_convert_dropout.dropout_call.
    """
    if training is None:
        training = _learning_phase()
    inputs = tf.convert_to_tensor(inputs)

    def dropped() -> tf.Tensor:
        if self.rate == 0:
            return tf.identity(inputs)
        return npu_ops.dropout(
            inputs, keep_prob=1 - self.rate, noise_shape=self.noise_shape, seed=self.seed
        )

    return _if(training, dropped, lambda: tf.identity(inputs))


def _learning_phase() -> Any:
    if _has_keras_2():
        return tf.keras.backend.learning_phase()
    return False


def _if(condition: Any, then: Callable[[], Any], otherwise: Callable[[], Any]) -> Any:
    known = condition
    if isinstance(condition, (tf.Tensor, tf.Variable)):
        known = static_value(tf.convert_to_tensor(condition))
        if known is None:
            return tf.cond(tf.cast(condition, tf.bool), then, otherwise)
    return then() if known else otherwise()


def _has_keras_2() -> bool:
    return hasattr(tf.keras.layers.Dropout, "_get_noise_shape")


if _has_keras_2():
    tf.keras.layers.Dropout.call = dropout_call

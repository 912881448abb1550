"""LAMB's steps and the layer PReLU for TensorFlow 1 scripts."""

from __future__ import annotations

import numbers
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu_aicore_ops import prelu
from npu_bridge.helper import helper
from npu_device._core.compute.optimizer_steps import (
    lamb_apply_optimizer_assign,
    lamb_apply_weight_assign,
)

__all__ = [
    "PReLU",
    "gen_npu_ops",
    "helper",
    "lamb_apply_optimizer_assign",
    "lamb_apply_weight_assign",
    "prelu",
]

#: The raw ops by name.
gen_npu_ops = helper.get_gen_ops()


class PReLU(tf.keras.layers.Layer):
    """A Keras layer that computes x where it is above 0 and alpha * x elsewhere; alpha is learned.

    x is a floating-point tensor [batch, ...], and the result has its shape and dtype. The weight
    `alpha` has x's shape without the batch, with size 1 along shared_axes.

    Args:
        alpha_initializer: what alpha begins as, see tf.keras.initializers; zeros by default, with
            which the layer begins as ReLU.
        alpha_regularizer: is added to the loss for alpha, see tf.keras.regularizers; None for none.
        alpha_constraint: limits alpha after each step, see tf.keras.constraints; None for none.
        shared_axes: a list of ints from 1, dimensions counted from 1 behind the batch, along which
            there is one alpha only, such as [1, 2] for one of each channel of an image. None, the
            default, learns one alpha for each element. A single int stands for a list with it.
        **kwargs: see tf.keras.layers.Layer, such as name and dtype.

    Raises:
        TypeError: shared_axes is no list of integers.
        ValueError: one of them is below 1.

    Source of the contract: CANN TF Adapter API, npu_vector_ops.PReLU.
    """

    def __init__(
        self,
        alpha_initializer: Any = "zeros",
        alpha_regularizer: Any = None,
        alpha_constraint: Any = None,
        shared_axes: Optional[List[int]] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.alpha_initializer = tf.keras.initializers.get(alpha_initializer)
        self.alpha_regularizer = tf.keras.regularizers.get(alpha_regularizer)
        self.alpha_constraint = tf.keras.constraints.get(alpha_constraint)
        self.shared_axes = _axes(shared_axes)

    def build(self, input_shape: Any) -> None:
        """Makes the weight `alpha`.

        Args:
            input_shape: [batch, ...], known behind the batch except along shared axes.

        Raises:
            ValueError: a size that alpha has is not known, or there is no such shared axis.
        """
        sizes = tf.TensorShape(input_shape).as_list()
        shape = sizes[1:]
        for axis in self.shared_axes or ():
            if not 1 <= axis < len(sizes):
                raise ValueError(
                    f"PReLU: shared_axes must be from 1 to {len(sizes) - 1} for an input of shape "
                    f"{tuple(sizes)}, got {axis}"
                )
            shape[axis - 1] = 1
        if None in shape:
            raise ValueError(
                f"PReLU: the input's sizes must be known, except the batch's and those of shared "
                f"axes, got {tuple(sizes)}"
            )
        if all(size == 1 for size in shape):
            shape = [1]
        self.alpha = self.add_weight(
            name="alpha",
            shape=shape,
            initializer=self.alpha_initializer,
            regularizer=self.alpha_regularizer,
            constraint=self.alpha_constraint,
        )
        self.input_spec = tf.keras.layers.InputSpec(ndim=len(sizes), axes={})
        self.built = True

    def call(self, inputs: Any) -> tf.Tensor:
        """Applies the layer.

        Args:
            inputs: [batch, ...], floating point.

        Returns:
            A tensor of the same shape and dtype.
        """
        return prelu(inputs, tf.cast(self.alpha, inputs.dtype))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Returns the input's shape.

        Args:
            input_shape: that shape.
        """
        return input_shape

    def get_config(self) -> Dict[str, Any]:
        """Returns the arguments that make an equal layer."""
        config = super().get_config()
        config.update(
            alpha_initializer=tf.keras.initializers.serialize(self.alpha_initializer),
            alpha_regularizer=tf.keras.regularizers.serialize(self.alpha_regularizer),
            alpha_constraint=tf.keras.constraints.serialize(self.alpha_constraint),
            shared_axes=self.shared_axes,
        )
        return config


def _axes(shared_axes: Any) -> Optional[List[int]]:
    """Returns the axes as a list, as they are kept."""
    if shared_axes is None:
        return None
    axes = list(shared_axes) if isinstance(shared_axes, (list, tuple)) else [shared_axes]
    allowed = "PReLU: shared_axes must be a list of integers from 1, or None"
    for axis in axes:
        if isinstance(axis, bool) or not isinstance(axis, numbers.Integral):
            raise TypeError(f"{allowed}, got {shared_axes!r}")
        if axis < 1:
            raise ValueError(f"{allowed}, got {shared_axes!r}")
    return [int(axis) for axis in axes]

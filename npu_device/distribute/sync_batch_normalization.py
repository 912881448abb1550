"""Batch normalization over the batches of all ranks. Not in the original."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple

import tensorflow as tf

from npu_device._core import collectives, gradient_reduction, groups

__all__ = ["SyncBatchNormalization"]

_HALF = (tf.float16, tf.bfloat16)


def _registered(layer: Any) -> Any:
    """Lets models with the layer load without being told its class; TensorFlow 1.15 must be."""
    register = getattr(tf.keras.utils, "register_keras_serializable", None)
    return layer if register is None else register(package="npu_device")(layer)


@_registered
class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """tf.keras.layers.BatchNormalization with the mean and variance of all ranks' batches.

    Plain batch normalization sees a rank's own rows, so that N ranks train differently than one
    process with the joined batch, and keep different moving averages. With this layer they are the
    same. Ranks may have different numbers of rows. When it does not train, it sends nothing, so
    that one rank may evaluate alone.

    Weights are named as those of BatchNormalization: for a process without this package, save
    weights and load them into a model with that layer.

    Args:
        axis: the axis of the features.
        momentum: of the moving averages.
        epsilon: added to the variance.
        group: the ranks whose batches are joined.
        **kwargs: other arguments of tf.keras.layers.BatchNormalization. The variance is the biased
            one, as of `fused=False`; `renorm` and `virtual_batch_size` are not joined.
    """

    def __init__(
        self,
        axis: int = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        group: str = groups.WORLD,
        **kwargs: Any,
    ) -> None:
        super().__init__(axis=axis, momentum=momentum, epsilon=epsilon, **kwargs)
        self.group = groups.check_name(group)
        # The kernel that Keras 2 would take computes mean and variance by itself.
        self.fused = False

    def get_config(self) -> Any:
        """Returns the arguments that make such a layer again."""
        return {**super().get_config(), "group": self.group}

    def _calculate_mean_and_var(
        self, inputs: Any, reduction_axes: Any, keep_dims: bool, mask: Any = None
    ) -> Tuple[tf.Tensor, tf.Tensor]:
        """Keras 2 calls this."""
        return moments(inputs, reduction_axes, keep_dims, mask, self.group)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Keras 3 calls this with a mask, Keras 2 with what it passes on to the method above."""
        if not hasattr(self, "_reduction_axes"):
            return super()._moments(inputs, *args, **kwargs)
        mask = args[0] if args else kwargs.get("mask")
        return moments(inputs, self._reduction_axes, False, mask, self.group)


def moments(
    values: Any,
    axes: Sequence[int],
    keepdims: bool = False,
    mask: Optional[Any] = None,
    group: str = groups.WORLD,
) -> Tuple[tf.Tensor, tf.Tensor]:
    """Computes mean and variance over the values of all ranks.

    Args:
        values: float, equal in all dimensions but those of `axes` on all ranks.
        axes: the dimensions over which to compute.
        keepdims: whether those stay, with length 1.
        mask: which of the values count: bool, without the last dimension of `values`; None for all.
        group: the ranks.

    Returns:
        Mean and variance, in the dtype of `values`; those of half precision are computed in
        float32.
    """
    values = tf.convert_to_tensor(values)
    wide = tf.cast(values, tf.float32) if values.dtype in _HALF else values
    if mask is None:
        weights = tf.ones_like(wide)
    else:
        weights = tf.broadcast_to(tf.cast(mask, wide.dtype)[..., tf.newaxis], tf.shape(wide))
    counts = tf.reduce_sum(weights, axes, keepdims=True)
    sums = tf.reduce_sum(wide * weights, axes, keepdims=True)
    sums, counts = tf.unstack(_summed(tf.stack([sums, counts]), group))
    mean = sums / counts
    # In a second exchange: the difference of mean square and squared mean would cancel.
    deviations = tf.reduce_sum(tf.square(wide - mean) * weights, axes, keepdims=True)
    variance = _summed(deviations, group) / counts
    if not keepdims:
        mean, variance = tf.squeeze(mean, axes), tf.squeeze(variance, axes)
    return tf.cast(mean, values.dtype), tf.cast(variance, values.dtype)


def _summed(tensor: tf.Tensor, group: str) -> tf.Tensor:
    if groups.rank_size(group) == 1:
        return tensor
    with gradient_reduction.root_scope("SyncBatchNormalization"):
        return collectives.all_reduce(tensor, "sum", group=group)

"""By which factor a loss is multiplied, for NPULossScaleOptimizer and NPUOptimizer."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_device._core import loss_scale as _loss_scale

__all__ = ["ExponentialUpdateLossScaleManager", "FixedLossScaleManager"]


class FixedLossScaleManager(_loss_scale.BASES.fixed):  # type: ignore[name-defined]
    """A factor that stays the same.

    Derived from tf.contrib.mixed_precision.FixedLossScaleManager where that exists.

    Args:
        loss_scale: the factor, a Python number of at least 1.
        enable_overflow_check: whether optimizers look for infinities and NaN in the gradients, and
            skip steps that have them. If not, each step changes the variables.

    Raises:
        ValueError: `loss_scale` is below 1.

    Source of the contract: CANN TF Adapter API, FixedLossScaleManager constructor.
    """

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True):
        if loss_scale < 1:
            raise ValueError(f"loss scale must be at least 1, got {loss_scale!r}.")
        super().__init__(loss_scale=loss_scale)
        self._enable_overflow_check = enable_overflow_check

    def get_enable_overflow_check(self) -> bool:
        """Returns whether steps with gradients that are not finite are skipped.

        Source of the contract: CANN TF Adapter API, FixedLossScaleManager.
        """
        return self._enable_overflow_check


class ExponentialUpdateLossScaleManager(
    _loss_scale.BASES.exponential  # type: ignore[name-defined]
):
    """A factor that grows while gradients are finite and shrinks when they are not.

    Derived from tf.contrib.mixed_precision.ExponentialUpdateLossScaleManager where that exists. It
    is kept in a variable, float32 of shape [], beside two counts of steps; all three start again
    from zero steps whenever it changes. It never gets below 1, nor above what float32 holds.

    Args:
        init_loss_scale: the factor at the beginning, a Python number.
        incr_every_n_steps: after so many steps in a row with finite gradients it grows.
        decr_every_n_nan_or_inf: after so many steps with others, in a row or not, it shrinks.
        incr_ratio: what it is multiplied by to grow, above 1.
        decr_ratio: what it is multiplied by to shrink, below 1.

    Source of the contract: CANN TF Adapter API, ExponentialUpdateLossScaleManager constructor.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ):
        super().__init__(
            init_loss_scale=init_loss_scale,
            incr_every_n_steps=incr_every_n_steps,
            decr_every_n_nan_or_inf=decr_every_n_nan_or_inf,
            incr_ratio=incr_ratio,
            decr_ratio=decr_ratio,
        )

    def update_loss_scale(self, finite_grads: tf.Tensor) -> Any:
        """Counts a step and changes the factor if it is time.

        Args:
            finite_grads: bool, []: whether the step's gradients were finite. Ranks stay alike if
                they pass the same, as the optimizers here do.

        Returns:
            The op; None eagerly.

        Source of the contract: CANN TF Adapter API, ExponentialUpdateLossScaleManager.
        """
        return _loss_scale.exponential_update(self, finite_grads)

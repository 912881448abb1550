"""By which factor a loss is multiplied, for NPULossScaleOptimizer and NPUOptimizer."""

from __future__ import annotations

import math
import numbers
from typing import Any, Optional

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
        TypeError: `loss_scale` is no Python number.
        ValueError: it is below 1 or not finite.

    Source of the contract: CANN TF Adapter API, FixedLossScaleManager constructor.
    """

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True):
        _check("FixedLossScaleManager", "loss_scale", loss_scale, 1)
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
        init_loss_scale: the factor at the beginning, a Python number of at least 1.
        incr_every_n_steps: after so many steps in a row with finite gradients it grows.
        decr_every_n_nan_or_inf: after so many steps with others, in a row or not, it shrinks.
        incr_ratio: what it is multiplied by to grow, at least 1.
        decr_ratio: what it is multiplied by to shrink, above 0 and at most 1.

    Raises:
        TypeError: an argument is no Python number.
        ValueError: an argument is out of its range.

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
        where = "ExponentialUpdateLossScaleManager"
        _check(where, "init_loss_scale", init_loss_scale, 1)
        _check(where, "incr_every_n_steps", incr_every_n_steps, 1)
        _check(where, "decr_every_n_nan_or_inf", decr_every_n_nan_or_inf, 1)
        _check(where, "incr_ratio", incr_ratio, 1)
        _check(where, "decr_ratio", decr_ratio, 0, 1)
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


def _check(
    where: str, name: str, value: Any, at_least: float, at_most: Optional[float] = None
) -> None:
    bounds = f"of {at_least} or more" if at_most is None else f"above {at_least} to {at_most}"
    at = f"{where}: {name} is {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(f"{at}, allowed is a Python number {bounds}.")
    number = float(value)
    inside = number >= at_least if at_most is None else at_least < number <= at_most
    if not (inside and math.isfinite(number)):
        raise ValueError(f"{at}, allowed is a Python number {bounds}.")

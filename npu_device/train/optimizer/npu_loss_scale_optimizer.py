"""Loss scaling for Keras optimizers, whose ranks skip a step together."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import tensorflow as tf

from npu_device._core import groups, keras_loss_scale, keras_root, overflow
from npu_device._core.distributed_optimizers import Reducing
from npu_device._core.keras_loss_scale import LossScaleOptimizer
from npu_device.distribute.hccl import all_reduce
from npu_device.npu_device import (
    gen_npu_ops,
    global_npu_ctx,
    is_inf_nan_enabled,
    npu_compat_function,
)

__all__ = [
    "NpuExperimentalLossScaleOptimizer",
    "NpuLossScaleOptimizer",
    "all_reduce",
    "gen_npu_ops",
    "global_npu_ctx",
    "is_inf_nan_enabled",
    "npu_compat_function",
]

# Keras's own defaults.
_INITIAL_SCALE = 2.0**15
_GROWTH_STEPS = 2000


class NpuLossScaleOptimizer(LossScaleOptimizer):
    """Multiplies the loss, divides the gradients, and skips steps whose gradients overflow.

    As tf.keras.mixed_precision.LossScaleOptimizer, with two differences: a step that overflows on
    one rank of the job is skipped by all, whether the optimizer inside reduces gradients or not;
    and steps are skipped with a fixed scale too. Keras 3 divides the gradients by itself; with
    Keras 2 call get_scaled_loss and get_unscaled_gradients in custom loops.

    Args:
        inner_optimizer: the Keras optimizer that applies the gradients.
        dynamic: whether the scale grows while gradients are finite and halves when they are not.
        initial_scale: the scale at the beginning, or for ever. By default 32768 if it is dynamic.
        dynamic_growth_steps: after so many finite steps it doubles; by default 2000.

    Raises:
        RuntimeError: this TensorFlow's Keras has no LossScaleOptimizer.
        TypeError: `inner_optimizer` is no Keras optimizer.
        ValueError: `dynamic` is False, and `initial_scale` is not given or `dynamic_growth_steps`
            is; or a scale is not above 0, or a number of steps below 1.

    Source of the contract: CANN TF Adapter API, npu.train.optimizer.NpuLossScaleOptimizer.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Makes an instance of the class that the optimizer inside needs; see keras_loss_scale."""
        inner = args[0] if args else kwargs.get("inner_optimizer", kwargs.get("optimizer"))
        return object.__new__(keras_loss_scale.class_for(cls, inner))

    def __init__(
        self,
        inner_optimizer: Any,
        dynamic: bool = True,
        initial_scale: Optional[float] = None,
        dynamic_growth_steps: Optional[int] = None,
    ) -> None:
        _check_numbers(initial_scale, dynamic_growth_steps)
        if keras_loss_scale.IS_KERAS_3:
            _check_is_of_keras_3(inner_optimizer)
            _check_scale(dynamic, initial_scale, dynamic_growth_steps)
            super().__init__(
                inner_optimizer,
                initial_scale=_INITIAL_SCALE if initial_scale is None else float(initial_scale),
                dynamic_growth_steps=dynamic_growth_steps or _GROWTH_STEPS,
            )
        else:
            super().__init__(inner_optimizer, dynamic, initial_scale, dynamic_growth_steps)
        with tf.init_scope():
            finite = tf.Variable(False, trainable=False, name="npu_last_step_finite")
        # Past __setattr__: Keras would save it as one of the optimizer's variables.
        self.__dict__["_npu_last_step_finite"] = finite
        self.__dict__["_npu_dynamic"] = dynamic

    @property
    def last_step_finite(self) -> Any:
        """Whether the last step's gradients were finite on all ranks: a bool variable, [].

        False before the first step.
        """
        return self.__dict__["_npu_last_step_finite"]

    def apply_gradients(
        self, grads_and_vars: Iterable[Tuple[Any, Any]], name: Optional[str] = None
    ) -> Any:
        """Applies gradients if they are finite on all ranks.

        Args:
            grads_and_vars: pairs of gradient and variable. With Keras 2 the gradients have been
                divided by the scale; Keras 3 divides them here.
            name: of the op; Keras 3 does not use it.

        Returns:
            In Keras 2 the op, None eagerly; in Keras 3 the count of steps.

        Source of the contract: CANN TF Adapter API, npu.train.optimizer.NpuLossScaleOptimizer.
        """
        if keras_loss_scale.IS_KERAS_3:
            return super().apply_gradients(grads_and_vars)
        inner = self.inner_optimizer
        pairs = list(grads_and_vars)
        if isinstance(inner, Reducing):
            # With those that are None, which ranks compare.
            pairs = inner._npu_reduced(pairs)
        pairs = [(gradient, v) for gradient, v in pairs if gradient is not None]
        if not pairs:
            raise ValueError("NpuLossScaleOptimizer.apply_gradients: no variable has a gradient.")
        finite = self._npu_noted([gradient for gradient, _ in pairs])
        updates: List[Any] = [tf.no_op()]
        if self.dynamic:
            # Keras looks at gradients for itself; this one shows it what all ranks have found.
            shown = tf.where(finite, tf.constant(0.0), tf.constant(float("nan")))
            updates.append(self._loss_scale.update([shown])[0])

        def apply() -> Any:
            return tf.group(self._npu_apply(pairs, name))

        def skip() -> Any:
            return tf.group(inner.iterations.assign_add(1, read_value=False))

        applied = tf.cond(finite, apply, skip)
        return tf.group(*[one for one in [applied, *updates] if one is not None])

    def _npu_apply(self, pairs: List[Tuple[Any, Any]], name: Optional[str]) -> Any:
        apply: Any = self.inner_optimizer.apply_gradients
        if isinstance(self.inner_optimizer, Reducing):
            with self.inner_optimizer._npu_reduced_outside():
                return apply(pairs, name=name)
        return apply(pairs, name=name)

    def _npu_noted(self, gradients: List[Any]) -> Any:
        finite = overflow.all_finite(gradients, groups.WORLD)
        self.last_step_finite.assign(finite)
        return finite

    # What Keras 3 calls.

    def check_finite(self, grads: Any) -> Any:
        """Returns whether gradients are finite on all ranks: bool, []."""
        return self._npu_noted(list(grads))

    def _stateful_handle_finite_grads(self, grads: Any, trainable_variables: Any) -> None:
        kept = self.dynamic_scale.value if not self._npu_is_dynamic else None
        super()._stateful_handle_finite_grads(grads, trainable_variables)
        if kept is not None:
            self.dynamic_scale.assign(kept)

    def _stateful_handle_non_finite_grads(self) -> None:
        if self._npu_is_dynamic:
            super()._stateful_handle_non_finite_grads()
        else:
            self.step_counter.assign(0)

    @property
    def _npu_is_dynamic(self) -> bool:
        return bool(self.__dict__["_npu_dynamic"])


class NpuExperimentalLossScaleOptimizer(NpuLossScaleOptimizer):
    """NpuLossScaleOptimizer with the arguments of Keras's experimental loss scaling.

    Args:
        optimizer: the Keras optimizer that applies the gradients.
        loss_scale: "dynamic", a number for a fixed scale, or an instance of
            tf.compat.v1.mixed_precision's FixedLossScale or DynamicLossScale.

    Raises:
        RuntimeError: this TensorFlow's Keras has no LossScaleOptimizer.
        TypeError: `loss_scale` is none of these.
        ValueError: it is below 1, or multiplies by another factor than 2.

    Source of the contract: CANN TF Adapter API, npu.train.optimizer.
    """

    def __init__(self, optimizer: Any, loss_scale: Any) -> None:
        super().__init__(optimizer, **_scale_arguments(loss_scale))

    @classmethod
    def from_config(cls, config: Dict[str, Any], custom_objects: Any = None) -> Any:
        """Makes an optimizer from a configuration.

        Args:
            config: what get_config returned.
            custom_objects: classes by name, for the optimizer inside.

        Returns:
            An NpuLossScaleOptimizer.
        """
        return NpuLossScaleOptimizer.from_config(config, custom_objects)

    @property
    def last_step_finite(self) -> Any:
        """Whether the last step's gradients were finite on all ranks: a bool variable, []."""
        return self.__dict__["_npu_last_step_finite"]

    def apply_gradients(
        self, grads_and_vars: Iterable[Tuple[Any, Any]], name: Optional[str] = None
    ) -> Any:
        """Applies gradients if they are finite on all ranks; see NpuLossScaleOptimizer.

        Args:
            grads_and_vars: see there.
            name: see there.

        Returns:
            See there.
        """
        return super().apply_gradients(grads_and_vars, name)


def _check_is_of_keras_3(inner_optimizer: Any) -> None:
    """Checks what Keras 2 checks, for Keras 3."""
    if keras_root.of(inner_optimizer) is not None and not keras_root.is_keras_3(inner_optimizer):
        raise TypeError(
            f"NpuLossScaleOptimizer is of Keras 3 here, and inner_optimizer of tf-keras: "
            f"{inner_optimizer!r}. Set TF_USE_LEGACY_KERAS=1 before TensorFlow is imported."
        )
    if not keras_root.is_keras_3(inner_optimizer) or isinstance(
        inner_optimizer, LossScaleOptimizer
    ):
        raise TypeError(
            f"NpuLossScaleOptimizer: inner_optimizer must be a Keras optimizer other than a "
            f"LossScaleOptimizer, got {inner_optimizer!r}."
        )


def _check_numbers(initial_scale: Any, growth_steps: Any) -> None:
    """Refuses what Keras takes, and with which no step is ever applied."""
    if initial_scale is not None and not 0 < float(initial_scale) < float("inf"):
        raise ValueError(
            f"NpuLossScaleOptimizer: initial_scale must be a finite number above 0, got "
            f"{initial_scale!r}."
        )
    if growth_steps is not None and growth_steps < 1:
        raise ValueError(
            f"NpuLossScaleOptimizer: dynamic_growth_steps must be at least 1, got {growth_steps!r}."
        )


def _check_scale(dynamic: Any, initial_scale: Any, growth_steps: Any) -> None:
    """Checks what Keras 2 checks, for Keras 3."""
    if not isinstance(dynamic, bool):
        raise TypeError(f"NpuLossScaleOptimizer: dynamic must be a bool, got {dynamic!r}.")
    if not dynamic and (initial_scale is None or growth_steps is not None):
        raise ValueError(
            f"NpuLossScaleOptimizer: with dynamic=False pass initial_scale, and no "
            f"dynamic_growth_steps; got {initial_scale!r} and {growth_steps!r}."
        )


def _scale_arguments(loss_scale: Any) -> Dict[str, Any]:
    """Returns the arguments of NpuLossScaleOptimizer for a scale of the experimental API."""
    if loss_scale == "dynamic":
        return {}
    if isinstance(loss_scale, (int, float)) and not isinstance(loss_scale, bool):
        if loss_scale < 1:
            raise ValueError(f"loss_scale must be at least 1, got {loss_scale!r}.")
        return {"dynamic": False, "initial_scale": float(loss_scale)}
    scales = tf.compat.v1.mixed_precision
    if isinstance(loss_scale, scales.FixedLossScale):
        return {"dynamic": False, "initial_scale": loss_scale._loss_scale_value}
    if isinstance(loss_scale, scales.DynamicLossScale):
        if loss_scale.multiplier != 2:
            raise ValueError(f"loss_scale must have multiplier 2, got {loss_scale.multiplier!r}.")
        return {
            "initial_scale": loss_scale.initial_loss_scale,
            "dynamic_growth_steps": loss_scale.increment_period,
        }
    raise TypeError(
        f"loss_scale must be 'dynamic', a number, or a FixedLossScale or DynamicLossScale of "
        f"tf.compat.v1.mixed_precision, got {loss_scale!r}."
    )

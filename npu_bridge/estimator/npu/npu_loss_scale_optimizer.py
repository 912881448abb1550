"""Loss scaling around a tf.train optimizer."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import argument_checks, npu_plugin
from npu_bridge.estimator.npu.npu_loss_scale_manager import FixedLossScaleManager
from npu_bridge.hccl import hccl_ops
from npu_bridge.helper import helper
from npu_device._core import groups, overflow
from npu_device._core import loss_scale as _loss_scale
from npu_device._core.gradient_reduction import GradientAndVariable

__all__ = [
    "FixedLossScaleManager",
    "NPULossScaleOptimizer",
    "gen_npu_ops",
    "hccl_ops",
    "helper",
    "npu_plugin",
]

gen_npu_ops = helper.get_gen_ops()


class NPULossScaleOptimizer(_loss_scale.BASES.optimizer):  # type: ignore[name-defined]
    """Multiplies the loss before it is differentiated, and divides the gradients afterwards.

    A step whose gradients are not all finite changes no variable and does not advance the global
    step; the manager then counts it. Derived from tf.contrib.mixed_precision.LossScaleOptimizer
    where that exists. Attributes that it lacks are those of `opt`.

    Args:
        opt: the tf.train optimizer that computes and applies gradients. It does not reduce them
            over the ranks: for that, wrap it in NPUDistributedOptimizer or with
            npu_distributed_optimizer_wrapper first.
        loss_scale_manager: a FixedLossScaleManager or ExponentialUpdateLossScaleManager.
        is_distributed: whether the ranks decide together, so that a step which is not finite on
            one of them is skipped on all.

    Raises:
        ValueError: `loss_scale_manager` is None.
        TypeError: it is something else, or `opt` is no optimizer of tf.train.

    Source of the contract: CANN TF Adapter API, NPULossScaleOptimizer constructor.
    """

    def __init__(self, opt: Any, loss_scale_manager: Any, is_distributed: bool = False):
        argument_checks.train_optimizer("NPULossScaleOptimizer", "opt", opt)
        argument_checks.loss_scale_manager("NPULossScaleOptimizer", loss_scale_manager)
        # The class of TensorFlow 1 does not initialize its own base.
        tf.train.Optimizer.__init__(
            self, use_locking=False, name="NPULossScaleOptimizer" + type(opt).__name__
        )
        name = self.get_name()
        super().__init__(opt=opt, loss_scale_manager=loss_scale_manager)
        self._name = name
        self._is_distributed = is_distributed

    def __getattr__(self, name: str) -> Any:
        if name == "_opt":  # asked for before __init__ has set it, as copy.copy does
            raise AttributeError(name)
        return getattr(self._opt, name)

    def apply_gradients(
        self,
        grads_and_vars: Sequence[GradientAndVariable],
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """Applies gradients if all are finite, and tells the manager.

        Args:
            grads_and_vars: what compute_gradients returned.
            global_step: a variable that counts the steps that were not skipped.
            name: of the op that applies.

        Returns:
            The op; None eagerly.

        Source of the contract: CANN TF Adapter API, NPULossScaleOptimizer.
        """
        return _apply_if_finite(
            self._opt,
            self._loss_scale_manager,
            self._is_distributed,
            list(grads_and_vars),
            global_step,
            name,
        )

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what get_slot of the optimizer inside returns."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> List[str]:
        """Returns what get_slot_names of the optimizer inside returns."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> List[Any]:
        """Returns what variables of the optimizer inside returns."""
        return self._opt.variables(*args, **kwargs)

    def _down_scale(
        self, grads_vars: Sequence[GradientAndVariable], loss_scale: Any
    ) -> List[GradientAndVariable]:
        # That of TensorFlow 1 makes sparse gradients dense.
        return _loss_scale.down_scaled(grads_vars, loss_scale)


def _apply_if_finite(
    optimizer: Any,
    manager: Any,
    is_distributed: bool,
    pairs: List[GradientAndVariable],
    global_step: Any,
    name: Optional[str],
) -> Any:
    """Applies gradients if all are finite, and tells the manager; see NPULossScaleOptimizer."""
    checks = not isinstance(manager, FixedLossScaleManager) or manager.get_enable_overflow_check()
    finite = tf.constant(True)
    if checks:
        group = groups.WORLD if is_distributed else None
        finite = overflow.all_finite((gradient for gradient, _ in pairs), group)

    def apply() -> Any:
        return optimizer.apply_gradients(pairs, global_step, name)

    update = overflow.only_if(finite, apply) if checks else apply()
    return tf.group(update, manager.update_loss_scale(finite))

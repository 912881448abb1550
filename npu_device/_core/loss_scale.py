"""Loss scaling for tf.train optimizers: the classes of tf.contrib.mixed_precision.

TensorFlow 1 has them, and scripts may test for them with isinstance; where there is no tf.contrib,
the classes of the same names here do the same. `BASES` are those that this TensorFlow has.

Source of the contract: TensorFlow 1.15 API, tf.contrib.mixed_precision.
"""

from __future__ import annotations

import abc
from typing import Any, List, NamedTuple, Optional, Sequence, Type

import tensorflow.compat.v1 as tf

from npu_device._core import gradient_reduction, overflow
from npu_device._core.gradient_reduction import GradientAndVariable


class LossScaleManager(abc.ABC):
    """Decides by which factor the loss is multiplied."""

    @abc.abstractmethod
    def get_loss_scale(self) -> Any:
        """Returns the factor: float32, []."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads: tf.Tensor) -> Any:
        """Takes note of a step.

        Args:
            finite_grads: bool, []: whether the step's gradients were finite.

        Returns:
            The op; None eagerly.
        """


class FixedLossScaleManager(LossScaleManager):
    """A factor that stays the same.

    Args:
        loss_scale: the factor, at least 1.

    Raises:
        ValueError: it is below 1.
    """

    def __init__(self, loss_scale: float):
        if loss_scale < 1:
            raise ValueError(f"loss scale must be at least 1, got {loss_scale!r}.")
        self._loss_scale = tf.convert_to_tensor(loss_scale, dtype=tf.float32)

    def get_loss_scale(self) -> Any:
        """Returns the factor: float32, []."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: tf.Tensor) -> Any:
        """Changes nothing; see LossScaleManager."""
        del finite_grads
        return tf.no_op()


class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A factor that grows while gradients are finite and shrinks when they are not.

    Args:
        init_loss_scale: the factor at the beginning.
        incr_every_n_steps: after so many steps in a row with finite gradients it grows.
        decr_every_n_nan_or_inf: after so many steps with others, in a row or not, it shrinks.
        incr_ratio: what it is multiplied by to grow.
        decr_ratio: what it is multiplied by to shrink, below 1.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ):
        self._incr_every_n_steps = incr_every_n_steps
        self._decr_every_n_nan_or_inf = decr_every_n_nan_or_inf
        self._incr_ratio = incr_ratio
        self._decr_ratio = decr_ratio
        initial = tf.convert_to_tensor(init_loss_scale, dtype=tf.float32)
        self._loss_scale = tf.Variable(initial, trainable=False, name="loss_scale")
        self._num_good_steps = tf.Variable(0, trainable=False, name="good_steps", dtype=tf.int32)
        self._num_bad_steps = tf.Variable(0, trainable=False, name="bad_steps", dtype=tf.int32)

    def get_loss_scale(self) -> Any:
        """Returns the variable that holds the factor: float32, []."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: tf.Tensor) -> Any:
        """Counts the step and changes the factor if it is time; see LossScaleManager."""
        return exponential_update(self, finite_grads)


def exponential_update(manager: Any, finite: tf.Tensor) -> Any:
    """Makes the update of an ExponentialUpdateLossScaleManager, ours or that of TensorFlow 1.

    Args:
        manager: has the factor, the two counts and the four settings.
        finite: bool, []: whether the step's gradients were finite.

    Returns:
        The op; None eagerly.
    """
    factor, good, bad = (
        tf.identity(variable.read_value())
        for variable in (manager._loss_scale, manager._num_good_steps, manager._num_bad_steps)
    )
    grown = factor * manager._incr_ratio
    grown = tf.where_v2(tf.is_finite(grown), grown, factor)
    shrunk = tf.maximum(1.0, factor * manager._decr_ratio)
    grows = tf.logical_and(finite, good + 1 >= manager._incr_every_n_steps)
    shrinks = tf.logical_and(tf.logical_not(finite), bad + 1 >= manager._decr_every_n_nan_or_inf)
    changes = tf.logical_or(grows, shrinks)
    zero = tf.zeros_like(good)
    new_factor = tf.where_v2(grows, grown, tf.where_v2(shrinks, shrunk, factor))
    new_good = tf.where_v2(tf.logical_and(finite, tf.logical_not(changes)), good + 1, zero)
    new_bad = tf.where_v2(changes, zero, tf.where_v2(finite, bad, bad + 1))
    # Ref variables are read where they stand: nothing may be written before all was read.
    with tf.control_dependencies([new_factor, new_good, new_bad]):
        assigned = [
            manager._loss_scale.assign(new_factor),
            manager._num_good_steps.assign(new_good),
            manager._num_bad_steps.assign(new_bad),
        ]
    return tf.group(*assigned)


class LossScaleOptimizer(tf.train.Optimizer):
    """Multiplies the loss before it is differentiated, and divides the gradients.

    Steps whose gradients are not finite change no variable and do not advance the global step.

    Args:
        opt: the optimizer that computes and applies gradients.
        loss_scale_manager: gives the factor.
    """

    def __init__(self, opt: Any, loss_scale_manager: Any):
        super().__init__(use_locking=False, name=type(self).__name__)
        self._opt = opt
        self._loss_scale_manager = loss_scale_manager

    def compute_gradients(
        self,
        loss: Any,
        var_list: Optional[Sequence[Any]] = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: Optional[int] = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> List[GradientAndVariable]:
        """Computes gradients of the multiplied loss and divides them again.

        Args:
            loss: see tf.train.Optimizer.compute_gradients, as are the others.
            var_list: see there.
            gate_gradients: see there.
            aggregation_method: see there.
            colocate_gradients_with_ops: see there.
            grad_loss: see there.

        Returns:
            Pairs of gradient and variable.
        """
        factor = self._loss_scale_manager.get_loss_scale()
        pairs = self._opt.compute_gradients(
            scaled_loss(loss, factor),
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        return self._down_scale(pairs, factor)

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
            name: of the op.

        Returns:
            The op; None eagerly.
        """
        pairs = list(grads_and_vars)
        finite = overflow.all_finite(gradient for gradient, _ in pairs)
        update = overflow.only_if(
            finite, lambda: self._opt.apply_gradients(pairs, global_step, name)
        )
        return tf.group(update, self._loss_scale_manager.update_loss_scale(finite))

    def _down_scale(
        self, grads_vars: Sequence[GradientAndVariable], loss_scale: Any
    ) -> List[GradientAndVariable]:
        return down_scaled(grads_vars, loss_scale)


def scaled_loss(loss: Any, factor: Any) -> Any:
    """Multiplies a loss.

    Args:
        loss: a tensor, or eagerly a function that returns one.
        factor: float32, [].

    Returns:
        The product in the dtype of the loss; eagerly a function that returns it.
    """

    def product() -> tf.Tensor:
        value = loss() if callable(loss) else loss
        return value * tf.cast(factor, value.dtype.base_dtype)

    return product if tf.executing_eagerly() else product()


def down_scaled(
    grads_and_vars: Sequence[GradientAndVariable], factor: Any
) -> List[GradientAndVariable]:
    """Divides gradients by the factor that their loss was multiplied by.

    Args:
        grads_and_vars: pairs; a gradient is dense, IndexedSlices, or None.
        factor: float32, [].
    """
    inverse = tf.reciprocal(factor)
    return [
        (gradient_reduction.scaled(gradient, inverse), variable)
        for gradient, variable in grads_and_vars
    ]


class Bases(NamedTuple):
    """The classes that those of npu_bridge are derived from."""

    fixed: Type[Any]
    exponential: Type[Any]
    optimizer: Type[Any]


def _bases() -> Bases:
    if tf.__version__.startswith("1."):
        from tensorflow.contrib import mixed_precision

        return Bases(
            mixed_precision.FixedLossScaleManager,
            mixed_precision.ExponentialUpdateLossScaleManager,
            mixed_precision.LossScaleOptimizer,
        )
    return Bases(FixedLossScaleManager, ExponentialUpdateLossScaleManager, LossScaleOptimizer)


BASES = _bases()

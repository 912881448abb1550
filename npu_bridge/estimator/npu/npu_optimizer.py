"""Optimizers whose gradients are the mean over the ranks."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import argument_checks, npu_scope, util
from npu_bridge.estimator.npu.npu_common import NPUBasics
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import _apply_if_finite
from npu_bridge.hccl import hccl_ops
from npu_bridge.helper import helper
from npu_device._core import (
    collectives,
    distributed_optimizers,
    gradient_reduction,
    groups,
    logging,
    value_reduction,
    weight_sharding,
)
from npu_device._core import loss_scale as _loss_scale
from npu_device._core.gradient_reduction import GradientAndVariable
from npu_device._core.keras_classes import OptimizerV2, require_keras_2

__all__ = [
    "KerasDistributeOptimizer",
    "NPUBasics",
    "NPUDistributedOptimizer",
    "NPUOptimizer",
    "allreduce",
    "gen_npu_ops",
    "hccl_ops",
    "helper",
    "npu_allreduce",
    "npu_distributed_optimizer_wrapper",
    "npu_scope",
    "reduce",
    "util",
]

gen_npu_ops = helper.get_gen_ops()


def allreduce(tensor: Any, average: bool = True) -> Any:
    """Reduces one value over all ranks.

    Args:
        tensor: a tensor or variable with the same shape and dtype on all ranks; or IndexedSlices,
            whose number of rows may differ between ranks.
        average: whether the sum is divided by the number of ranks. Integers are rounded towards
            zero.

    Returns:
        The sum or mean, with the shape and dtype of the input; of IndexedSlices the rows of all
        ranks, as IndexedSlices.

    Source of the contract: CANN TF Adapter API, npu_optimizer.allreduce.
    """
    reduction = "mean" if average else "sum"
    return value_reduction.all_reduce(tensor, reduction, 1, -1, groups.WORLD)


def reduce(
    tensor: Any, root_rank: int, average: bool = True, fusion: int = 0, fusion_id: int = -1
) -> Any:
    """Reduces one value over all ranks for one of them.

    Args:
        tensor: a tensor or variable with the same shape and dtype on all ranks; or IndexedSlices.
        root_rank: the rank that wants the result.
        average: whether the sum is divided by the number of ranks.
        fusion: see hccl_ops.reduce. Without meaning for IndexedSlices.
        fusion_id: see hccl_ops.reduce.

    Returns:
        On the root the sum or mean, on other ranks their own input. IndexedSlices are the sum or
        mean on every rank.

    Source of the contract: CANN TF Adapter API, npu_optimizer.reduce.
    """
    if isinstance(tensor, tf.IndexedSlices):
        return allreduce(tensor, average)
    total = collectives.reduce(tensor, "sum", root_rank, fusion=fusion, fusion_id=fusion_id)
    if average and groups.rank_id(groups.WORLD) == root_rank:
        return value_reduction.divided(total, groups.rank_size(groups.WORLD))
    return total


def npu_allreduce(
    values: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> Any:
    """Reduces one value, or each of several, over a group.

    For gradients that a script computes itself, with tf.gradients or by adding up several batches.

    Args:
        values: a tensor, variable or IndexedSlices, or a list or tuple of these and None. Entries
            must be None at the same positions on all ranks.
        reduction: "mean", "sum", "max", "min" or "prod"; of IndexedSlices "mean" or "sum".
        fusion: see hccl_ops.allreduce.
        fusion_id: see hccl_ops.allreduce.
        group: the ranks. The mean divides by their number.

    Returns:
        The reduced value; a list or tuple of them if `values` is one.

    Source of the contract: CANN TF Adapter API, npu_optimizer.npu_allreduce.
    """
    reduced = value_reduction.all_reduce(values, reduction, fusion, fusion_id, group)
    for value in reduced if isinstance(reduced, (list, tuple)) else [reduced]:
        gradient_reduction.mark_reduced(value, group)
    return reduced


class NPUOptimizer(tf.train.Optimizer):
    """Distribution and loss scaling in one optimizer.

    Args:
        opt: the tf.train optimizer that computes and applies gradients.
        loss_scale_manager: with `is_loss_scale`, what decides about the factor.
        is_distributed: whether gradients are the mean over the ranks, and ranks decide together
            which steps are skipped.
        is_loss_scale: whether the loss is multiplied, and steps are skipped whose gradients are
            not finite; see NPULossScaleOptimizer.
        is_tailing_optimization: for the NPU; has no effect on CPU ranks, where work that does not
            depend on an exchange always runs beside it.
        name: of the optimizer.

    Raises:
        ValueError: `is_loss_scale` is True and there is no manager.
        TypeError: `opt` is no optimizer of tf.train, or the manager is something else.

    Source of the contract: CANN TF Adapter API, NPUOptimizer constructor.
    """

    def __init__(
        self,
        opt: Any,
        loss_scale_manager: Any = None,
        is_distributed: bool = False,
        is_loss_scale: bool = False,
        is_tailing_optimization: bool = False,
        name: Optional[str] = None,
    ):
        argument_checks.train_optimizer("NPUOptimizer", "opt", opt)
        if is_loss_scale:
            argument_checks.loss_scale_manager(
                "NPUOptimizer with is_loss_scale=True", loss_scale_manager
            )
        super().__init__(use_locking=False, name=name or "NPUOptimizer" + type(opt).__name__)
        if is_tailing_optimization:
            logging.info_from_rank_0(
                "NPUOptimizer(is_tailing_optimization=True) is for the NPU and has no effect on "
                "CPU ranks."
            )
        self._opt = opt
        self._loss_scale_manager = loss_scale_manager
        self._is_distributed = is_distributed
        self._is_loss_scale = is_loss_scale

    def compute_gradients(
        self,
        loss: Any,
        var_list: Optional[Sequence[Any]] = None,
        gate_gradients: int = tf.train.Optimizer.GATE_OP,
        aggregation_method: Optional[int] = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> List[GradientAndVariable]:
        """Computes gradients, reduced and with the factor of the loss taken out.

        Args:
            loss: a tensor, or eagerly a function that returns one.
            var_list: see tf.train.Optimizer.compute_gradients, as are the following.
            gate_gradients: see there.
            aggregation_method: see there.
            colocate_gradients_with_ops: see there.
            grad_loss: see there.

        Returns:
            Pairs of gradient and variable.

        Source of the contract: CANN TF Adapter API, NPUOptimizer.
        """
        factor = None
        if self._is_loss_scale:
            factor = self._loss_scale_manager.get_loss_scale()
            loss = _loss_scale.scaled_loss(loss, factor)
        pairs = self._opt.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if self._is_distributed:
            pairs = gradient_reduction.reduce_gradients(pairs, scope=self._name + "_Allreduce")
        return pairs if factor is None else _loss_scale.down_scaled(pairs, factor)

    def apply_gradients(
        self,
        grads_and_vars: Sequence[GradientAndVariable],
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """Applies gradients; with loss scaling, if all are finite.

        Args:
            grads_and_vars: what compute_gradients returned.
            global_step: a variable that counts the steps that were not skipped.
            name: of the op that applies.

        Returns:
            The op; None eagerly.

        Source of the contract: CANN TF Adapter API, NPUOptimizer.
        """
        if not self._is_loss_scale:
            return self._opt.apply_gradients(grads_and_vars, global_step, name)
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


class NPUDistributedOptimizer(tf.train.Optimizer):
    """A tf.train optimizer whose gradients are the mean over all ranks.

    compute_gradients reduces, so that a script may change the mean (clip it) before
    apply_gradients, which reduces nothing. Gradients that a script computes in another way it
    reduces itself, with npu_allreduce.

    Args:
        optimizer: the optimizer that computes and applies gradients.
        is_weight_update_sharding: whether each rank updates only some variables (those with about
            the same number of bytes) and then sends them to the others. A rank then holds the mean
            of its own variables' gradients only: what needs all of them, such as clipping by their
            common norm, differs between ranks.
        name: of the optimizer.

    Raises:
        TypeError: `optimizer` is no optimizer of tf.train.

    Source of the contract: CANN TF Adapter API, NPUDistributedOptimizer constructor.
    """

    def __init__(
        self, optimizer: Any, is_weight_update_sharding: bool = False, name: Optional[str] = None
    ):
        argument_checks.train_optimizer("NPUDistributedOptimizer", "optimizer", optimizer)
        super().__init__(use_locking=False, name=name or "Distributed" + type(optimizer).__name__)
        self._optimizer = optimizer
        self._is_weight_update_sharding = is_weight_update_sharding
        self._owners = weight_sharding.Owners()

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[GradientAndVariable]:
        """Computes gradients and reduces them over the ranks.

        Args:
            *args: of compute_gradients of the optimizer inside.
            **kwargs: likewise.

        Returns:
            Pairs of gradient (dense, IndexedSlices or None) and variable.

        Raises:
            ValueError: weight update sharding has fewer gradients than there are ranks.

        Source of the contract: CANN TF Adapter API, NPUDistributedOptimizer.compute_gradients.
        """
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        if self._shards():
            return weight_sharding.reduce_to_owners(
                pairs, self._owners, groups.WORLD, self._name + "_Reduce_Weight_Update_Sharding"
            )
        return gradient_reduction.reduce_gradients(pairs, scope=self._name + "_Allreduce")

    def apply_gradients(
        self,
        grads_and_vars: Sequence[GradientAndVariable],
        global_step: Any = None,
        name: Optional[str] = None,
    ) -> Any:
        """Applies gradients.

        Args:
            grads_and_vars: what compute_gradients returned.
            global_step: a variable that counts steps.
            name: of the op that applies.

        Returns:
            The op; None eagerly.

        Raises:
            ValueError: weight update sharding has fewer gradients than there are ranks.

        Source of the contract: CANN TF Adapter API, NPUDistributedOptimizer.apply_gradients.
        """
        if self._shards():
            return weight_sharding.apply_sharded(
                self._optimizer, grads_and_vars, self._owners, groups.WORLD, global_step, name
            )
        return self._optimizer.apply_gradients(grads_and_vars, global_step, name)

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Returns what get_slot of the optimizer inside returns."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> List[str]:
        """Returns what get_slot_names of the optimizer inside returns."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> List[Any]:
        """Returns what variables of the optimizer inside returns."""
        return self._optimizer.variables(*args, **kwargs)

    def _shards(self) -> bool:
        return self._is_weight_update_sharding and groups.rank_size(groups.WORLD) > 1


class KerasDistributeOptimizer(OptimizerV2):
    """A Keras optimizer whose gradients are the mean over all ranks.

    It shares the state of `optimizer`, is an instance of its class as well, and is saved under its
    name and with its configuration: a model that was compiled with it loads without this package.

    Args:
        optimizer: an optimizer of tf.keras in TensorFlow 1.15 to 2.15; in 2.11 and later one of
            tf.keras.optimizers.legacy.
        name: of the optimizer.
        **kwargs: what tf.keras.optimizers.Optimizer takes (clipnorm, clipvalue). Without effect:
            the settings of `optimizer` count.

    Raises:
        RuntimeError: this TensorFlow has no such optimizers.
        TypeError: `optimizer` is another object, or an argument is not known.

    Source of the contract: CANN TF Adapter API, KerasDistributeOptimizer constructor.
    """

    def __init__(self, optimizer: Any, name: str = "NpuKerasOptimizer", **kwargs: Any):
        require_keras_2("KerasDistributeOptimizer")
        if not isinstance(optimizer, OptimizerV2):
            raise TypeError(
                f"KerasDistributeOptimizer: optimizer must be a Keras optimizer of the kind of "
                f"TensorFlow 1 (in 2.11 and later one of tf.keras.optimizers.legacy), "
                f"got {optimizer!r}. npu_distributed_optimizer_wrapper takes others."
            )
        if kwargs:
            super().__init__(name, **kwargs)  # checks them
            logging.info_from_rank_0(
                "KerasDistributeOptimizer: %s without effect, the settings of the optimizer inside "
                "count.",
                ", ".join(sorted(kwargs)),
            )
        own = getattr(optimizer, distributed_optimizers.OWN_CLASS, type(optimizer))
        # One state, so that what a script does to the optimizer inside is seen here.
        object.__setattr__(self, "__dict__", optimizer.__dict__)
        self.__dict__["_name"] = name
        object.__setattr__(self, "__class__", own)
        settings = distributed_optimizers.Settings(scope=name + "_Allreduce")
        distributed_optimizers.distribute(self, settings, KerasDistributeOptimizer)

    def get_updates(self, loss: Any, params: Any) -> List[Any]:
        """Makes the ops of a step.

        Args:
            loss: a tensor.
            params: the variables.

        Returns:
            The ops, for a session to run.

        Source of the contract: CANN TF Adapter API, KerasDistributeOptimizer.
        """
        return super().get_updates(loss, params)

    def apply_gradients(self, grads_and_vars: Any, name: Optional[str] = None) -> Any:
        """Applies gradients, reduced if they were not yet.

        Args:
            grads_and_vars: pairs of gradient and variable.
            name: of the op.

        Returns:
            The op.

        Source of the contract: CANN TF Adapter API, KerasDistributeOptimizer.
        """
        return super().apply_gradients(grads_and_vars, name)

    def get_config(self) -> Dict[str, Any]:
        """Returns the configuration of the optimizer inside, with this one's name.

        Source of the contract: CANN TF Adapter API, KerasDistributeOptimizer.
        """
        return super().get_config()

    @classmethod
    def from_config(cls, config: Dict[str, Any], custom_objects: Any = None) -> Any:
        """Makes such an optimizer again.

        Args:
            config: what get_config returned.
            custom_objects: classes by name, for what the configuration names.

        Returns:
            The optimizer.
        """
        own = getattr(cls, distributed_optimizers.OWN_CLASS, None)
        if own is None:
            raise TypeError(
                "KerasDistributeOptimizer.from_config: the configuration does not say which "
                "optimizer it is of. Use type(optimizer).from_config(optimizer.get_config())."
            )
        inside = own.from_config(config, custom_objects)
        return KerasDistributeOptimizer(inside, name=inside.get_config()["name"])


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Makes an optimizer's gradients the mean over all ranks.

    The gradients of a step are reduced once: of tf.train optimizers in compute_gradients; of Keras
    optimizers in fit, minimize, get_updates, get_gradients and apply_gradients. A Keras optimizer
    is saved with its model as what it was before, and loads without this package; wrap it again to
    go on with several ranks.

    Args:
        optimizer: a tf.train optimizer, a Keras optimizer, or the name of one ("adam"). It is
            changed in place.

    Returns:
        The optimizer.

    Raises:
        TypeError: it is something else.

    Source of the contract: CANN TF Adapter API, npu_distributed_optimizer_wrapper.
    """
    if isinstance(optimizer, str):
        optimizer = tf.keras.optimizers.get(optimizer)
    return distributed_optimizers.distribute(optimizer)

"""Collectives of values and variables, as training loops hold them.

Work without npu_device.open(), and with one rank (RANK_SIZE absent or 1) return what they get.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import tensorflow as tf

from npu_device._core import (
    collectives,
    common_names,
    distributed_optimizers,
    op_arguments,
    runtime,
    value_reduction,
)
from npu_device._core.autograph import unconverted
from npu_device._core.op_arguments import Node
from npu_device.distribute import hccl_ops
from npu_device.distribute.npu_callbacks import NPUBroadcastGlobalVariablesCallback
from npu_device.npu_device import get_ranksize, global_npu_ctx, npu_compat_function
from npu_device.utils.scope import npu_gradients_scope, npu_optimizer_scope

__all__ = [
    "NPUBroadcastGlobalVariablesCallback",
    "all_reduce",
    "broadcast",
    "distribute_optimizer",
    "global_npu_ctx",
    "hccl_ops",
    "npu_callbacks_append",
    "npu_compat_function",
    "npu_distributed_keras_optimizer_wrapper",
    "npu_gradients_scope",
    "npu_optimizer_scope",
    "shard_and_rebatch_dataset",
]


@unconverted
def all_reduce(
    values: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> Any:
    """Reduces a value, or each of several, over the ranks of a group; all ranks get the results.

    Args:
        values: a tensor, variable, numpy array, Python number or tf.IndexedSlices, or a list or
            tuple of these, where None may stand for a value that is not there. Dtypes, shapes and
            what is None must be the same on all ranks; only the number of rows of tf.IndexedSlices
            may differ.
        reduction: "mean", "sum", "prod", "max" or "min". The mean is the sum divided by the number
            of ranks in the group, in the dtype of the values: float16 overflows where the sum does,
            as on the device; integers are rounded towards zero, as by tf.reduce_mean, whatever the
            number of ranks. Of tf.IndexedSlices only "mean" and "sum" are defined.
        fusion: 0, 1 or 2, see npu_device.distribute.hccl_ops.allreduce.
        fusion_id: see there.
        group: name of the group.

    Returns:
        As `values`: a list for a list, a tuple for a tuple, None for None. tf.IndexedSlices have
        the rows of all ranks, in rank order, so that equal indices may occur several times.

    Raises:
        TypeError: a dtype is not one of those that hccl_ops.allreduce takes.
        ValueError: another argument is none of the above; or (eagerly) entries of the list are None
            on some ranks only, on every rank.

    Gradient:
        That of hccl_ops.allreduce; the mean's is divided by the number of ranks.

    Source of the contract: CANN TF Adapter API, npu.distribute.all_reduce.
    """
    return value_reduction.all_reduce(values, reduction, fusion, fusion_id, group)


@unconverted
def broadcast(
    values: Any,
    root_rank: int = 0,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = "hccl_world_group",
) -> Any:
    """Gives the variables of the ranks of a group the values of one of them.

    Args:
        values: a variable of TensorFlow or Keras, or a list or tuple of these, such as
            `model.trainable_variables`. Tensors, numpy arrays and Python numbers may be among them:
            for those the return value matters. Dtypes and shapes must be the same on all ranks.
        root_rank: the rank in the group that gives its values.
        fusion: 0 or 2, see npu_device.distribute.hccl_ops.broadcast.
        fusion_id: see there.
        group: name of the group.

    Returns:
        The root's values as tensors: a list for a list, a tuple for a tuple. In a TensorFlow 1
        graph the variables change when one of them is run.

    Raises:
        TypeError: a dtype is not numeric (string, resource).
        ValueError: another argument is none of the above.

    Gradient:
        That of hccl_ops.broadcast.

    Source of the contract: CANN TF Adapter API, npu.distribute.broadcast.
    """
    results = collectives.broadcast(values, root_rank, fusion, fusion_id, group)
    if isinstance(values, (list, tuple)):
        common_names.agree(values, root_rank, group)
    return results


def shard_and_rebatch_dataset(dataset: Any, global_bs: int) -> Tuple[Any, int]:
    """Takes this rank's share of a dataset, and of the batch.

    Call it before the dataset is batched, and after it is shuffled only if all ranks shuffle alike
    (with the same seed): this rank takes every n-th element of n ranks, beginning with its own rank
    number. Ranks may so get one element more or less than others, see
    npu_device.distribute.min_steps.

    Args:
        dataset: a tf.data.Dataset of single elements.
        global_bs: the batch size of all ranks together, divisible by their number.

    Returns:
        The shard, and this rank's batch size, to pass to its `batch`.

    Raises:
        TypeError: `dataset` is no tf.data.Dataset, or `global_bs` is not an integer.
        ValueError: it is below 1, or not divisible by the number of ranks.

    Source of the contract: CANN TF Adapter API, npu.distribute.shard_and_rebatch_dataset.
    """
    at = Node("npu_device.distribute", "shard_and_rebatch_dataset")
    if not isinstance(dataset, tf.data.Dataset):
        raise TypeError(
            f"shard_and_rebatch_dataset: dataset must be a tf.data.Dataset, got {dataset!r}. Make "
            f"one of arrays with tf.data.Dataset.from_tensor_slices."
        )
    global_bs = op_arguments.integer(global_bs, at, "global_bs", at_least=1)
    ranks = get_ranksize()
    if ranks == 1:
        return dataset, global_bs
    if global_bs % ranks:
        raise ValueError(
            f"shard_and_rebatch_dataset: global_bs is {global_bs}, which is not divisible by the "
            f"{ranks} ranks. Use {global_bs // ranks * ranks or ranks}."
        )
    return dataset.shard(ranks, runtime.rank()), global_bs // ranks


def npu_distributed_keras_optimizer_wrapper(
    optimizer: Any,
    reduce_reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> Any:
    """Makes a Keras optimizer reduce its gradients over the ranks before it applies them.

    It reduces each gradient once, in `compile` and `fit` as well as in `apply_gradients` and
    `minimize`, before it clips them. Gradients that are None stay that; sparse ones send each row
    once. Each allreduce is named after its variable. Loss scaling may be inside or outside: a
    step in which one rank's gradients overflow is skipped by all. The optimizer stays an instance
    of its class, so that a saved model loads where this package is not installed; wrap the loaded
    model's optimizer again to go on. `distribute_optimizer` has further options.

    Args:
        optimizer: one of Keras 2 or 3, or what tf.keras.optimizers.get takes, such as "adam".
            Changed in place.
        reduce_reduction: "mean", "sum", "prod", "max" or "min"; of sparse gradients the first two.
        fusion: see npu_device.distribute.hccl_ops.allreduce.
        fusion_id: see there.
        group: the ranks whose gradients are reduced.

    Returns:
        The optimizer.

    Raises:
        TypeError: `optimizer` is no optimizer.
        ValueError: another argument is none of the above.

    Source of the contract: CANN TF Adapter API,
    npu.distribute.npu_distributed_keras_optimizer_wrapper.
    """
    return distribute_optimizer(optimizer, reduce_reduction, fusion, fusion_id, group)


def distribute_optimizer(
    optimizer: Any,
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
    *,
    predivide: bool = False,
    sparse_as_dense: bool = False,
) -> Any:
    """npu_distributed_keras_optimizer_wrapper with more options. Not in the original.

    Args:
        optimizer: see npu_distributed_keras_optimizer_wrapper.
        reduction: see there.
        fusion: see there.
        fusion_id: see there.
        group: see there.
        predivide: whether gradients are divided by the number of ranks before they are summed, not
            afterwards: a sum in float16 does then not overflow where the mean does not. For "mean".
        sparse_as_dense: whether sparse gradients (tf.IndexedSlices) are reduced as dense ones: for
            variables of which a step touches most rows, and for what needs dense gradients, such
            as the gradient accumulation of Keras 3.

    Returns:
        The optimizer.

    Raises:
        TypeError: `optimizer` is no optimizer, or a flag is no bool.
        ValueError: another argument is none of the above, or `predivide` has nothing to divide.
    """
    at = Node("HcomAllReduce")
    op_arguments.reduction(reduction, at, value_reduction.REDUCTIONS)
    op_arguments.fusion(fusion, fusion_id, at)
    op_arguments.group(group, at)
    for name, value in (("predivide", predivide), ("sparse_as_dense", sparse_as_dense)):
        if not isinstance(value, bool):
            raise TypeError(f"distribute_optimizer: {name} must be a bool, got {value!r}.")
    if predivide and reduction != "mean":
        raise ValueError(
            f"predivide=True divides before the sum of a mean, and reduction is {reduction!r}. Use "
            f"reduction='mean', or predivide=False."
        )
    if isinstance(optimizer, (str, dict)):
        optimizer = tf.keras.optimizers.get(optimizer)
    settings = distributed_optimizers.Settings(
        reduction,
        fusion,
        fusion_id,
        group,
        predivide=predivide,
        sparse_as_dense=sparse_as_dense,
    )
    return distributed_optimizers.distribute(optimizer, settings)


def npu_callbacks_append(callbacks_list: Sequence[Any] = ()) -> List[Any]:
    """Adds the callback that broadcasts rank 0's variables to the callbacks of fit.

    Args:
        callbacks_list: a list, which gets it as its last member; of another sequence, a single
            callback or None a list is made.

    Returns:
        The list.

    Raises:
        TypeError: `callbacks_list` is none of these.

    Source of the contract: CANN TF Adapter API, npu.distribute.npu_callbacks_append.
    """
    if hasattr(callbacks_list, "on_epoch_end"):
        callbacks_list = [callbacks_list]
    elif not isinstance(callbacks_list, list):
        try:
            callbacks_list = list(callbacks_list or ())
        except TypeError:
            raise TypeError(
                f"npu_callbacks_append: callbacks_list must be a list of callbacks, got "
                f"{callbacks_list!r}."
            ) from None
    callbacks_list.append(NPUBroadcastGlobalVariablesCallback(0))
    return callbacks_list

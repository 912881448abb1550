"""Collectives of values and variables, as training loops hold them.

Work without npu_device.open(), and with one rank (RANK_SIZE absent or 1) return what they get.
"""

from __future__ import annotations

from typing import Any

from npu_device._core import collectives, value_reduction
from npu_device._core.autograph import unconverted
from npu_device.distribute import hccl_ops
from npu_device.npu_device import global_npu_ctx, npu_compat_function

__all__ = ["all_reduce", "broadcast", "global_npu_ctx", "hccl_ops", "npu_compat_function"]


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
    return collectives.broadcast(values, root_rank, fusion, fusion_id, group)

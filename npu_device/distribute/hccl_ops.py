"""Collectives between the ranks of a group, as plain ops.

What holds for all of them stands in npu_device._core.published_ops. all_to_all_v, all_to_all_v_c
and gather_all_to_all_v are additions: the original has them in npu_bridge only.
"""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_device._core import collectives
from npu_device._core.autograph import unconverted
from npu_device._core.compute import raw_ops
from npu_device._core.published_ops import (
    all_to_all_v,
    all_to_all_v_c,
    allreduce,
    broadcast,
    gather_all_to_all_v,
    receive,
    reduce,
    remote_read,
    remote_ref_read,
    remote_scatter_write,
    remote_write,
    send,
)

__all__ = [
    "all_to_all_v",
    "all_to_all_v_c",
    "allgather",
    "allreduce",
    "broadcast",
    "gather_all_to_all_v",
    "gen_hccl_ops",
    "receive",
    "reduce",
    "reduce_scatter",
    "remote_read",
    "remote_ref_read",
    "remote_scatter_write",
    "remote_write",
    "send",
]

gen_hccl_ops = raw_ops.load()


@unconverted
def allgather(tensor: Any, rank_size: int, group: str = "hccl_world_group") -> tf.Tensor:
    """Joins the tensors of the ranks of a group along dimension 0, in rank order; all get it.

    As npu_bridge.hccl.hccl_ops.allgather, and never merged with other ops.

    Args:
        tensor: DATA, at least one dimension, the same shape on all ranks.
        rank_size: number of ranks in the group, 1 to 32768.
        group: name of the group.

    Returns:
        A tensor of the same dtype, whose dimension 0 is `rank_size` times that of `tensor`.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: `tensor` is a scalar, or another argument is none of the above.

    Gradient:
        A rank's rows get the sum over the ranks of their gradients (a reduce_scatter).

    Source of the contract: CANN TF Adapter API, npu.distribute hccl_ops.allgather.
    """
    return collectives.all_gather(tensor, rank_size, group)


@unconverted
def reduce_scatter(
    tensor: Any, reduction: str, rank_size: int, group: str = "hccl_world_group"
) -> tf.Tensor:
    """Reduces a tensor over the ranks of a group and deals its rows out to them, in rank order.

    As npu_bridge.hccl.hccl_ops.reduce_scatter, and never merged with other ops.

    Args:
        tensor: DATA, the same shape on all ranks, dimension 0 divisible by `rank_size`.
        reduction: "sum", "prod", "max" or "min", see `allreduce`.
        rank_size: number of ranks in the group, 1 to 32768.
        group: name of the group.

    Returns:
        This rank's rows of the reduced tensor: same dtype, dimension 0 divided by `rank_size`.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: `tensor` is a scalar, its rows cannot be dealt out evenly, or another argument
            is none of the above.

    Gradient:
        The gradients of all ranks' rows (an allgather) go to the inputs as in `allreduce`.

    Source of the contract: CANN TF Adapter API, npu.distribute hccl_ops.reduce_scatter.
    """
    return collectives.reduce_scatter(tensor, reduction, rank_size, group)

"""Collectives between the ranks of a group, as ops of a TensorFlow graph.

What holds for all of them stands in npu_device._core.published_ops.
"""

from __future__ import annotations

from npu_bridge.helper import helper
from npu_device._core.published_ops import (
    all_to_all_v,
    all_to_all_v_c,
    allgather,
    allreduce,
    broadcast,
    gather_all_to_all_v,
    receive,
    reduce,
    reduce_scatter,
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
    "helper",
    "receive",
    "reduce",
    "reduce_scatter",
    "remote_read",
    "remote_ref_read",
    "remote_scatter_write",
    "remote_write",
    "send",
]

gen_hccl_ops = helper.get_gen_ops()

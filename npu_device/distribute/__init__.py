"""Collectives between ranks for TensorFlow 2: of values and variables, and as plain ops."""

from npu_device.distribute import hccl_ops
from npu_device.distribute.hccl import (
    all_reduce,
    broadcast,
    distribute_optimizer,
    npu_callbacks_append,
    npu_distributed_keras_optimizer_wrapper,
    shard_and_rebatch_dataset,
)
from npu_device.distribute.npu_callbacks import (
    NPUBroadcastGlobalVariablesCallback,
    npu_broadcast_scope_wrapper,
)
from npu_device.distribute.weight_update_grouping import (
    grouping_broadcast,
    grouping_gradients_apply,
)

__all__ = [
    "NPUBroadcastGlobalVariablesCallback",
    "all_reduce",
    "broadcast",
    "distribute_optimizer",
    "grouping_broadcast",
    "grouping_gradients_apply",
    "hccl_ops",
    "npu_broadcast_scope_wrapper",
    "npu_callbacks_append",
    "npu_distributed_keras_optimizer_wrapper",
    "shard_and_rebatch_dataset",
]

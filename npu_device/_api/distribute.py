"""The names of npu_device.distribute, under the path where the original keeps them."""

from npu_device.distribute import (
    NPUBroadcastGlobalVariablesCallback,
    all_reduce,
    broadcast,
    distribute_optimizer,
    grouping_broadcast,
    grouping_gradients_apply,
    hccl_ops,
    npu_broadcast_scope_wrapper,
    npu_callbacks_append,
    npu_distributed_keras_optimizer_wrapper,
    shard_and_rebatch_dataset,
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

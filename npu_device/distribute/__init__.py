"""Collectives between ranks for TensorFlow 2: of values and variables, and as plain ops."""

from npu_device.distribute import hccl_ops
from npu_device.distribute.datasets import min_steps
from npu_device.distribute.hccl import (
    all_reduce,
    broadcast,
    distribute_optimizer,
    npu_callbacks_append,
    npu_distributed_keras_optimizer_wrapper,
    shard_and_rebatch_dataset,
)
from npu_device.distribute.keras_callbacks import (
    MetricAverageCallback,
    SyncEarlyStopping,
    SyncModelCheckpoint,
    average_metrics,
)
from npu_device.distribute.mesh import Mesh, create_mesh
from npu_device.distribute.npu_callbacks import (
    NPUBroadcastGlobalVariablesCallback,
    npu_broadcast_scope_wrapper,
)
from npu_device.distribute.objects import allgather_object, broadcast_object
from npu_device.distribute.sync_batch_normalization import SyncBatchNormalization
from npu_device.distribute.weight_update_grouping import (
    grouping_broadcast,
    grouping_gradients_apply,
)

__all__ = [
    "Mesh",
    "MetricAverageCallback",
    "NPUBroadcastGlobalVariablesCallback",
    "SyncBatchNormalization",
    "SyncEarlyStopping",
    "SyncModelCheckpoint",
    "all_reduce",
    "allgather_object",
    "average_metrics",
    "broadcast",
    "broadcast_object",
    "create_mesh",
    "distribute_optimizer",
    "grouping_broadcast",
    "grouping_gradients_apply",
    "hccl_ops",
    "min_steps",
    "npu_broadcast_scope_wrapper",
    "npu_callbacks_append",
    "npu_distributed_keras_optimizer_wrapper",
    "shard_and_rebatch_dataset",
]

"""Collectives between ranks for TensorFlow 2: of values and variables, and as plain ops."""

from npu_device.distribute import hccl_ops
from npu_device.distribute.hccl import all_reduce, broadcast

__all__ = ["all_reduce", "broadcast", "hccl_ops"]

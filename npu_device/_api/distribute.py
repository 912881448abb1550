"""The names of npu_device.distribute, under the path where the original keeps them."""

from npu_device.distribute import all_reduce, broadcast, hccl_ops

__all__ = ["all_reduce", "broadcast", "hccl_ops"]

"""A distribution strategy for one device a rank, whose input is each rank's part."""

from __future__ import annotations

from typing import Any

from tensorflow.python.distribute import distribute_lib, one_device_strategy

from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.estimator.npu import util as util_lib

__all__ = ["NPUExtended", "NPUStrategy", "get_rank_id", "get_rank_size", "util_lib"]

_DEVICE = "/cpu:0"


class NPUExtended(one_device_strategy.OneDeviceExtended):
    """What NPUStrategy does: one device here, as many replicas as there are ranks.

    Args:
        container_strategy: the strategy.
        device: its device.

    Source of the contract: CANN TF Adapter API, npu_strategy.NPUExtended.
    """

    def __init__(self, container_strategy: Any, device: str) -> None:
        super().__init__(container_strategy, device)

    @property
    def _num_replicas_in_sync(self) -> int:
        return get_rank_size()

    # TensorFlow 1.15 passes no options.
    def _experimental_distribute_dataset(self, dataset: Any, options: Any = None) -> Any:
        return dataset.shard(get_rank_size(), get_rank_id())


class NPUStrategy(distribute_lib.StrategyV1):
    """Trains on one device in each rank.

    Variables are the rank's own, a dataset gives each rank every n-th element, and
    num_replicas_in_sync is the number of ranks. Gradients are exchanged by an optimizer that does
    so, such as npu_distributed_optimizer_wrapper makes.

    Args:
        device: "/cpu:0", the host's processor, which stands for the device.

    Raises:
        ValueError: the device is another.

    Source of the contract: CANN TF Adapter API, npu_strategy.NPUStrategy.
    """

    def __init__(self, device: str = _DEVICE) -> None:
        if device != _DEVICE:
            raise ValueError(f"device is {device!r}, allowed is {_DEVICE!r}.")
        super().__init__(NPUExtended(self, device))

"""What npu_device gives out as `train`."""

from __future__ import annotations

from typing import List

from npu_device._core import lazy

__all__: List[str] = []  # `optimizer` is another module here and in npu_device.train

__getattr__, __dir__ = lazy.attributes(
    "npu_device._api.train", {"optimizer": ("npu_device._api.train.optimizer", "")}
)

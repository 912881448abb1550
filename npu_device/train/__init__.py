"""Training with npu_device: optimizers, and functions that take the place of TensorFlow's."""

from __future__ import annotations

from typing import List

from npu_device._core import lazy

__all__: List[str] = []  # `optimizer` is another module here and in npu_device._api.train

__getattr__, __dir__ = lazy.attributes(
    "npu_device.train", {"optimizer": ("npu_device.train.optimizer", "")}
)

"""What npu_device gives out as `ops`."""

from __future__ import annotations

from npu_device.ops.train_ops import gelu

__all__ = ["gelu"]

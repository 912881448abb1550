"""What npu_device gives out as `compat.v1`."""

from __future__ import annotations

from npu_device.compat.utils import SessionConfigBuilder

__all__ = ["SessionConfigBuilder"]

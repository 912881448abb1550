"""What npu_device gives out as `compat`."""

from __future__ import annotations

from npu_device._api.compat import v1  # noqa: F401  (another module than npu_device.compat.v1)
from npu_device.npu_device import enable_v1

__all__ = ["enable_v1"]

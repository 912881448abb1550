"""For scripts that were written for TensorFlow 1.

    from npu_device.compat.v1.npu_init import *
    npu_device.compat.enable_v1()

What npu_bridge has is in npu_device.compat.v1, under the same paths.
"""

from __future__ import annotations

from npu_device.compat import v1
from npu_device.npu_device import enable_v1

__all__ = ["enable_v1", "v1"]

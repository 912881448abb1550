"""The shape of a tensor as the NPU's op GetShape gives it."""

from __future__ import annotations

from npu_bridge.helper import helper
from npu_device._core.compute.indexing import get_shape as getshape

__all__ = ["getshape", "helper", "npu_aicore_ops"]

#: The raw ops by name.
npu_aicore_ops = helper.get_gen_ops()

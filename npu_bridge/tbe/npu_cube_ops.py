"""Deformable convolution for TensorFlow 1 scripts."""

from __future__ import annotations

from npu_bridge.helper import helper
from npu_device._core.compute.deformable import deformable_conv2d
from npu_device._core.compute.op_gradients import deformable_offsets_grad

__all__ = ["deformable_conv2d", "deformable_offsets_grad", "gen_npu_ops", "helper"]

#: The raw ops by name.
gen_npu_ops = helper.get_gen_ops()

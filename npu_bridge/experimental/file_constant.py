"""A constant whose value is in a file, for TensorFlow 1 scripts."""

from __future__ import annotations

from npu_bridge.helper import helper
from npu_device._core.compute.file_constant import file_constant

__all__ = ["file_constant", "gen_npu_cpu_ops", "helper"]

#: The raw ops by name.
gen_npu_cpu_ops = helper.get_gen_ops()

"""Decoding of images of several formats."""

from __future__ import annotations

from tensorflow.python.framework import dtypes

from npu_bridge.helper import helper
from npu_device._core.compute.image import decode_image

__all__ = ["decode_image", "dtypes", "gen_npu_cpu_ops", "helper"]

#: The raw ops by name.
gen_npu_cpu_ops = helper.get_gen_ops()

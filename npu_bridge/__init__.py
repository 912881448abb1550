"""TensorFlow 1 interface of npu-bridge: the import paths, names and signatures of Ascend's.

    from npu_bridge.npu_init import *

gives a script what it needs. See npu_bridge.hccl.hccl_ops for the collectives.
"""

from __future__ import annotations

from npu_device._core import hccl_package

hccl_package.prefer_ours()

from npu_bridge.hccl import hccl_ops
from npu_bridge.helper import helper
from npu_bridge.helper.helper import npu_bridge_handle
from npu_bridge.helper.helper import version as __version__
from npu_device._core.fusion import report as fusion_report

__all__ = ["__version__", "fusion_report", "hccl_ops", "helper", "npu_bridge_handle"]

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
from npu_device._core import lazy
from npu_device._core.fusion import report as fusion_report

__all__ = [
    "__version__",
    "fusion_report",
    "hccl_ops",
    "helper",
    "npu_bridge_handle",
    "npu_close",
    "npu_estimator",
]

# tf.estimator takes a second to import, and most scripts for sessions do without.
__getattr__, __dir__ = lazy.attributes(
    __name__,
    {
        "npu_estimator": ("npu_bridge.estimator.npu.npu_estimator", ""),
        "npu_close": ("npu_bridge.estimator.npu.npu_plugin", "npu_close"),
    },
)

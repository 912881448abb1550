"""TensorFlow 2 interface of npu-bridge: the import paths, names and signatures of Ascend's.

    import npu_device as npu
    npu.open().as_default()

See npu_device.distribute for the collectives. Importing this package does not import TensorFlow;
using it does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from npu_device._core import hccl_package, lazy

hccl_package.prefer_ours()

if TYPE_CHECKING:
    from npu_device import distribute
    from npu_device._core.fusion import report as fusion_report
    from npu_device.npu_device import gen_npu_ops, npu_compat_function, open

__all__ = ["distribute", "fusion_report", "gen_npu_ops", "npu_compat_function", "open"]

__getattr__, __dir__ = lazy.attributes(
    "npu_device",
    {
        "distribute": ("npu_device.distribute", ""),
        "fusion_report": ("npu_device._core.fusion", "report"),
        "gen_npu_ops": ("npu_device.npu_device", "gen_npu_ops"),
        "npu_compat_function": ("npu_device.npu_device", "npu_compat_function"),
        "open": ("npu_device.npu_device", "open"),
    },
)

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
    from npu_device import compat, configs, distribute, ops, train
    from npu_device._core.fusion import report as fusion_report
    from npu_device.npu_device import (
        gen_npu_ops,
        global_options,
        is_inf_nan_enabled,
        npu_compat_function,
        npu_run_context,
        open,
        set_device_sat_mode,
        set_npu_loop_size,
    )
    from npu_device.utils.scope import keep_dtype_scope, npu_recompute_scope

__all__ = [
    "compat",
    "configs",
    "distribute",
    "fusion_report",
    "gen_npu_ops",
    "global_options",
    "is_inf_nan_enabled",
    "keep_dtype_scope",
    "npu_compat_function",
    "npu_recompute_scope",
    "npu_run_context",
    "open",
    "ops",
    "set_device_sat_mode",
    "set_npu_loop_size",
    "train",
]

_OF_THE_DEVICE = (
    "gen_npu_ops",
    "global_options",
    "is_inf_nan_enabled",
    "npu_compat_function",
    "npu_run_context",
    "open",
    "set_device_sat_mode",
    "set_npu_loop_size",
)

__getattr__, __dir__ = lazy.attributes(
    "npu_device",
    dict(
        {name: ("npu_device.npu_device", name) for name in _OF_THE_DEVICE},
        # Importing a module below one of these puts the package of the same name in its place,
        # which has the same names.
        compat=("npu_device._api.compat", ""),
        configs=("npu_device._api.configs", ""),
        distribute=("npu_device.distribute", ""),
        fusion_report=("npu_device._core.fusion", "report"),
        keep_dtype_scope=("npu_device.utils.scope", "keep_dtype_scope"),
        npu_recompute_scope=("npu_device.utils.scope", "npu_recompute_scope"),
        ops=("npu_device._api.ops", ""),
        train=("npu_device._api.train", ""),
    ),
)

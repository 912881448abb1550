"""What npu_bridge asks of native code, under the names that the original's native module has."""

from __future__ import annotations

from typing import Dict

from npu_device._core import runtime, saturation

__all__ = [
    "OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES",
    "OPTION_EXEC_HCCL_FLAG",
    "OPTION_EXEC_PROFILING_MODE",
    "OPTION_EXEC_PROFILING_OPTIONS",
    "OPTION_GRAPH_RUN_MODE",
    "OP_DEBUG_LEVEL",
    "Clear",
    "EnableControl",
    "GetDeviceSatMode",
    "NpuClose",
    "PluginFinalize",
    "PluginInit",
    "SetDeviceSatMode",
    "map_string_string",
]

OP_DEBUG_LEVEL = "ge.opDebugLevel"
OPTION_EXEC_ENABLE_SCOPE_FUSION_PASSES = "ge.exec.enable_scope_fusion_passes"
OPTION_EXEC_PROFILING_MODE = "ge.exec.profilingMode"
OPTION_EXEC_PROFILING_OPTIONS = "ge.exec.profilingOptions"
OPTION_GRAPH_RUN_MODE = "ge.graphRunMode"
OPTION_EXEC_HCCL_FLAG = "ge.exec.hcclFlag"

#: The type of PluginInit's argument.
map_string_string = dict


def PluginInit(options: Dict[str, str]) -> None:
    """Meets the other ranks of the job.

    Args:
        options: of the device, which have no effect on CPU ranks.
    """
    runtime.ensure_started()


def PluginFinalize() -> None:
    """Leaves the job. `PluginInit`, or a collective, may meet the other ranks anew."""
    runtime.shutdown()


def NpuClose() -> None:
    """Leaves the job at the end of a program."""
    runtime.shutdown()


def SetDeviceSatMode(mode: int) -> None:
    """See npu_plugin.set_device_sat_mode.

    Args:
        mode: 0, 1 or 2.
    """
    saturation.set_mode(mode)


def GetDeviceSatMode() -> int:
    """Returns how numbers overflow here: 1, to infinity."""
    return saturation.INF_NAN


def EnableControl() -> None:
    """Would begin to record which graphs are loaded to the device; has no effect."""


def Clear() -> None:
    """Would unload the graphs that were recorded; has no effect."""

"""All options that a process's device is opened with."""

from __future__ import annotations

from npu_device.configs.aoe_config import NpuAoeConfig
from npu_device.configs.dump_config import NpuDumpConfig
from npu_device.configs.experimental_config import NpuExperimentalConfig
from npu_device.configs.memory_config import MemoryConfig
from npu_device.configs.option_base import DeprecatedValue, NpuBaseConfig, OptionValue
from npu_device.configs.profiling_config import NpuProfilingConfig

__all__ = [
    "DeprecatedValue",
    "MemoryConfig",
    "NpuAoeConfig",
    "NpuBaseConfig",
    "NpuConfig",
    "NpuDumpConfig",
    "NpuExperimentalConfig",
    "NpuProfilingConfig",
    "OptionValue",
]


class NpuConfig(NpuBaseConfig):
    """All options that a process's device is opened with, see npu_device.global_options.

    Accepted without effect on CPU ranks. They stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        self.dump_config = NpuDumpConfig()
        self.aoe_config = NpuAoeConfig()
        self.profiling_config = NpuProfilingConfig()
        self.memory_config = MemoryConfig()
        self.experimental = NpuExperimentalConfig()
        super().__init__()

"""Options for a part of a script, see npu_device.npu_run_context."""

from __future__ import annotations

from npu_device.configs.experimental_config import NpuExperimentalConfig
from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["NpuBaseConfig", "NpuExperimentalConfig", "NpuRunContextOptions", "OptionValue"]


class NpuRunContextOptions(NpuBaseConfig):
    """Options that hold while a npu_device.npu_run_context is entered.

    Accepted without effect on CPU ranks. They stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu_device.configs.run_context_options.
    """

    def __init__(self) -> None:
        self.experimental = NpuExperimentalConfig()
        super().__init__()

"""Options for profiles."""

from __future__ import annotations

from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["NpuBaseConfig", "NpuProfilingConfig", "OptionValue"]


class NpuProfilingConfig(NpuBaseConfig):
    """What a profile records.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        super().__init__()

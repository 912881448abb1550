"""Options for saving memory."""

from __future__ import annotations

from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["GraphMemoryOptimizeConfig", "NpuBaseConfig", "OptionValue"]


class GraphMemoryOptimizeConfig(NpuBaseConfig):
    """How a graph saves memory.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        super().__init__()

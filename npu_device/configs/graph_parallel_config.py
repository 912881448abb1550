"""Options for splitting a graph, of an older release."""

from __future__ import annotations

from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["GraphParallelConfig", "NpuBaseConfig", "OptionValue"]


class GraphParallelConfig(NpuBaseConfig):
    """How a graph is split over devices.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        super().__init__()

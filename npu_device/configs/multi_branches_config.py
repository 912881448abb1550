"""Options for inputs of several shapes."""

from __future__ import annotations

from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["NpuBaseConfig", "NpuMultiBranchesConfig", "OptionValue"]


class NpuMultiBranchesConfig(NpuBaseConfig):
    """Which shapes a graph is compiled for.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        super().__init__()

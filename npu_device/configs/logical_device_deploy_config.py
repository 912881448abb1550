"""Options for logical devices."""

from __future__ import annotations

from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = ["LogicalDeviceDeployConfig", "NpuBaseConfig", "OptionValue"]


class LogicalDeviceDeployConfig(NpuBaseConfig):
    """Which logical devices a graph is deployed to.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        super().__init__()

"""Options that may change between releases."""

from __future__ import annotations

from npu_device.configs.graph_parallel_config import GraphParallelConfig
from npu_device.configs.logical_device_deploy_config import LogicalDeviceDeployConfig
from npu_device.configs.memory_optimize_config import GraphMemoryOptimizeConfig
from npu_device.configs.model_deploy_config import ModelDeployConfig
from npu_device.configs.multi_branches_config import NpuMultiBranchesConfig
from npu_device.configs.option_base import NpuBaseConfig, OptionValue

__all__ = [
    "GraphMemoryOptimizeConfig",
    "LogicalDeviceDeployConfig",
    "ModelDeployConfig",
    "NpuBaseConfig",
    "NpuExperimentalConfig",
    "NpuMultiBranchesConfig",
    "OptionValue",
]


class NpuExperimentalConfig(NpuBaseConfig):
    """Options that may change between releases, and groups of these.

    Accepted without effect on CPU ranks. Its options stand in docs/global-options.md.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """

    def __init__(self) -> None:
        self.multi_branches_config = NpuMultiBranchesConfig()
        self.logical_device_deploy_config = LogicalDeviceDeployConfig()
        self.model_deploy_config = ModelDeployConfig()
        self.graph_memory_optimize_config = GraphMemoryOptimizeConfig()
        self.graph_parallel_config = GraphParallelConfig()
        super().__init__()

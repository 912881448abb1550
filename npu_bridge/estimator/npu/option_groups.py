"""Groups of options that NPURunConfig takes: dumps, profiles, memory, deployment, shapes.

All are for the NPU: they are checked and kept, and have no effect on CPU ranks.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, List, Optional, Union

from npu_bridge.estimator.npu import argument_checks

_RECOMPUTE_MODES = ("auto", "manual")


class ProfilingConfig:
    """What a profile records.

    Accepted without effect on CPU ranks.

    Args:
        enable_profiling: whether a profile is recorded.
        profiling_options: what it records, a JSON text; words in a list for older releases.

    Raises:
        TypeError: an argument has another type.

    Source of the contract: CANN TF Adapter API, ProfilingConfig constructor.
    """

    def __init__(
        self, enable_profiling: bool = False, profiling_options: Union[str, List[str], None] = None
    ) -> None:
        if isinstance(profiling_options, (list, tuple)):
            if not all(isinstance(one, str) for one in profiling_options):
                raise TypeError(
                    f"ProfilingConfig: profiling_options is {profiling_options!r}, allowed is a "
                    f"str, or a list of str."
                )
            profiling_options = ":".join(profiling_options)
        self._enable_profiling = _option(
            self, "enable_profiling", enable_profiling, key="profiling_mode"
        )
        self._profiling_options = _option(self, "profiling_options", profiling_options)


class MemoryConfig:
    """How the device's memory is used.

    Accepted without effect on CPU ranks.

    Args:
        atomic_clean_policy: 0 clears the memory of all atomic ops at once, 1 op by op.
        static_memory_policy: 0 to 4, how memory is allocated.
        memory_optimization_policy: how memory is saved, such as MemoryPriority.
        variable_use_1g_huge_page: 0 to 2, whether variables lie in large pages.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is none of the values that are allowed.

    Source of the contract: CANN TF Adapter API, MemoryConfig constructor.
    """

    def __init__(
        self,
        atomic_clean_policy: int = 0,
        static_memory_policy: int = 0,
        memory_optimization_policy: Optional[str] = None,
        variable_use_1g_huge_page: int = 0,
    ) -> None:
        self._atomic_clean_policy = _option(self, "atomic_clean_policy", atomic_clean_policy)
        self._static_memory_policy = _option(self, "static_memory_policy", static_memory_policy)
        self._memory_optimization_policy = _option(
            self, "memory_optimization_policy", memory_optimization_policy
        )
        self._variable_use_1g_huge_page = _option(
            self, "variable_use_1g_huge_page", variable_use_1g_huge_page
        )


class DumpConfig:
    """What is dumped of ops.

    Accepted without effect on CPU ranks.

    Args:
        enable_dump: whether inputs and outputs are dumped.
        dump_path: folder for the dumps.
        dump_step: steps to dump, such as "0|5-10"; all for None.
        dump_mode: "input", "output" or "all".
        enable_dump_debug: whether ops whose results overflow are dumped.
        dump_debug_mode: "aicore_overflow", "atomic_overflow" or "all".
        dump_data: "tensor", or "stats" for statistics.
        dump_layer: names of ops, with spaces between; all for None.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is none of the values that are allowed.

    Source of the contract: CANN TF Adapter API, DumpConfig constructor.
    """

    def __init__(
        self,
        enable_dump: bool = False,
        dump_path: Optional[str] = None,
        dump_step: Optional[str] = None,
        dump_mode: str = "output",
        enable_dump_debug: bool = False,
        dump_debug_mode: str = "all",
        dump_data: str = "tensor",
        dump_layer: Optional[str] = None,
    ) -> None:
        self._enable_dump = _option(self, "enable_dump", enable_dump)
        self._dump_path = _option(self, "dump_path", dump_path)
        self._dump_step = _option(self, "dump_step", dump_step)
        self._dump_mode = _option(self, "dump_mode", dump_mode)
        self._enable_dump_debug = _option(self, "enable_dump_debug", enable_dump_debug)
        self._dump_debug_mode = _option(self, "dump_debug_mode", dump_debug_mode)
        self.dump_data = _option(self, "dump_data", dump_data)
        self.dump_layer = _option(self, "dump_layer", dump_layer)


class GraphMemoryOptimizeConfig:
    """How a graph is changed to need less memory.

    Accepted without effect on CPU ranks.

    Args:
        recompute: "auto" or "manual": computes results again instead of keeping them.
        graph_slice: "auto" or "manual": cuts the graph into parts.

    Raises:
        ValueError: an argument is neither, nor None.

    Source of the contract: CANN TF Adapter API, GraphMemoryOptimizeConfig constructor.
    """

    def __init__(self, recompute: Optional[str] = None, graph_slice: Optional[str] = None) -> None:
        for name, value in (("recompute", recompute), ("graph_slice", graph_slice)):
            if value is not None and value not in _RECOMPUTE_MODES:
                raise ValueError(
                    f"GraphMemoryOptimizeConfig: {name} is {value!r}, allowed is one of "
                    f"{', '.join(_RECOMPUTE_MODES)}, or None."
                )
        self._recompute = recompute
        self._graph_slice = graph_slice


class ExperimentalConfig:
    """Options that may change or go in a later release.

    Accepted without effect on CPU ranks.

    Args:
        logical_device_cluster_deploy_mode: "LB" spreads models over devices, "SINGLE" does not.
        logical_device_id: device for "SINGLE".
        model_deploy_mode: how a model is spread over devices.
        model_deploy_devicelist: devices that a model is spread over.
        graph_memory_optimize_config: a GraphMemoryOptimizeConfig.
        enable_graph_parallel: whether a graph is split over devices.
        graph_parallel_option_path: file that says how.
        graph_compiler_cache_dir: folder for compiled graphs.
        resource_config_path: file that describes the devices.
        accelerate_train_mode: share of the training in lower precision.

    Raises:
        TypeError: an argument has another type.
        ValueError: graph_memory_optimize_config is no GraphMemoryOptimizeConfig.

    Source of the contract: CANN TF Adapter API, ExperimentalConfig constructor.
    """

    def __init__(
        self,
        logical_device_cluster_deploy_mode: str = "LB",
        logical_device_id: Optional[str] = None,
        model_deploy_mode: Optional[str] = None,
        model_deploy_devicelist: Optional[str] = None,
        graph_memory_optimize_config: Optional[GraphMemoryOptimizeConfig] = None,
        enable_graph_parallel: Optional[bool] = None,
        graph_parallel_option_path: Optional[str] = None,
        graph_compiler_cache_dir: Optional[str] = None,
        resource_config_path: Optional[str] = None,
        accelerate_train_mode: Optional[str] = None,
    ) -> None:
        self._logical_device_cluster_deploy_mode = _experimental(
            self, "logical_device_cluster_deploy_mode", logical_device_cluster_deploy_mode
        )
        self._logical_device_id = _experimental(self, "logical_device_id", logical_device_id)
        self._model_deploy_mode = _experimental(self, "model_deploy_mode", model_deploy_mode)
        self._model_deploy_devicelist = _experimental(
            self, "model_deploy_devicelist", model_deploy_devicelist
        )
        self._graph_memory_optimize_config = argument_checks.instance_or_none(
            graph_memory_optimize_config, GraphMemoryOptimizeConfig, "graph_memory_optimize_config"
        )
        self._enable_graph_parallel = _option(self, "enable_graph_parallel", enable_graph_parallel)
        self._graph_parallel_option_path = _option(
            self, "graph_parallel_option_path", graph_parallel_option_path
        )
        self._graph_compiler_cache_dir = _option(
            self, "graph_compiler_cache_dir", graph_compiler_cache_dir
        )
        self._resource_config_path = _option(self, "resource_config_path", resource_config_path)
        self._accelerate_train_mode = _experimental(
            self, "accelerate_train_mode", accelerate_train_mode
        )


class NpuExecutePlacement(Enum):
    """Engines that npu_scope.npu_variable_scope can place ops on.

    Accepted without effect on CPU ranks.

    Args:
        value: text of an engine, whose member `NpuExecutePlacement(value)` returns: "all",
            "cube", "vector", "taishan", "dvpp" or "host".

    Attributes:
        ALL: "all": any engine.
        CUBE: "cube": the NPU's matrix units.
        VECTOR: "vector": the NPU's vector units.
        TAISHAN: "taishan": the CPU cores of the NPU.
        DVPP: "dvpp": the NPU's image and video units.
        HOST: "host": the CPU of the server.

    Raises:
        ValueError: the text is of no engine.

    Source of the contract: CANN TF Adapter API, npu_variable_scope.
    """

    ALL = "all"
    CUBE = "cube"
    VECTOR = "vector"
    TAISHAN = "taishan"
    DVPP = "dvpp"
    HOST = "host"


class DynamicInputConfig:
    """Sizes that inputs can have, of which the device compiles one graph each.

    Accepted without effect on CPU ranks.

    Args:
        input_shape: inputs' shapes, with -1 for what changes: "data:1,-1;label:-1".
        dynamic_dims: sizes for the -1s, one set after the other: "2,2;4,4".
        dynamic_node_type: 0 for inputs from a dataset, 1 for placeholders.
        compile_hybrid_mode: 1 compiles for any other size as well, 0 does not.

    Raises:
        TypeError: an argument has another type.
        ValueError: dynamic_node_type or compile_hybrid_mode is neither 0 nor 1.

    Source of the contract: CANN TF Adapter API, DynamicInputConfig constructor.
    """

    def __init__(
        self, input_shape: str, dynamic_dims: str, dynamic_node_type: int, compile_hybrid_mode: int
    ) -> None:
        self._input_shape = _option(self, "input_shape", input_shape)
        self._dynamic_dims = _option(self, "dynamic_dims", dynamic_dims)
        self._dynamic_node_type = _option(self, "dynamic_node_type", dynamic_node_type)
        self._compile_hybrid_mode = _option(self, "compile_hybrid_mode", compile_hybrid_mode)


def _option(of: object, name: str, value: Any, key: str = "") -> Any:
    return argument_checks.option(type(of).__name__, name, value, key=key)


def _experimental(of: object, name: str, value: Any) -> Any:
    return _option(of, name, value, key="experimental_" + name)

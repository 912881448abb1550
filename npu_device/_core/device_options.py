"""Every option of npu_device.global_options(), and what may be assigned to it.

`GROUPS` is the table: a group is a class of npu_device.configs, and `NpuConfig` holds the others.
What the published source of any release takes is taken; of an older release it is said once.

Source of the contract: CANN TF Adapter API, npu.global_options.
"""

from __future__ import annotations

import difflib
import logging as levels
import os
from typing import Any, Dict, NamedTuple, Optional, Tuple

from npu_device._core import environment, logging, session_options

NPU_ONLY = session_options.NPU_ONLY


class Option(NamedTuple):
    """A line of the table.

    Attributes:
        name: the attribute, and the key in as_dict().
        default: what it holds before anything is assigned.
        values: those that are allowed; None where any text is, or any number.
        meaning: in a few words; empty where NpuOptimizer has an option of this name that means the
            same.
        limits: of a number, its lowest and its highest value; None where it may be any text.
        older: for an option of older releases, what takes its place; empty where nothing does.
        older_values: further ones that only older releases took.
    """

    name: str
    default: Any = None
    values: Optional[Tuple[Any, ...]] = None
    meaning: str = ""
    limits: Optional[Tuple[int, int]] = None
    older: Optional[str] = None
    older_values: Tuple[Any, ...] = ()

    @property
    def explanation(self) -> str:
        """What the option means."""
        return self.meaning or session_options.BY_NAME[self.name].meaning


_SWITCH = (True, False)
_ZERO_ONE = (0, 1)
_MILLISECONDS = (-1, 2**31 - 1)

# fmt: off
GROUPS: Dict[str, Tuple[Option, ...]] = {
    "NpuConfig": (
        Option("graph_run_mode", 1, _ZERO_ONE),
        Option("graph_memory_max_size", older=""),
        Option("variable_memory_max_size", older=""),
        Option("variable_format_optimize", None, _SWITCH, older=""),
        Option("enable_scope_fusion_passes"),
        Option("fusion_switch_file"),
        Option("precision_mode", None,
               ("force_fp32", "allow_fp32_to_fp16", "force_fp16", "must_keep_origin_dtype",
                "allow_mix_precision", "cube_fp16in_fp32out", "allow_mix_precision_fp16",
                "allow_mix_precision_bf16", "allow_fp32_to_bf16")),
        Option("precision_mode_v2", None,
               ("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16",
                "mixed_hif8", "cube_hif8")),
        Option("auto_tune_mode", older="aoe_config.aoe_mode"),
        Option("op_select_implmode", None, ("high_performance", "high_precision"),
               older="op_precision_mode"),
        Option("optypelist_for_implmode", older="op_precision_mode"),
        Option("op_compiler_cache_mode", "disable", ("enable", "disable", "force")),
        Option("op_compiler_cache_dir"),
        Option("graph_compiler_cache_dir"),
        Option("stream_max_parallel_num"),
        Option("auto_multistream_parallel_mode"),
        Option("ac_parallel_enable", None, ("0", "1")),
        Option("quant_dumpable", None, ("0", "1")),
        Option("hcom_parallel", True, _SWITCH),
        Option("hcom_multi_mode"),
        Option("is_tailing_optimization", False, _SWITCH),
        Option("op_debug_level", None, (0, 1, 2, 3, 4), older="op_debug_config"),
        Option("op_debug_config"),
        Option("debug_dir"),
        Option("modify_mixlist"),
        Option("enable_exception_dump", 0, (0, 1, 2)),
        Option("enable_small_channel", False, _SWITCH),
        Option("deterministic", 0, _ZERO_ONE),
        Option("op_precision_mode"),
        Option("graph_exec_timeout", limits=_MILLISECONDS),
        Option("execute_times", meaning="times that a compiled graph is run",
               limits=(-1, 2**31 - 1)),
        Option("topo_sorting_mode", None, (0, 1, 2, 3, None)),
        Option("insert_op_file"),
        Option("customize_dtypes"),
        Option("overflow_flag", 1, _ZERO_ONE,
               "whether numbers that overflow end at the largest one (0) or become infinity (1)"),
        Option("stream_sync_timeout", -1, limits=_MILLISECONDS),
        Option("event_sync_timeout", -1, limits=_MILLISECONDS),
        Option("external_weight", False, _SWITCH),
        Option("jit_compile", "auto", ("auto", "true", "false"), older_values=_SWITCH),
        Option("compile_dynamic_mode", False, _SWITCH),
        Option("shape_generalization_mode", None, ("STRICT", "FULL", "ADAPTIVE")),
        Option("all_tensor_not_empty", False, _SWITCH),
        Option("input_fusion_size", limits=(0, 33554432)),
        Option("input_batch_cpy", False, _SWITCH),
        Option("aicore_num"),
        Option("export_compile_stat", None, (0, 1, 2)),
        Option("oo_level"),
        Option("oo_constant_folding", None, _SWITCH),
        Option("optimization_switch"),
    ),
    "NpuDumpConfig": (
        Option("enable_dump", False, _SWITCH),
        Option("dump_path"),
        Option("dump_step"),
        Option("dump_mode", "output", ("input", "output", "all")),
        Option("enable_dump_debug", False, _SWITCH),
        Option("dump_debug_mode", "all", ("aicore_overflow", "atomic_overflow", "all")),
        Option("dump_data", "tensor", ("tensor", "stats")),
        Option("dump_layer"),
    ),
    "NpuAoeConfig": (
        Option("aoe_mode", None, ("1", "2", "4")),
        Option("work_path", "./"),
        Option("aoe_config_file"),
    ),
    "NpuProfilingConfig": (
        Option("enable_profiling", False, _SWITCH, "records a profile"),
        Option("profiling_options",
               '{"output":"./","training_trace":"on","task_time":"on","hccl":"on","aicpu":"on",'
               '"aic_metrics":"PipeUtilization","msproftx":"off"}'),
    ),
    "MemoryConfig": (
        Option("atomic_clean_policy", 0, _ZERO_ONE),
        Option("static_memory_policy", 0, (0, 1, 2, 3, 4)),
        Option("variable_use_1g_huge_page", 0, (0, 1, 2)),
    ),
    "NpuExperimentalConfig": (
        Option("resource_config_path"),
        Option("graph_parallel_option_path"),
        Option("enable_graph_parallel", False, _SWITCH),
    ),
    "NpuMultiBranchesConfig": (
        Option("input_shape"),
        Option("dynamic_node_type", None, ("0",), "where inputs come from: a dataset (0)"),
        Option("dynamic_dims"),
    ),
    "LogicalDeviceDeployConfig": (
        Option("logical_device_cluster_deploy_mode", "LB", ("LB", "SINGLE"),
               "how logical devices are chosen"),
        Option("logical_device_id", meaning="logical device to deploy to"),
    ),
    "ModelDeployConfig": (
        Option("model_deploy_mode", meaning="how a model is spread over devices"),
        Option("model_deploy_devicelist", meaning="devices that a model is spread over"),
    ),
    "GraphMemoryOptimizeConfig": (
        Option("recompute", None, ("auto", "manual")),
        Option("graph_slice"),
    ),
    "GraphParallelConfig": (
        Option("enable_graph_parallel", None, _SWITCH,
               older="experimental.enable_graph_parallel"),
        Option("config_path", meaning="file that says how a graph is split over devices",
               older="experimental.graph_parallel_option_path"),
    ),
}
# fmt: on


def line(group: str, name: str) -> Optional[Option]:
    """Returns a line of the table, None where a script has made a group or an option itself."""
    return next((one for one in GROUPS.get(group, ()) if one.name == name), None)


_opened = False

# Groups of the device alone: the others are for npu_device.npu_run_context, too.
_WHEN_IT_OPENS = (
    "NpuConfig", "NpuDumpConfig", "NpuAoeConfig", "NpuProfilingConfig", "MemoryConfig"
)  # fmt: skip


def device_is_open(is_open: bool) -> None:
    """Keeps whether the device is open, after which it reads no options."""
    global _opened
    _opened = is_open


def say_effect(group: str, option: Option) -> None:
    """Says once, on one rank, that an option that a script sets has no effect here.

    And that it would have none on a device, where the script sets it too late.
    """
    if _opened and group in _WHEN_IT_OPENS and environment.speaks_for_job(os.environ):
        logging.once(
            levels.WARNING,
            "Global option %s is set after npu_device.open(), when a device reads no options any "
            "more. Set it before.",
            option.name,
        )
    older = ""
    if option.older:
        older = f", of an older release (use {option.older} instead),"
    elif option.older is not None:
        older = ", of an older release,"
    logging.info_from_rank_0("Global option %s%s %s.", option.name, older, NPU_ONLY)


def nearest(name: Any, known: Any) -> Optional[str]:
    """Returns the one of some texts that is most like another, whatever its case, if any is."""
    by_lower = {one.lower(): one for one in known if isinstance(one, str)}
    found = difflib.get_close_matches(str(name)[:80].lower(), list(by_lower), n=1)
    return by_lower[found[0]] if found else None

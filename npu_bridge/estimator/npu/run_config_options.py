"""NPURunConfig's arguments that become options of NpuOptimizer: checks and parameter_map."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Mapping, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import argument_checks
from npu_device._core import environment, logging, session_options

_MAX_INT32 = 2**31 - 1
_MAX_FUSION_BYTES = 32 * 1024 * 1024


class Argument(NamedTuple):
    """An argument of NPURunConfig, which is also the name of an option.

    Attributes:
        name: of both.
        attribute: of the NPURunConfig that keeps it.
        at_least: smallest integer that is allowed.
        at_most: largest.
    """

    name: str
    attribute: str
    at_least: Optional[int] = None
    at_most: Optional[int] = None


def _private(name: str, at_least: Optional[int] = None, at_most: Optional[int] = None) -> Argument:
    return Argument(name, "_" + name, at_least, at_most)


# fmt: off
ARGUMENTS = (
    Argument("mix_compile_mode", "mix_compile_mode"),
    Argument("enable_data_pre_proc", "enable_data_pre_proc"),
    Argument("is_tailing_optimization", "is_tailing_optimization"),
    Argument("variable_format_optimize", "variable_format_optimize"),
    Argument("graph_run_mode", "graph_run_mode"),
    Argument("op_debug_level", "op_debug_level"),
    Argument("enable_scope_fusion_passes", "enable_scope_fusion_passes"),
    Argument("enable_exception_dump", "enable_exception_dump"),
    Argument("topo_sorting_mode", "topo_sorting_mode"),
    Argument("aoe_config_file", "aoe_config_file"),
    Argument("insert_op_file", "insert_op_file"),
    Argument("stream_sync_timeout", "stream_sync_timeout", -1, _MAX_INT32),
    Argument("event_sync_timeout", "event_sync_timeout", -1, _MAX_INT32),
    _private("precision_mode"), _private("precision_mode_v2"),
    _private("enable_reduce_precision"), _private("hcom_parallel"),
    _private("stream_max_parallel_num"), _private("ac_parallel_enable"),
    _private("quant_dumpable"), _private("op_select_implmode"),
    _private("optypelist_for_implmode"), _private("aoe_mode"), _private("work_path"),
    _private("buffer_optimize"), _private("enable_small_channel"), _private("deterministic"),
    _private("fusion_switch_file"), _private("enable_compress_weight"),
    _private("frozen_variable"), _private("variable_placement"),
    _private("compress_weight_conf"), _private("op_compiler_cache_mode"),
    _private("op_compiler_cache_dir"), _private("debug_dir"), _private("hcom_multi_mode"),
    _private("dynamic_input"), _private("dynamic_graph_execute_mode"),
    _private("dynamic_inputs_shape_range"), _private("local_rank_id", 0, _MAX_INT32),
    _private("local_device_list"), _private("session_device_id", 0, _MAX_INT32),
    _private("distribute_config"), _private("modify_mixlist"), _private("op_precision_mode"),
    _private("device_type"), _private("soc_config"), _private("hccl_timeout", 0, _MAX_INT32),
    _private("op_wait_timeout", 0, _MAX_INT32), _private("op_execute_timeout", 0, _MAX_INT32),
    _private("HCCL_algorithm"), _private("customize_dtypes"), _private("op_debug_config"),
    _private("external_weight"), _private("jit_compile"),
    _private("input_fusion_size", 0, _MAX_FUSION_BYTES), _private("compile_dynamic_mode"),
    _private("graph_max_parallel_model_num", 1, _MAX_INT32), _private("export_compile_stat"),
    _private("aicore_num"), _private("oo_constant_folding"), _private("input_batch_cpy"),
    _private("shape_generalization_mode"), _private("all_tensor_not_empty"),
    _private("auto_multistream_parallel_mode"), _private("oo_level"),
    _private("optimization_switch"),
)
# fmt: on
# Of tf.estimator.RunConfig, which compares them with numbers.
NUMBERS = (
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
)
# Kept as they are given, a number or a text.
SIZES = ("graph_memory_max_size", "variable_memory_max_size")
# Groups of options, by the argument that takes them: attribute of the group, name of the option.
_GROUPS: Dict[str, Mapping[str, str]] = {
    "_profiling_config": {
        "_enable_profiling": "profiling_mode",
        "_profiling_options": "profiling_options",
    },
    "_memory_config": {
        "_" + name: name
        for name in (
            "atomic_clean_policy",
            "static_memory_policy",
            "memory_optimization_policy",
            "variable_use_1g_huge_page",
        )
    },
    "_dump_config": {
        "_enable_dump": "enable_dump",
        "_dump_path": "dump_path",
        "_dump_step": "dump_step",
        "_dump_mode": "dump_mode",
        "_enable_dump_debug": "enable_dump_debug",
        "_dump_debug_mode": "dump_debug_mode",
        "dump_data": "dump_data",
        "dump_layer": "dump_layer",
    },
    "_experimental_config": {
        "_logical_device_cluster_deploy_mode": "experimental_logical_device_cluster_deploy_mode",
        "_logical_device_id": "experimental_logical_device_id",
        "_model_deploy_mode": "experimental_model_deploy_mode",
        "_model_deploy_devicelist": "experimental_model_deploy_devicelist",
        "_enable_graph_parallel": "enable_graph_parallel",
        "_graph_parallel_option_path": "graph_parallel_option_path",
        "_graph_compiler_cache_dir": "graph_compiler_cache_dir",
        "_resource_config_path": "resource_config_path",
        "_accelerate_train_mode": "experimental_accelerate_train_mode",
    },
    "_dynamic_input_config": {
        "_" + name: name
        for name in ("input_shape", "dynamic_dims", "dynamic_node_type", "compile_hybrid_mode")
    },
}
_WHERE = "NPURunConfig"


def check(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Checks the arguments that become options, and those that are numbers.

    Args:
        given: NPURunConfig's arguments by name.

    Returns:
        The values of options by the name of the attribute that keeps each.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is none of the values that are allowed.
    """
    for name in NUMBERS:
        value = given[name]
        if value is not None and not isinstance(value, numbers.Real):
            raise TypeError(f"{_WHERE}: {name} is {value!r}, allowed is a number or None.")
    checked = {
        argument.attribute: argument_checks.option(
            _WHERE,
            argument.name,
            given[argument.name],
            at_least=argument.at_least,
            at_most=argument.at_most,
        )
        for argument in ARGUMENTS
    }
    for name in SIZES:
        value = given[name]
        if value is not None and not isinstance(value, (int, str)):
            raise TypeError(
                f"{_WHERE}: {name} is {value!r}, allowed is a number of bytes, as an int or a text "
                f'such as "16 * 1024 * 1024 * 1024".'
            )
        checked["_" + name] = value
    return checked


def say_what_has_no_effect(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Says of each argument that a script has set, once, if it has no effect here.

    Args:
        given: NPURunConfig's arguments by name.
        defaults: their defaults.
    """
    for name in [argument.name for argument in ARGUMENTS] + list(SIZES):
        if given[name] is not None and given[name] != defaults[name]:
            session_options.say_effect(session_options.BY_NAME[name])
    for attribute in _GROUPS:
        name = attribute[1:]
        if given[name] is not None:
            logging.info_from_rank_0("%s argument %s %s.", _WHERE, name, session_options.NPU_ONLY)


def parameter_map(config: Any) -> Dict[str, Any]:
    """Returns the options that an NPURunConfig stands for.

    Args:
        config: an NPURunConfig.

    Returns:
        bool, int or str by the option's name, without those that are not set.
    """
    found: Dict[str, Any] = {
        "use_off_line": True,
        "min_group_size": True,
        "iterations_per_loop": config.iterations_per_loop,
        "enable_dump": False,
        "enable_dump_debug": False,
        "experimental_logical_device_cluster_deploy_mode": "LB",
    }
    found.update((one.name, getattr(config, one.attribute)) for one in ARGUMENTS)
    found["jit_compile"] = _text(config._jit_compile)
    for name in SIZES:
        value = getattr(config, "_" + name)
        found[name] = None if value is None else str(value)
    for attribute, names in _GROUPS.items():
        group = getattr(config, attribute)
        if group is not None:
            found.update((name, getattr(group, inner)) for inner, name in names.items())
    memory = getattr(config._experimental_config, "_graph_memory_optimize_config", None)
    if memory is not None:
        found["graph_slice"] = memory._graph_slice
        found["recompute"] = memory._recompute
    found["job"], found["task_index"] = environment.cluster_task()
    if found["aoe_mode"] is None:
        for name in ("work_path", "distribute_config"):
            del found[name]
    elif found["work_path"] is None:
        found["work_path"] = "./"
    return {name: value for name, value in found.items() if value is not None}


def write(session_config: Optional[tf.ConfigProto], options: Mapping[str, Any]) -> tf.ConfigProto:
    """Adds options to the configuration of a session.

    Args:
        session_config: the script's; None for the one that tf.estimator uses by itself.
        options: bool, int or str by the option's name.

    Returns:
        A copy of the configuration with NpuOptimizer in it. Options that the script has put there
        itself stay as they are, but for iterations_per_loop, which the training follows.
    """
    config = tf.ConfigProto()
    if session_config is None:
        config.allow_soft_placement = True
    else:
        config.CopyFrom(session_config)
    parameters = npu_optimizer(config).parameter_map
    for name, value in options.items():
        if name in parameters and name != "iterations_per_loop":
            continue
        if isinstance(value, bool):
            parameters[name].b = value
        elif isinstance(value, int):
            parameters[name].i = value
        else:
            parameters[name].s = tf.compat.as_bytes(value)
    return config


def npu_optimizer(config: tf.ConfigProto) -> Any:
    """Returns NpuOptimizer's entry in a session's configuration, adding one if there is none.

    Args:
        config: the configuration, which is changed.
    """
    optimizers = config.graph_options.rewrite_options.custom_optimizers
    for optimizer in optimizers:
        if optimizer.name == "NpuOptimizer":
            return optimizer
    added = optimizers.add()
    added.name = "NpuOptimizer"
    return added


def _text(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value

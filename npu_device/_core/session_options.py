"""Every option that a script may put into NpuOptimizer's parameter_map, and what was put there.

    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["hcom_parallel"].b = True

`OPTIONS` is the table: name, field, meaning, values, effect. Native code tells `record` what a
session's configuration holds when TensorFlow optimizes a graph for it. Scripts of many releases are
about, so nothing here is an error: what no release knows is pointed out once, and the session runs.

Source of the contract: the session configuration pages of the TF Adapter API for TensorFlow 1.x.
"""

from __future__ import annotations

import collections
import difflib
import logging as levels
import os
import re
import threading
from typing import Any, Iterable, NamedTuple

from npu_device._core import environment, logging

# What an option does in this build.
USED = "used"
NPU_ONLY = "is for the NPU and has no effect on CPU ranks"
NOT_IN_BUILD = "has no effect in this build"

# A program that makes a session a step, each with other options, does not fill the memory.
MOST_SESSIONS = 100
_MOST_SHOWN = 80  # characters of a script's text in a message


class Option(NamedTuple):
    """A line of the table.

    Attributes:
        name: the key in parameter_map.
        kinds: the fields of AttrValue that releases read it from, newest release first.
        meaning: in a few words.
        values: those that are allowed, as text; none where anything of the field's type is.
        older_values: further ones that only older releases took.
        older: for an option of older releases, what came of it.
        effect: what it does in this build.
    """

    name: str
    kinds: tuple[str, ...]
    meaning: str
    values: tuple[str, ...] = ()
    older_values: tuple[str, ...] = ()
    older: str = ""
    effect: str = NPU_ONLY


_B, _I, _S = ("b",), ("i",), ("s",)
_ZERO_ONE = ("0", "1")

# fmt: off
OPTIONS: tuple[Option, ...] = (
    # Where and how the graph runs
    Option("use_off_line", _B, "computes on the NPU instead of the host"),
    Option("mix_compile_mode", _B, "leaves ops that the NPU lacks to the host"),
    Option("graph_run_mode", _I, "inference (0) or training (1)", _ZERO_ONE),
    Option("iterations_per_loop", _I,
           "steps for one Session.run, which NPUEstimator or util.set_iteration_per_loop makes",
           effect=USED),
    Option("session_device_id", _I, "logical device of the session"),
    Option("device_type", _S, "kind of device that a graph is split for"),
    Option("soc_config", _S, "processor to compile for"),
    Option("job", _S, "job name in a cluster with parameter servers"),
    Option("task_index", _I, "number of the task within the job"),
    Option("local_rank_id", _I, "rank within the server, for parameter servers"),
    Option("local_device_list", _S, "devices of the server, for parameter servers"),
    Option("lower_functional_ops", _B, "turns functional control flow into primitive ops"),
    Option("in_out_pair_flag", _B, "in_out_pair names what runs on the NPU, or what does not"),
    Option("in_out_pair", _S, "first and last ops of parts of a mixed graph"),
    Option("jit_compile", ("s", "b"), "compiles ops for the graph instead of using built ones",
           ("auto", "true", "false")),
    Option("es_cluster_config", _S, "cluster file of the embedding service"),
    # Distributed training
    Option("hcom_parallel", _B, "exchanges gradients while the backward pass runs, as always here"),
    Option("is_tailing_optimization", _B,
           "computes what does not need the last exchange during it, as always here"),
    Option("hccl_timeout", _I, "seconds that a collective may wait for its peers",
           effect=NOT_IN_BUILD),
    Option("HCCL_algorithm", _S, "algorithm of the collectives on each network level"),
    Option("hcom_multi_mode", _B, "more than one collective communication mode in a graph"),
    # Precision
    Option("precision_mode", _S, "number formats that the network is computed in",
           ("allow_fp32_to_fp16", "allow_fp32_to_bf16", "force_fp16", "force_fp32",
            "cube_fp16in_fp32out", "must_keep_origin_dtype", "allow_mix_precision",
            "allow_mix_precision_fp16", "allow_mix_precision_bf16")),
    Option("precision_mode_v2", _S, "the same as precision_mode, with shorter names",
           ("fp16", "origin", "cube_fp16in_fp32out", "mixed_float16", "mixed_bfloat16",
            "mixed_hif8", "cube_hif8")),
    Option("modify_mixlist", _S, "file that moves ops between the lists of mixed precision"),
    Option("op_precision_mode", _S, "file with a precision for single ops"),
    Option("customize_dtypes", _S, "file with number formats for single ops"),
    Option("deterministic", _I, "equal inputs give equal bits", _ZERO_ONE),
    Option("experimental_accelerate_train_mode", _S, "share of the training in lower precision"),
    # Graph compilation
    Option("fusion_switch_file", _S, "file that turns fusion rules of the graph compiler off"),
    Option("enable_scope_fusion_passes", _S, "further fusion rules to apply, by name"),
    Option("topo_sorting_mode", _I, "order in which ops are put", ("0", "1", "2", "3")),
    Option("insert_op_file", _S, "file with preprocessing ops to insert"),
    Option("enable_small_channel", _I, "a convolution layout for few channels", _ZERO_ONE),
    Option("buffer_optimize", _S, "keeps data in on-chip buffers",
           ("l2_optimize", "off_optimize")),
    Option("enable_compress_weight", _B, "compresses all weights"),
    Option("compress_weight_conf", _S, "file with the ops whose weights are compressed"),
    Option("frozen_variable", _B, "turns variables into constants for inference"),
    Option("variable_placement", _S, "where variables live", ("Device", "Host")),
    Option("external_weight", _B, "keeps weights outside of the compiled model"),
    Option("graph_slice", _S, "cuts the graph into parts to save memory"),
    Option("recompute", _S, "computes results again to save memory"),
    Option("oo_level", _S, "level of the graph compiler's optimizations"),
    Option("oo_constant_folding", _B, "computes constant parts when compiling"),
    Option("optimization_switch", _S, "turns single optimizations on and off"),
    Option("op_compiler_cache_mode", _S, "keeps compiled ops on disk",
           ("enable", "disable", "force")),
    Option("op_compiler_cache_dir", _S, "folder for compiled ops"),
    Option("graph_compiler_cache_dir", _S, "folder for compiled graphs"),
    Option("aicore_num", _S, "cores to compile for"),
    Option("export_compile_stat", _I, "when the fusion statistics are written", ("0", "1", "2")),
    # Shapes that change
    Option("input_shape", _S, "inputs' shapes, with -1 for what changes"),
    Option("dynamic_dims", _S, "sizes that what changes can have"),
    Option("dynamic_node_type", _I, "inputs come from a dataset (0) or placeholders (1)",
           _ZERO_ONE),
    Option("compile_hybrid_mode", _I, "compiles for the listed sizes and for any", _ZERO_ONE),
    Option("compile_dynamic_mode", _B, "compiles for inputs of any shape"),
    Option("shape_generalization_mode", _S, "what is compiled when a shape changes",
           ("STRICT", "FULL", "ADAPTIVE")),
    Option("all_tensor_not_empty", _B, "leaves out checks for empty tensors"),
    Option("ac_parallel_enable", _S, "runs AI CPU and AI Core ops side by side", _ZERO_ONE),
    # Execution and memory
    Option("stream_max_parallel_num", _S, "parallel streams of each engine"),
    Option("auto_multistream_parallel_mode", _S, "how ops are spread over streams"),
    Option("graph_max_parallel_model_num", _I, "graph executions side by side"),
    Option("input_fusion_size", _I, "bytes up to which inputs are copied to the device together"),
    Option("input_batch_cpy", _B, "copies inputs to the device in one batch"),
    Option("static_memory_policy", _I, "how memory is allocated", ("0", "1", "2", "3", "4")),
    Option("atomic_clean_policy", _I, "when memory of atomic ops is cleared", _ZERO_ONE),
    Option("memory_optimization_policy", _S, "how memory is saved"),
    Option("variable_use_1g_huge_page", _I, "keeps variables in large pages", ("0", "1", "2")),
    Option("op_wait_timeout", _I, "seconds that an op may wait"),
    Option("op_execute_timeout", _I, "seconds that an op may run"),
    Option("graph_exec_timeout", _I, "milliseconds that a graph may run"),
    Option("stream_sync_timeout", _I, "milliseconds to wait for a stream"),
    Option("event_sync_timeout", _I, "milliseconds to wait for an event"),
    Option("resource_config_path", _S, "file that describes the devices"),
    Option("enable_graph_parallel", _B, "splits a graph over devices"),
    Option("graph_parallel_option_path", _S, "file that says how a graph is split over devices"),
    Option("experimental_logical_device_cluster_deploy_mode", _S, "how logical devices are chosen"),
    Option("experimental_logical_device_id", _S, "logical device to deploy to"),
    Option("experimental_model_deploy_mode", _S, "how a model is spread over devices"),
    Option("experimental_model_deploy_devicelist", _S, "devices that a model is spread over"),
    # Debugging, profiling, tuning
    Option("enable_dump", _B, "dumps inputs and outputs of ops"),
    Option("enable_dump_debug", _B, "dumps ops whose results overflow"),
    Option("dump_path", _S, "folder for what ops are dumped to"),
    Option("dump_step", _S, "steps to dump, such as 0|5-10"),
    Option("dump_mode", _S, "what is dumped of each op", ("input", "output", "all")),
    Option("dump_debug_mode", _S, "overflows to look for",
           ("aicore_overflow", "atomic_overflow", "all")),
    Option("dump_data", _S, "dumps tensors or statistics", ("tensor", "stats")),
    Option("dump_layer", _S, "ops to dump; all without it"),
    Option("quant_dumpable", _S, "dumps what was before quantization, too", _ZERO_ONE),
    Option("enable_exception_dump", _I, "dumps the op that failed", ("0", "1", "2")),
    Option("op_debug_config", _S, "file with checks to compile into ops"),
    Option("debug_dir", _S, "folder for what compiling leaves"),
    Option("profiling_mode", _B, "records a profile"),
    Option("profiling_options", _S, "what a profile records, as JSON"),
    Option("aoe_mode", _S, "tunes ops (2), the graph (1) or the gradients' split (4)",
           ("1", "2", "4"), ("3",)),
    Option("work_path", _S, "folder for tuning"),
    Option("aoe_config_file", _S, "file with settings for tuning"),
    Option("distribute_config", _S, "file with the machines for tuning"),
    # Of older releases
    Option("auto_tune_mode", _S, "tunes ops", older="aoe_mode took its place"),
    Option("mstune_mode", _S, "tunes ops or the graph", older="aoe_mode took its place"),
    Option("op_debug_level", _I, "checks to compile into ops", ("0", "1", "2", "3", "4"),
           older="op_debug_config took its place"),
    Option("op_select_implmode", _S, "exact or fast implementations of ops",
           ("high_precision", "high_performance"),
           ("high_precision_for_all", "high_performance_for_all"),
           older="op_precision_mode took its place"),
    Option("optypelist_for_implmode", _S, "op types that op_select_implmode is for",
           older="op_precision_mode took its place"),
    Option("dynamic_input", _B, "inputs change their shapes",
           older="compile_dynamic_mode took its place"),
    Option("dynamic_graph_execute_mode", _S, "what is compiled when inputs change their shapes",
           ("dynamic_execute",), ("lazy_recompile",),
           older="compile_dynamic_mode took its place"),
    Option("dynamic_inputs_shape_range", _S, "shapes that inputs can have",
           older="compile_dynamic_mode took its place"),
    Option("fp_point", _S, "first op of the forward pass, for profiles",
           older="profiling_options took its place"),
    Option("bp_point", _S, "last op of the backward pass, for profiles",
           older="profiling_options took its place"),
    Option("enable_data_pre_proc", _B, "fetches input on the device", older="dropped"),
    Option("enable_reduce_precision", _B, "lowers the precision of ops", older="dropped"),
    Option("variable_format_optimize", _B, "stores variables as the device likes them",
           older="dropped"),
    Option("graph_memory_max_size", _S, "bytes for a graph", older="dropped"),
    Option("variable_memory_max_size", _S, "bytes for variables", older="dropped"),
    Option("min_group_size", ("b", "i"), "smallest part of a graph for the device",
           older="dropped"),
)
# fmt: on

BY_NAME: dict[str, Option] = {option.name: option for option in OPTIONS}

_lock = threading.Lock()
# The options of sessions, those used last at the end; no two are equal.
_kept: collections.deque[dict[str, Any]] = collections.deque(maxlen=MOST_SESSIONS)


def options() -> dict[str, Any]:
    """Returns the options of the session whose graph TensorFlow optimized last.

    Returns:
        A dict by name, empty if there was no session with NpuOptimizer yet. Values are bool, int,
        float, str (bytes that are no UTF-8 stand in it as `os.fsdecode` would put them), or a list
        of those. A value that a script wrote into the wrong field is converted where that loses
        nothing. Names that no release knows are there, too.
    """
    with _lock:
        return dict(_kept[-1]) if _kept else {}


def all_options() -> tuple[dict[str, Any], ...]:
    """Returns the different options of this process's sessions, those used last at the end.

    A session counts once TensorFlow has optimized a graph for it, and the last 100 are kept.
    """
    with _lock:
        return tuple(dict(one) for one in _kept)


def record(entries: Iterable[tuple[bytes, str, Any]]) -> None:
    """Keeps the options of a session and says what is to be said of them, once.

    Args:
        entries: name, field and value of each entry of NpuOptimizer's parameter_map, see
            csrc/bindings/session_options_hook.h.
    """
    read = {}
    # The map has no order of its own: messages come in the same one on every run.
    for raw, kind, value in sorted(entries, key=lambda entry: entry[0]):
        name = _text(raw)
        option = BY_NAME.get(name)
        if option is None:
            _point_out(_unknown_name(name))
        if not kind:
            continue  # reading parameter_map["x"] makes an entry without a value
        if isinstance(value, list):
            value = [_text(one) if isinstance(one, bytes) else one for one in value]
        elif isinstance(value, bytes):
            value = _text(value)
        read[name] = value if option is None else _checked(option, kind, value)
    with _lock:
        if read in _kept:
            _kept.remove(read)
        _kept.append(read)


def say_effect(option: Option) -> None:
    """Says that an option has no effect here, if that is so, once and on one rank.

    Args:
        option: a line of the table that a script has set.
    """
    if option.effect != USED:
        older = f", of an older release ({option.older})," if option.older else ""
        logging.info_from_rank_0("NpuOptimizer option %s%s %s.", option.name, older, option.effect)


def _checked(option: Option, kind: str, value: Any) -> Any:
    """Returns a value as the option's type, after saying what is odd about it."""
    if kind not in option.kinds:
        right = option.kinds[0]
        _point_out(
            f"NpuOptimizer option {option.name} is set as .{kind}, and is read as .{right}: write "
            f'parameter_map["{option.name}"].{right}.'
        )
        value = _converted(value, right)
    elif option.values and kind in ("s", "i"):
        _check_value(option, str(value))
    say_effect(option)
    return value


def _check_value(option: Option, text: str) -> None:
    if text in option.older_values:
        logging.info_from_rank_0(
            "NpuOptimizer option %s has the value %s of an older release.", option.name, text
        )
    elif text not in option.values:
        nearest = _nearest(text, option.values)
        meant = f" Was {nearest} meant?" if nearest else ""
        _point_out(
            f"NpuOptimizer option {option.name} is {_shown(text)}, known are "
            f"{', '.join(option.values)}.{meant}"
        )


def _converted(value: Any, kind: str) -> Any:
    """Returns a value as a type of field where that loses nothing, else as it is."""
    text = str(value) if isinstance(value, (bool, int, float, str)) else ""
    if kind == "b":
        words = {"0": False, "1": True, "false": False, "true": True}
        return words.get(text.lower(), value)
    if kind == "i" and re.match(r"[+-]?[0-9]{1,19}\Z", text):
        return int(text)
    if kind == "i" and isinstance(value, bool):
        return int(value)
    return text if kind == "s" and text else value


def _unknown_name(name: str) -> str:
    nearest = _nearest(name, tuple(BY_NAME))
    end = f"Was {nearest} meant?" if nearest else "It has no effect."
    return f"NpuOptimizer option {_shown(name)} is not one that npu_bridge knows. {end}"


def _nearest(text: str, known: tuple[str, ...]) -> str | None:
    """The one of `known` that is most like a text, whatever its case, if any is."""
    by_lower = {name.lower(): name for name in reversed(known)}
    # Comparing takes time that grows with the square of the length.
    near = difflib.get_close_matches(text[:_MOST_SHOWN].lower(), list(by_lower), n=1)
    return by_lower[near[0]] if near else None


def _point_out(message: str) -> None:
    if environment.speaks_for_job(os.environ):
        logging.once(levels.WARNING, message)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _shown(text: str) -> str:
    """A script's text as one word of a message that any stream can print."""
    cut = text if len(text) <= _MOST_SHOWN else text[: _MOST_SHOWN - 3] + "..."
    return cut if re.match(r"[\w.,:|/-]+\Z", cut, re.ASCII) else ascii(cut)

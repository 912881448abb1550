"""NPURunConfig, and the configuration of sessions as NpuOptimizer wants it.

Most options are for the NPU. They are checked and kept, and each says once that it has no effect.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any, Callable, Dict, Optional, Tuple, Union

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig
from tensorflow.python.eager import context

from npu_bridge.estimator.npu import argument_checks, estimator_classes, run_config_options, util
from npu_bridge.estimator.npu.option_groups import (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    NpuExecutePlacement,
    ProfilingConfig,
)
from npu_device._core import environment

__all__ = [
    "DumpConfig",
    "DynamicInputConfig",
    "ExperimentalConfig",
    "GraphMemoryOptimizeConfig",
    "MemoryConfig",
    "NPURunConfig",
    "NpuExecutePlacement",
    "ProfilingConfig",
    "decorator_tf_session",
    "set_npu_default_config",
    "util",
]

_DEFAULT_SAVE_STEPS = 100


class NPURunConfig(estimator_classes.RunConfig):
    """How an NPUEstimator trains: what tf.estimator.RunConfig says, and options for the device.

    On CPU ranks these have an effect: model_dir, tf_random_seed, save_summary_steps,
    save_checkpoints_steps, save_checkpoints_secs, session_config, keep_checkpoint_max,
    keep_checkpoint_every_n_hours, log_step_count_steps, train_distribute and eval_distribute, all
    as in tf.estimator.RunConfig, and the three below. The rest are options of NpuOptimizer, which
    docs/session-options.md describes: they are checked, kept, and put into the parameter_map.

    Args:
        iterations_per_loop: training steps that one Session.run takes, 1 or more.
        save_checkpoints_steps: steps between checkpoints; 100 where neither steps nor seconds are
            given.
        horovod_mode: True leaves ranks alone: no broadcast of variables, and every rank writes
            checkpoints itself.
        distribute: a strategy for parameter servers, only together with a cluster in TF_CONFIG.
        dump_config: a DumpConfig.
        profiling_config: a ProfilingConfig.
        memory_config: a MemoryConfig.
        experimental_config: an ExperimentalConfig.
        dynamic_input_config: a DynamicInputConfig.
        graph_memory_max_size: bytes, as a number or a text.
        variable_memory_max_size: bytes, as a number or a text.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is none of the values that are allowed, or two of them contradict
            each other.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source of the contract: CANN TF Adapter API, NPURunConfig constructor.
    """

    def __init__(
        self,
        iterations_per_loop: int = 1,
        profiling_config: Optional[ProfilingConfig] = None,
        model_dir: Any = None,
        tf_random_seed: Any = None,
        save_summary_steps: Any = 0,
        save_checkpoints_steps: Any = None,
        save_checkpoints_secs: Any = None,
        session_config: Any = None,
        keep_checkpoint_max: Any = 5,
        keep_checkpoint_every_n_hours: Any = 10000,
        log_step_count_steps: Any = 100,
        distribute: Any = None,
        enable_data_pre_proc: bool = True,
        precision_mode: Optional[str] = None,
        enable_reduce_precision: bool = False,
        variable_format_optimize: Optional[bool] = None,
        mix_compile_mode: bool = False,
        hcom_parallel: bool = True,
        graph_memory_max_size: Any = None,
        variable_memory_max_size: Any = None,
        dump_config: Optional[DumpConfig] = None,
        stream_max_parallel_num: Optional[str] = None,
        is_tailing_optimization: bool = False,
        horovod_mode: bool = False,
        graph_run_mode: int = 1,
        op_debug_level: Optional[int] = None,
        enable_scope_fusion_passes: Optional[str] = None,
        enable_exception_dump: int = 2,
        op_select_implmode: Optional[str] = None,
        optypelist_for_implmode: Optional[str] = None,
        dynamic_input_config: Optional[DynamicInputConfig] = None,
        aoe_mode: Optional[str] = None,
        work_path: Optional[str] = None,
        buffer_optimize: str = "l2_optimize",
        enable_small_channel: int = 0,
        fusion_switch_file: Optional[str] = None,
        enable_compress_weight: bool = False,
        compress_weight_conf: Optional[str] = None,
        op_compiler_cache_mode: Optional[str] = None,
        op_compiler_cache_dir: Optional[str] = None,
        debug_dir: Optional[str] = None,
        hcom_multi_mode: bool = False,
        dynamic_input: Optional[bool] = None,
        dynamic_graph_execute_mode: str = "dynamic_execute",
        dynamic_inputs_shape_range: Optional[str] = None,
        train_distribute: Any = None,
        eval_distribute: Any = None,
        local_rank_id: Optional[int] = None,
        local_device_list: Optional[str] = None,
        session_device_id: Optional[int] = None,
        distribute_config: Optional[str] = None,
        modify_mixlist: Optional[str] = None,
        op_precision_mode: Optional[str] = None,
        device_type: str = "default_device_type",
        soc_config: Optional[str] = None,
        hccl_timeout: Optional[int] = None,
        op_wait_timeout: Optional[int] = None,
        op_execute_timeout: Optional[int] = None,
        HCCL_algorithm: Optional[str] = None,
        customize_dtypes: Optional[str] = None,
        op_debug_config: Optional[str] = None,
        memory_config: Optional[MemoryConfig] = None,
        experimental_config: Optional[ExperimentalConfig] = None,
        topo_sorting_mode: Optional[int] = None,
        aoe_config_file: Optional[str] = None,
        insert_op_file: Optional[str] = None,
        stream_sync_timeout: int = -1,
        event_sync_timeout: int = -1,
        external_weight: bool = False,
        deterministic: int = 0,
        frozen_variable: bool = False,
        variable_placement: str = "Device",
        jit_compile: Union[str, bool] = "auto",
        precision_mode_v2: Optional[str] = None,
        ac_parallel_enable: Optional[str] = None,
        quant_dumpable: Optional[str] = None,
        input_fusion_size: int = 131072,
        compile_dynamic_mode: Optional[bool] = None,
        graph_max_parallel_model_num: int = 1,
        export_compile_stat: int = 1,
        aicore_num: Optional[str] = None,
        oo_constant_folding: bool = True,
        input_batch_cpy: bool = False,
        shape_generalization_mode: str = "STRICT",
        all_tensor_not_empty: bool = False,
        auto_multistream_parallel_mode: Optional[str] = None,
        oo_level: str = "O3",
        optimization_switch: Optional[str] = None,
    ) -> None:
        given: Dict[str, Any] = {
            name: value for name, value in locals().items() if name not in ("self", "__class__")
        }
        estimator_classes.require("NPURunConfig")
        argument_checks.check_positive_integer(iterations_per_loop, "iterations_per_loop")
        for name in ("mix_compile_mode", "horovod_mode"):
            argument_checks.check_bool_type(given[name], name)
        if mix_compile_mode and iterations_per_loop != 1:
            raise ValueError(
                f"iterations_per_loop is {iterations_per_loop} and mix_compile_mode is True: steps "
                f"that are left to the host cannot be repeated on the device. Set one of them to "
                f"its default."
            )
        argument_checks.check_graph_run_mode(graph_run_mode)
        groups = {
            "profiling_config": ProfilingConfig,
            "memory_config": MemoryConfig,
            "dump_config": DumpConfig,
            "experimental_config": ExperimentalConfig,
            "dynamic_input_config": DynamicInputConfig,
        }
        for name, kind in groups.items():
            value = argument_checks.instance_or_none(given[name], kind, name)
            setattr(self, "_" + name, value)
        for attribute, value in run_config_options.check(given).items():
            setattr(self, attribute, value)
        _check_cluster(distribute, mix_compile_mode)
        self.iterations_per_loop = iterations_per_loop
        self.horovod_mode = horovod_mode
        self._distribute = distribute
        if save_checkpoints_secs is None and save_checkpoints_steps is None:
            save_checkpoints_steps = _DEFAULT_SAVE_STEPS
        super().__init__(
            model_dir=model_dir,
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=save_checkpoints_steps,
            save_checkpoints_secs=save_checkpoints_secs,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            train_distribute=train_distribute or distribute,
            eval_distribute=eval_distribute or distribute,
        )
        run_config_options.say_what_has_no_effect(given, _DEFAULTS)


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(NPURunConfig.__init__).parameters.items()
}


def set_npu_default_config(
    func: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Puts NpuOptimizer into the `config` of a call that makes a session.

    Args:
        func: the constructor that is called, with self first and a parameter `config`.
        args: positional arguments of the call, without self.
        kwargs: its keyword arguments.

    Returns:
        Both, with a config that has NpuOptimizer, and that leaves ops which a device named by the
        script does not have to the host. The script's own config is not changed.

    Raises:
        ValueError: `func` has no parameter `config`.

    Source of the contract: CANN TF Adapter API, npu_config.set_npu_default_config.
    """
    return _with_config(func, args, kwargs, with_npu_optimizer)


def with_npu_optimizer(config: Optional[tf.ConfigProto]) -> tf.ConfigProto:
    """Returns a copy of a session's configuration as the device needs it.

    Args:
        config: the script's, or None.
    """
    copy = tf.ConfigProto()
    if config is not None:
        copy.CopyFrom(config)
    set_for_npu(copy)
    return copy


def set_for_npu(config: tf.ConfigProto) -> None:
    """Adds NpuOptimizer, and turns off what the device does not bear.

    Args:
        config: a session's configuration, which is changed.
    """
    rewrite = config.graph_options.rewrite_options
    if not any(one.name == "NpuOptimizer" for one in rewrite.custom_optimizers):
        rewrite.memory_optimization = RewriterConfig.OFF
    run_config_options.npu_optimizer(config)
    config.allow_soft_placement = True
    config.log_device_placement = False
    rewrite.remapping = RewriterConfig.OFF
    config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.OFF


def decorator_tf_session(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a session's constructor put NpuOptimizer into its configuration.

    Args:
        func: __init__ of a class of sessions.

    Returns:
        The function to put in its place.

    Source of the contract: CANN TF Adapter API, npu_config.decorator_tf_session.
    """

    @functools.wraps(func)
    def with_default_config(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = set_npu_default_config(func, args, kwargs)
        return func(self, *args, **kwargs)

    return with_default_config


def soft_placement(func: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a session's constructor leave ops to the host that a device named by a script lacks.

    Scripts name devices that CPU ranks do not have, such as /gpu:0, and the original's sessions
    place their ops all the same.

    Args:
        func: __init__ of a class of sessions.

    Returns:
        The function to put in its place; `func` itself if that is one already.
    """
    if getattr(func, "places_softly", False):
        return func

    @functools.wraps(func)
    def with_soft_placement(self: Any, *args: Any, **kwargs: Any) -> Any:
        args, kwargs = _with_config(func, args, kwargs, _placing_softly)
        return func(self, *args, **kwargs)

    with_soft_placement.places_softly = True  # type: ignore[attr-defined]
    return with_soft_placement


def _placing_softly(config: Optional[tf.ConfigProto]) -> tf.ConfigProto:
    copy = tf.ConfigProto()
    # Without a configuration, a session takes that of the process.
    copy.CopyFrom(context.context().config if config is None else config)
    copy.allow_soft_placement = True
    return copy


def _with_config(
    func: Callable[..., Any],
    args: Tuple[Any, ...],
    kwargs: Dict[str, Any],
    change: Callable[[Optional[tf.ConfigProto]], tf.ConfigProto],
) -> Tuple[Tuple[Any, ...], Dict[str, Any]]:
    """Returns the arguments of a call of `func`, without self, with another `config`."""
    names = list(inspect.signature(func).parameters)
    if "config" not in names:
        raise ValueError(f"{func!r} has no parameter config, so that it makes no session.")
    position = names.index("config") - 1  # without self
    kwargs = dict(kwargs)
    given = kwargs.get("config")
    if len(args) > position:
        given = args[position]
        kwargs.update(zip(names[position + 2 :], args[position + 1 :]))
        args = args[:position]
    kwargs["config"] = change(given)
    return args, kwargs


def _check_cluster(distribute: Any, mix_compile_mode: bool) -> None:
    """Checks that parameter servers are described in both of the places where they must be."""
    cluster = bool(environment.cluster_specification())
    if cluster != (distribute is not None):
        raise ValueError(
            f"distribute is {distribute!r} and TF_CONFIG has {'a' if cluster else 'no'} cluster: "
            f"parameter servers need both, ranks of one job neither."
        )
    if cluster and not mix_compile_mode:
        raise ValueError("TF_CONFIG has a cluster: mix_compile_mode must be True with it.")

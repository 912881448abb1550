"""Start and end of what a process needs of the device, for scripts that do it without a session."""

from __future__ import annotations

from typing import Any, Dict, List, NoReturn, Optional, Sequence

import tensorflow.compat.v1 as tf

from hccl.manage.api import get_local_rank_size, get_rank_id
from npu_bridge import tf_adapter
from npu_bridge.estimator.npu import argument_checks, npu_scope, util
from npu_bridge.estimator.npu.argument_checks import check_graph_run_mode
from npu_device._core import session_options

__all__ = [
    "check_graph_run_mode",
    "get_local_rank_size",
    "get_rank_id",
    "get_rdma_cache",
    "get_var_addr_and_size",
    "init_debug_dir",
    "init_op_compiler_cache_dir",
    "init_op_compiler_cache_mode",
    "init_rdma_pool",
    "is_inf_nan_enabled",
    "malloc_shared_memory",
    "npu_close",
    "npu_resource_init",
    "npu_resource_shutdown",
    "npu_scope",
    "rdma_remote_init",
    "rdma_remote_register",
    "set_device_sat_mode",
    "tf_adapter",
    "util",
]


def init_op_compiler_cache_mode(init: Dict[str, str], op_compiler_cache_mode: Any) -> None:
    """Writes an option among those that the device starts with.

    Accepted without effect on CPU ranks.

    Args:
        init: the options, which are changed.
        op_compiler_cache_mode: "enable", "disable" or "force"; None writes nothing.

    Source of the contract: CANN TF Adapter API, npu_plugin.init_op_compiler_cache_mode.
    """
    _write(init, "ge.op_compiler_cache_mode", op_compiler_cache_mode)


def init_op_compiler_cache_dir(init: Dict[str, str], op_compiler_cache_dir: Any) -> None:
    """Writes an option among those that the device starts with.

    Accepted without effect on CPU ranks.

    Args:
        init: the options, which are changed.
        op_compiler_cache_dir: folder for compiled ops; None writes nothing.

    Source of the contract: CANN TF Adapter API, npu_plugin.init_op_compiler_cache_dir.
    """
    _write(init, "ge.op_compiler_cache_dir", op_compiler_cache_dir)


def init_debug_dir(init: Dict[str, str], debug_dir: Any) -> None:
    """Writes an option among those that the device starts with.

    Accepted without effect on CPU ranks.

    Args:
        init: the options, which are changed.
        debug_dir: folder for what compiling leaves; None writes nothing.

    Source of the contract: CANN TF Adapter API, npu_plugin.init_debug_dir.
    """
    _write(init, "ge.debugDir", debug_dir)


def npu_resource_init(
    graph_run_mode: int = 1,
    op_debug_level: int = 0,
    enable_profiling: bool = False,
    profiling_options: Optional[str] = None,
    precision_mode: Optional[str] = None,
    enable_scope_fusion_passes: Optional[str] = None,
    enable_exception_dump: int = 2,
    aoe_mode: Optional[str] = None,
    work_path: Optional[str] = None,
    op_compiler_cache_mode: Optional[str] = None,
    op_compiler_cache_dir: Optional[str] = None,
    debug_dir: Optional[str] = None,
    hcom_multi_mode: bool = False,
    distribute_config: Optional[str] = None,
    aoe_config_file: Optional[str] = None,
    precision_mode_v2: Optional[str] = None,
    export_compile_stat: int = 1,
    aicore_num: Optional[str] = None,
    oo_constant_folding: bool = True,
    input_batch_cpy: bool = False,
    oo_level: str = "O3",
    optimization_switch: Optional[str] = None,
) -> None:
    """Meets the other ranks of the job, as npu_ops.initialize_system does in a session.

    The arguments are options for the NPU, which docs/session-options.md describes. They are
    checked, and have no effect on CPU ranks.

    Args:
        graph_run_mode: 0 for inference, 1 for training.
        op_debug_level: checks to compile into ops.
        enable_profiling: whether a profile is recorded; profiling_options is needed then.
        profiling_options: what a profile records, a JSON text.
        precision_mode: number formats that the network is computed in.
        enable_scope_fusion_passes: further fusion rules.
        enable_exception_dump: 0 to 2, what is dumped of an op that fails.
        aoe_mode: what is tuned: "1", "2" or "4".
        work_path: folder for tuning; the current one if None.
        op_compiler_cache_mode: "enable", "disable" or "force".
        op_compiler_cache_dir: folder for compiled ops.
        debug_dir: folder for what compiling leaves.
        hcom_multi_mode: whether a graph has more than one communication mode.
        distribute_config: file with the machines for tuning.
        aoe_config_file: file with settings for tuning.
        precision_mode_v2: the same as precision_mode, with other names.
        export_compile_stat: 0 to 2, when statistics are written.
        aicore_num: cores to compile for.
        oo_constant_folding: whether constant parts are computed when compiling.
        input_batch_cpy: whether inputs are copied in one batch.
        oo_level: level of optimization.
        optimization_switch: single optimizations.

    Raises:
        TypeError: an argument has another type.
        ValueError: an argument is none of the values that are allowed, or a variable of the
            environment or the rank table is wrong.
        RuntimeError: ranks did not come.

    Source of the contract: CANN TF Adapter API, npu_resource_init.
    """
    given = dict(locals())
    check_graph_run_mode(graph_run_mode)
    for name in ("op_debug_level", "enable_exception_dump"):
        util.check_nonnegative_integer(given[name], name)
    switches = ("enable_profiling", "hcom_multi_mode", "oo_constant_folding", "input_batch_cpy")
    for name in switches:
        if given[name] is not None:
            util.check_bool_type(given[name], name)
    if enable_profiling and profiling_options is None:
        raise ValueError(
            "enable_profiling is True and profiling_options is None: say what to record, such as "
            """'{"output": "/tmp/profile", "task_trace": "on"}'."""
        )
    if aoe_mode is not None:
        util.check_aoe_mode(aoe_mode)
        util.check_path(work_path or "./")
    init: Dict[str, str] = {}
    for name, value in given.items():
        key = "profiling_mode" if name == "enable_profiling" else name
        checked = argument_checks.option("npu_resource_init", name, value, key=key)
        if checked is not None:
            init[name] = str(checked)
        if checked is not None and checked != _DEFAULTS[name]:
            session_options.say_effect(session_options.BY_NAME[key])
    tf_adapter.PluginInit(tf_adapter.map_string_string(init))


def npu_resource_shutdown() -> None:
    """Leaves the job, as npu_ops.shutdown_system does in a session.

    Source of the contract: CANN TF Adapter API, npu_resource_shutdown.
    """
    tf_adapter.PluginFinalize()


def npu_close() -> None:
    """Leaves the job at the end of a program.

    Source of the contract: CANN TF Adapter API, npu_close.
    """
    tf_adapter.NpuClose()


def init_rdma_pool(mem_size: int) -> NoReturn:
    """Is refused: there is no network card that reads a device's memory.

    Args:
        mem_size: bytes.

    Raises:
        ValueError: mem_size is no int.
        NotImplementedError: always else.

    Source of the contract: CANN TF Adapter API, npu_plugin.init_rdma_pool.
    """
    _check_is(mem_size, (int,), "mem_size")
    _refuse("init_rdma_pool")


def rdma_remote_register(remote_var_list: Sequence[Any]) -> NoReturn:
    """Is refused: there is no network card that reads a device's memory.

    Args:
        remote_var_list: addresses and sizes of variables on each rank.

    Raises:
        ValueError: remote_var_list is no list or tuple.
        NotImplementedError: always else.

    Source of the contract: CANN TF Adapter API, npu_plugin.rdma_remote_register.
    """
    _check_is(remote_var_list, (list, tuple), "remote_var_list")
    _refuse("rdma_remote_register")


def rdma_remote_init(remote_var_list: Sequence[Any], mem_size: int) -> NoReturn:
    """Is refused: there is no network card that reads a device's memory.

    Args:
        remote_var_list: addresses and sizes of variables on each rank.
        mem_size: bytes.

    Raises:
        ValueError: an argument has another type.
        NotImplementedError: always else.

    Source of the contract: CANN TF Adapter API, npu_plugin.rdma_remote_init.
    """
    _check_is(remote_var_list, (list, tuple), "remote_var_list")
    _check_is(mem_size, (int,), "mem_size")
    _refuse("rdma_remote_init")


def get_var_addr_and_size(var_name: str) -> NoReturn:
    """Is refused: a variable has no address in a device's memory.

    Args:
        var_name: name of the variable.

    Raises:
        ValueError: var_name is no str.
        NotImplementedError: always else.

    Source of the contract: CANN TF Adapter API, npu_plugin.get_var_addr_and_size.
    """
    _check_is(var_name, (str,), "var_name")
    _refuse("get_var_addr_and_size")


def malloc_shared_memory(var_name: str, shape: Sequence[int], data_type: Any) -> NoReturn:
    """Is refused: there is no device's memory to share.

    Args:
        var_name: name of the variable.
        shape: its shape.
        data_type: its dtype.

    Raises:
        NotImplementedError: always.

    Source of the contract: CANN TF Adapter API, npu_plugin.malloc_shared_memory.
    """
    _refuse("malloc_shared_memory")


def get_rdma_cache(data_type: Any, shape: Any, name: str = "rdma_w") -> Any:
    """Makes the variable that remote reads would be written to: zeros, in npu_mem_type_scope.

    Args:
        data_type: its dtype.
        shape: its shape.
        name: its name.

    Returns:
        The variable.

    Source of the contract: CANN TF Adapter API, npu_plugin.get_rdma_cache.
    """
    with npu_scope.npu_mem_type_scope():
        return tf.get_variable(name, shape, data_type, initializer=tf.zeros_initializer())


def set_device_sat_mode(mode: int) -> None:
    """Says what is to become of numbers that overflow. Here they always become infinity.

    Accepted without effect on CPU ranks.

    Args:
        mode: 0 for the largest number, 1 for infinity, 2 for what the device does by itself.

    Raises:
        ValueError: it is something else.

    Source of the contract: CANN TF Adapter API, set_device_sat_mode.
    """
    tf_adapter.SetDeviceSatMode(mode)


def is_inf_nan_enabled() -> bool:
    """Returns whether numbers that overflow become infinity: True.

    Source of the contract: CANN TF Adapter API, npu_plugin.is_inf_nan_enabled.
    """
    return tf_adapter.GetDeviceSatMode() == 1


_DEFAULTS = dict(zip(npu_resource_init.__code__.co_varnames, npu_resource_init.__defaults__ or ()))


def _write(init: Dict[str, str], key: str, value: Any) -> None:
    if value is not None:
        init[key] = value


def _check_is(value: Any, kinds: Any, name: str) -> None:
    if not isinstance(value, kinds):
        words: List[str] = [kind.__name__ for kind in kinds]
        raise ValueError(f"{name} is {value!r}, allowed is a {' or '.join(words)}.")


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name} needs a device whose memory a network card reads and writes (RDMA), which CPU "
        f"ranks do not have. Use hccl_ops.all_to_all_v to move rows of embeddings."
    )

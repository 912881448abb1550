"""The handle of this process's device, and what holds for all of it.

There is no device here: ops run where TensorFlow puts them, on the CPU. The handle says which rank
this is, and lets scripts that ask for a device go on. TensorFlow's own functions are left as they
are: tf.function, tf.py_function and nested functions behave as without this package.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any, Callable, ContextManager, Iterator, Optional

import tensorflow as tf
from tensorflow.python.ops import script_ops

from npu_device._core import device_options, logging, op_arguments, runtime, saturation
from npu_device._core.autograph import unconverted
from npu_device._core.compute import raw_ops
from npu_device._core.job_options import set_cm_chief_worksize_env, set_rank_table_file_env
from npu_device._core.op_arguments import Node
from npu_device.configs.npu_config import NpuConfig
from npu_device.configs.npu_run_context_option import NpuRunContextOptions

__all__ = [
    "NPU",
    "NpuCompatEagerFunc",
    "NpuConfig",
    "NpuDeviceHandle",
    "NpuRunContextOptions",
    "close",
    "enable_v1",
    "gen_npu_ops",
    "get_ranksize",
    "global_npu_ctx",
    "global_options",
    "is_inf_nan_enabled",
    "npu_compat_function",
    "npu_run_context",
    "open",
    "set_cm_chief_worksize_env",
    "set_device_sat_mode",
    "set_npu_loop_size",
    "set_rank_table_file_env",
    "stupid_repeat",
    "watch_op_register",
    "wrap_cpu_only_api",
]

gen_npu_ops = raw_ops.load()

#: The type of device in the original's device names.
NPU = "/job:localhost/replica:0/task:0/device:NPU"

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"

_lock = threading.Lock()
_handle: Optional[NpuDeviceHandle] = None
_options = NpuConfig()


def global_options() -> NpuConfig:
    """Returns the options that the device is opened with, to be set before npu_device.open().

        npu_device.global_options().precision_mode = "allow_mix_precision"

    All are accepted and checked, and none has an effect on CPU ranks, which each one that is set
    says once, at INFO and on rank 0. docs/global-options.md has the list.

    Returns:
        The one object of this process.

    Source of the contract: CANN TF Adapter API, npu.global_options.
    """
    return _options


class NpuDeviceHandle:
    """This process's place in the job.

    Attributes:
        device_id: the logical device that it was opened for.
        workers_num: number of ranks in the job.
        worker_id: this process's rank.

    Source of the contract: CANN TF Adapter API, npu.open.
    """

    def __init__(
        self, ctx: Any, device_id: int, device_options: Any, workers_num: int, worker_id: int
    ) -> None:
        self._ctx = ctx
        self._device_options = device_options
        self.device_id = device_id
        self.workers_num = workers_num
        self.worker_id = worker_id

    def name(self) -> str:
        """Returns the name of the device that ops run on, as tf.device takes it."""
        return _CPU

    def scope(self) -> ContextManager[None]:
        """Returns a context in which ops are placed on that device."""
        return tf.device(self.name())

    def is_cluster_worker(self) -> bool:
        """Returns whether the job has more than one rank."""
        return self.workers_num > 1 and 0 <= self.worker_id < self.workers_num

    def as_default(self) -> NpuDeviceHandle:
        """Makes the device the one that ops run on, which it is. Returns the handle."""
        return self


def open(device_id: Optional[int] = None) -> NpuDeviceHandle:
    """Opens the device of this process. Opening it again returns the same handle.

    Meets no other ranks: the first collective does, and waits until all ranks of the job have come
    to one.

    Args:
        device_id: logical device, 0 or more. By default that of the environment or the rank table
            (ASCEND_DEVICE_ID, DEVICE_ID, DEVICE_INDEX), else 0, or the one that is open.

    Returns:
        The handle.

    Raises:
        RuntimeError: another device is open.
        TypeError: `device_id` is not an integer.
        ValueError: `device_id` is negative, or the environment or rank table is wrong.

    Source of the contract: CANN TF Adapter API, npu.open.
    """
    global _handle
    if device_id is not None:
        device_id = op_arguments.integer(device_id, Node("npu_device", "open"), "device_id", 0)
    with _lock:
        if _handle is None:
            process = runtime.current()
            device = process.description().device if device_id is None else device_id
            options = global_options().as_dict()
            _handle = NpuDeviceHandle(None, device, options, process.size(), process.rank())
            device_options.device_is_open(True)
        elif device_id not in (None, _handle.device_id):
            raise RuntimeError(
                f"npu_device.open({device_id}): device {_handle.device_id} is open in this "
                f"process, which can use one. Call npu_device.npu_device.close() first."
            )
        return _handle


def close() -> None:
    """Closes the device: leaves the job, as a normal exit does. Does nothing if closed.

    Source of the contract: CANN TF Adapter API, npu.close.
    """
    global _handle
    with _lock:
        if _handle is not None:
            _handle = None
            device_options.device_is_open(False)
            runtime.shutdown()


def global_npu_ctx() -> Optional[NpuDeviceHandle]:
    """Returns the handle that is open, or None."""
    return _handle


def get_ranksize() -> int:
    """Returns the number of ranks in the job.

    Raises:
        ValueError: the environment or the rank table is wrong.
    """
    return runtime.size()


def enable_v1() -> None:
    """Switches TensorFlow to version 1 behaviour and makes NpuOptimizer known to its sessions.

    Call it before anything else of TensorFlow, as tf.compat.v1.disable_v2_behavior.

    Source of the contract: CANN TF Adapter API, npu_device.compat.enable_v1.
    """
    tf.compat.v1.disable_v2_behavior()
    raw_ops.load()


@unconverted
def npu_run_context(options: Optional[NpuRunContextOptions] = None) -> ContextManager[None]:
    """Holds options for the functions that a `with` statement calls.

    Accepted without effect on CPU ranks.

    Args:
        options: a npu_device.configs.run_context_options; None for the default ones.

    Raises:
        ValueError: it is something else.

    Source of the contract: CANN TF Adapter API, npu.npu_run_context.
    """
    if options is not None and not isinstance(options, NpuRunContextOptions):
        raise ValueError(
            f"npu_run_context: options is {options!r} of type {type(options).__name__}, allowed is "
            f"a npu_device.configs.run_context_options() or None."
        )
    return _nothing()


def set_npu_loop_size(loop_size: int) -> None:
    """Says how many steps a loop inside a function has, so that a device can fetch their input.

    Accepted without effect on CPU ranks: the loop itself, such as `for _ in tf.range(steps)`,
    decides how many steps it runs.

    Args:
        loop_size: a number of steps, 1 or more.

    Raises:
        TypeError: it is no integer.
        ValueError: it is below 1.

    Source of the contract: CANN TF Adapter API, npu.set_npu_loop_size.
    """
    op_arguments.integer(loop_size, Node("npu_device", "set_npu_loop_size"), "loop_size", 1)
    logging.info_from_rank_0("npu_device.set_npu_loop_size %s.", device_options.NPU_ONLY)


def set_device_sat_mode(mode: int) -> None:
    """Says what is to become of numbers that overflow. Here they always become infinity.

    Accepted without effect on CPU ranks.

    Args:
        mode: 0 for the largest number, 1 for infinity, 2 for what the device does by itself.

    Raises:
        ValueError: it is something else.

    Source of the contract: CANN TF Adapter API, set_device_sat_mode.
    """
    saturation.set_mode(mode)


def is_inf_nan_enabled() -> bool:
    """Returns whether numbers that overflow become infinity: True.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.is_inf_nan_enabled.
    """
    return True


def npu_compat_function(func: Optional[Callable] = None, *args: Any, **kwargs: Any) -> Callable:
    """Makes a tf.function, as a decorator with or without arguments.

    In the original such a function runs eagerly where the device needs that; here never.

    Args:
        func: the Python function; None where the decorator has arguments.
        *args: those of tf.function.
        **kwargs: those of tf.function. XLA is left out (jit_compile, experimental_compile), as by
            the original, which is said once: it compiles no collectives.

    Returns:
        The tf.function, or a decorator that makes it.

    Source of the contract: CANN TF Adapter API, npu.npu_compat_function.
    """
    for name in ("jit_compile", "experimental_compile"):
        if kwargs.get(name):
            kwargs[name] = False
            logging.info_from_rank_0("npu_compat_function leaves out %s=True.", name)

    def decorated(function: Callable) -> Callable:
        return tf.function(function, *args, **kwargs)

    return decorated if func is None else decorated(func)


class NpuCompatEagerFunc(script_ops.EagerFunc):
    """The function that tf.py_function calls. Adds nothing to it: all ops run on the CPU.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.NpuCompatEagerFunc.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)


def wrap_cpu_only_api(func: Callable) -> Callable:
    """Returns a function that places its ops on the CPU, which is where they are. So `func`."""
    return func


def watch_op_register() -> ContextManager[None]:
    """Takes the op libraries that a `with` statement loads for the device's.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.watch_op_register.
    """
    return _nothing()


def stupid_repeat(word: str, times: int) -> None:
    """Logs a word several times, at INFO: the original's test of its native module.

    Args:
        word: the word.
        times: how often.

    Source of the contract: CANN TF Adapter, npu_device.npu_device.stupid_repeat.
    """
    for _ in range(times):
        logging.logger().info("%s", word)


@contextlib.contextmanager
def _nothing() -> Iterator[None]:
    yield


def _after_fork_in_child() -> None:
    global _lock, _handle
    # Another thread may hold the lock, and the handle is the parent's: the child's environment may
    # make it another rank.
    _lock = threading.Lock()
    _handle = None
    device_options.device_is_open(False)


os.register_at_fork(after_in_child=_after_fork_in_child)

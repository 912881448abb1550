"""The handle of this process's device.

There is no device here: ops run where TensorFlow puts them, on the CPU. The handle says which rank
this is, and lets scripts that ask for a device go on.
"""

from __future__ import annotations

import threading
from typing import Any, Callable, ContextManager, Optional

import tensorflow as tf

from npu_device._core import op_arguments, runtime
from npu_device._core.compute import raw_ops
from npu_device._core.op_arguments import Node

__all__ = [
    "NPU",
    "NpuDeviceHandle",
    "close",
    "gen_npu_ops",
    "get_ranksize",
    "global_npu_ctx",
    "npu_compat_function",
    "open",
    "wrap_cpu_only_api",
]

gen_npu_ops = raw_ops.load()

#: The type of device in the original's device names.
NPU = "/job:localhost/replica:0/task:0/device:NPU"

_CPU = "/job:localhost/replica:0/task:0/device:CPU:0"

_lock = threading.Lock()
_handle: Optional[NpuDeviceHandle] = None


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
            _handle = NpuDeviceHandle(None, device, {}, process.size(), process.rank())
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


def npu_compat_function(func: Optional[Callable] = None, *args: Any, **kwargs: Any) -> Callable:
    """Makes a tf.function, as a decorator with or without arguments.

    In the original such a function runs eagerly where the device needs that; here never.

    Args:
        func: the Python function; None where the decorator has arguments.
        *args: those of tf.function.
        **kwargs: those of tf.function.

    Returns:
        The tf.function, or a decorator that makes it.

    Source of the contract: CANN TF Adapter API, npu.npu_compat_function.
    """
    if func is None:
        return lambda function: npu_compat_function(function, *args, **kwargs)
    return tf.function(func, *args, **kwargs)


def wrap_cpu_only_api(func: Callable) -> Callable:
    """Returns a function that places its ops on the CPU, which is where they are. So `func`."""
    return func

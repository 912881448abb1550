"""Start and end of the collective runtime, as ops of a TensorFlow graph."""

from __future__ import annotations

from typing import Optional

import tensorflow.compat.v1 as tf

from npu_bridge.helper import helper

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "NPUInit",
    "NPUShutdown",
    "gen_npu_ops",
    "helper",
    "initialize_system",
    "shutdown_system",
]

gen_npu_ops = helper.get_gen_ops()

#: The seed that TensorFlow uses for the graph where a script sets only that of an op.
DEFAULT_GRAPH_SEED = 87654321


def NPUInit(name: Optional[str] = None) -> Optional[tf.Operation]:
    """Makes the op of `initialize_system`.

    Args:
        name: the op's name.

    Returns:
        See `initialize_system`.

    Source of the contract: CANN TF Adapter API, npu_ops.NPUInit.
    """
    return gen_npu_ops.npu_init(name=name)


def NPUShutdown(name: Optional[str] = None) -> Optional[tf.Operation]:
    """Makes the op of `shutdown_system`.

    Args:
        name: the op's name.

    Returns:
        See `shutdown_system`.

    Source of the contract: CANN TF Adapter API, npu_ops.NPUShutdown.
    """
    return gen_npu_ops.npu_shutdown(name=name)


def initialize_system(name: Optional[str] = None) -> Optional[tf.Operation]:
    """Meets the other ranks of the job.

    Running it waits until all ranks are there, at most HCCL_CONNECT_TIMEOUT seconds. It need not be
    run: the first collective meets them too.

    Args:
        name: the op's name.

    Returns:
        The op, for a session to run; None eagerly, where it has been done.

    Raises:
        tf.errors.DeadlineExceededError: (when it runs) ranks are missing; names them.

    Source of the contract: CANN TF Adapter API, npu_ops.initialize_system.
    """
    return NPUInit(name)


def shutdown_system(name: Optional[str] = None) -> Optional[tf.Operation]:
    """Leaves the job, for the other ranks like a normal exit, and forgets all groups.

    `initialize_system`, or a collective, may meet the other ranks anew afterwards.

    Args:
        name: the op's name.

    Returns:
        The op, for a session to run; None eagerly, where it has been done.

    Source of the contract: CANN TF Adapter API, npu_ops.shutdown_system.
    """
    return NPUShutdown(name)

"""A Keras callback that lets all ranks begin with the weights of one."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import util as util_lib
from npu_bridge.hccl import hccl_ops
from npu_device._core import broadcast_callback, model_broadcast

__all__ = [
    "BroadcastGlobalVariablesCallbackImpl",
    "NPUBroadcastGlobalVariablesCallback",
    "broadcast_global_variables",
    "hccl_ops",
    "util_lib",
]


def broadcast_global_variables(root_rank: int) -> Any:
    """Makes the op that gives all global variables of the graph the root's values.

    Run it after they are initialized on all ranks.

    Args:
        root_rank: the rank whose values the others get.

    Returns:
        The op, for a session to run.

    Raises:
        RuntimeError: eager execution is on, where there are no global variables.

    Source of the contract: CANN TF Adapter API, npu_callbacks.broadcast_global_variables.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "broadcast_global_variables needs a TensorFlow 1 graph: eagerly there are no global "
            "variables. Pass NPUBroadcastGlobalVariablesCallback to fit, or the variables to "
            "npu_device.distribute.broadcast."
        )
    return model_broadcast.broadcast(tf.global_variables(), root_rank)


class BroadcastGlobalVariablesCallbackImpl(broadcast_callback.BroadcastOnce):
    """What the callback does, apart from being one of Keras.

    Before the first batch, or after it if the model has no weights before, it broadcasts the
    model's weights, what batch normalization keeps, and the optimizer's variables: slots,
    iterations and learning rate.

    Args:
        root_rank: the rank whose values the others get.
        *args: of the next class.

    Source of the contract: CANN TF Adapter API, npu_callbacks.
    """


class NPUBroadcastGlobalVariablesCallback(
    BroadcastGlobalVariablesCallbackImpl,
    tf.keras.callbacks.Callback,
):
    """A Keras callback that lets all ranks begin with the weights of one.

    Pass it to fit on every rank, among the first callbacks. It works once.

    Args:
        root_rank: the rank whose values the others get.

    Source of the contract: CANN TF Adapter API, NPUBroadcastGlobalVariablesCallback constructor.
    """

    def __init__(self, root_rank: int):
        super().__init__(root_rank)

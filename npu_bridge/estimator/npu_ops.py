"""Start and end of the collective runtime, and ops that compute on one rank.

The latter are made of TensorFlow's own ops, see npu_device._core.compute: they run in graphs and
eagerly, and TensorFlow differentiates them. The functions that end in _grad are what the published
package registers as gradients. They are here for scripts that register them, or call them, for
ops of the same types and inputs.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.npu_common import NPUBasics
from npu_bridge.helper import helper
from npu_device._core.compute import dropout as dropout_ops
from npu_device._core.compute import lstm, refused
from npu_device._core.compute.clustering import k_means_centroids
from npu_device._core.compute.indexing import scatter_elements
from npu_device._core.compute.lars import lars as LARS
from npu_device._core.compute.lars import lars_v2 as LARSV2
from npu_device._core.compute.op_gradients import (
    basic_lstm_cell_grad,
    dynamic_augru_grad,
    dynamic_gru_v2_grad,
    dynamic_rnn_grad,
    dynamic_rnn_v2_grad,
)
from npu_device._core.compute.optimizer_steps import (
    adam_apply_one_assign,
    adam_apply_one_with_decay_assign,
)

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "LARS",
    "LARSV2",
    "NPUBasics",
    "NPUInit",
    "NPUShutdown",
    "adam_apply_one_assign",
    "adam_apply_one_with_decay_assign",
    "basic_lstm_cell",
    "basic_lstm_cell_grad",
    "channel_get_next",
    "dropout",
    "dynamic_augru_grad",
    "dynamic_gru_v2_grad",
    "dynamic_rnn_grad",
    "dynamic_rnn_v2_grad",
    "gen_npu_ops",
    "helper",
    "initialize_system",
    "k_means_centroids",
    "npu_onnx_graph_op",
    "outfeed_dequeue_op",
    "outfeed_enqueue_op",
    "scatter_elements",
    "shutdown_system",
    "stop_outfeed_dequeue_op",
]

gen_npu_ops = helper.get_gen_ops()

#: The seed that TensorFlow uses for the graph where a script sets only that of an op.
DEFAULT_GRAPH_SEED = dropout_ops.DEFAULT_GRAPH_SEED


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


def outfeed_dequeue_op(
    channel_name: str, output_types: Any, output_shapes: Any, name: Optional[str] = None
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_ops.outfeed_dequeue_op.
    """
    raise refused.error("outfeed_dequeue_op")


def outfeed_enqueue_op(channel_name: str, inputs: Any, name: Optional[str] = None) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_ops.outfeed_enqueue_op.
    """
    raise refused.error("outfeed_enqueue_op")


def stop_outfeed_dequeue_op(channel_name: str, name: Optional[str] = None) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_ops.stop_outfeed_dequeue_op.
    """
    raise refused.error("stop_outfeed_dequeue_op")


def dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Sets elements to 0 at random and divides the others by keep_prob.

    Args:
        x: a floating-point tensor of any shape.
        keep_prob: the probability that an element is kept: a number in (0, 1], or a tensor with
            one. For the number 1, x itself comes back.
        noise_shape: the mask's shape, which broadcasts to x's: elements that share one of the
            mask's are kept or dropped together. None, or a None in it, stands for x's size.
        seed: the op's seed; acts with the graph's like those of TensorFlow's own random ops.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: x does not hold floating-point numbers, keep_prob is not in (0, 1], or
            noise_shape does not broadcast to x's shape.

    Source of the contract: CANN TF Adapter API, npu_ops.dropout.
    """
    return dropout_ops.dropout(x, keep_prob, noise_shape, seed, name, op="npu_ops.dropout")


def basic_lstm_cell(
    x: Any,
    h: Any,
    c: Any,
    w: Any,
    b: Any,
    keep_prob: float,
    forget_bias: float,
    state_is_tuple: bool,
    activation: str,
    name: Optional[str] = None,
) -> lstm.BasicLSTMCell:
    """Computes one step of an LSTM.

    i, j, f, o = split([x, h] w + b); ct = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j);
    ht = sigmoid(o) tanh(ct).

    Args:
        x: the input, [batch, input_size], floating point.
        h: the hidden state, [batch, hidden_size], of x's dtype.
        c: the cell state, like h.
        w: the weights, [input_size + hidden_size, 4 * hidden_size], of x's dtype.
        b: the biases, [4 * hidden_size], of x's dtype.
        keep_prob: must be 1.
        forget_bias: is added to f.
        state_is_tuple: must be True.
        activation: must be "tanh".
        name: a name for the results.

    Returns:
        (ct, ht, it, jt, ft, ot, tanhct): both states, the four gates after their activation
        functions, and tanh(ct).

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_ops.basic_lstm_cell.
    """
    return lstm.basic_lstm_cell(
        x, h, c, w, b, keep_prob, forget_bias, state_is_tuple, activation, name
    )


def npu_onnx_graph_op(inputs: Any, tout: Any, model_path: str, name: Optional[str] = None) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_ops.npu_onnx_graph_op.
    """
    raise refused.error("npu_onnx_graph_op")


def channel_get_next(channel_name: str, output_types: Any, output_shapes: Any) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_ops.channel_get_next.
    """
    raise refused.error("channel_get_next")

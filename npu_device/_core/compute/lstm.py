"""LSTM: one step, and over sequences. See recurrent.py for layout and lengths."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import dimension, floating, rank, widened
from npu_device._core.compute.recurrent import (
    UNIDIRECTIONAL,
    alike,
    check_attributes,
    finished,
    first_state,
    over_time,
    project,
    sequence,
)


class BasicLSTMCell(NamedTuple):
    """What basic_lstm_cell returns, each [batch, hidden_size]."""

    ct: tf.Tensor
    ht: tf.Tensor
    it: tf.Tensor
    jt: tf.Tensor
    ft: tf.Tensor
    ot: tf.Tensor
    tanhct: tf.Tensor


class DynamicRnn(NamedTuple):
    """What dynamic_rnn returns, each [num_step, batch, hidden_size]."""

    y: tf.Tensor
    output_h: tf.Tensor
    output_c: tf.Tensor
    i: tf.Tensor
    j: tf.Tensor
    f: tf.Tensor
    o: tf.Tensor
    tanhc: tf.Tensor


def basic_lstm_cell(
    x: Any,
    h: Any,
    c: Any,
    w: Any,
    b: Any,
    keep_prob: float = 1.0,
    forget_bias: float = 1.0,
    state_is_tuple: bool = True,
    activation: str = "tanh",
    name: Optional[str] = None,
) -> BasicLSTMCell:
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
        state_is_tuple: must be True; says that h and c are two tensors, as they are here.
        activation: must be "tanh".
        name: a name for the results.

    Returns:
        (ct, ht, it, jt, ft, ot, tanhct): both states, the four gates after their activation
        functions, and tanh(ct).

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_ops.basic_lstm_cell; op BasicLSTMCell.
    """
    op = "basic_lstm_cell"
    check_attributes(op, UNIDIRECTIONAL, keep_prob=keep_prob, activation=activation)
    if not state_is_tuple:
        raise ValueError(f"{op}: state_is_tuple must be True: h and c are two arguments")
    x = floating(op, "x", x)
    rank(op, "x", x, 2, "[batch, input_size]")
    h, c, w, b = (alike(op, what, value, x) for what, value in zip("hcwb", (h, c, w, b)))
    hidden = _check_lstm(op, x, w, b)
    for what, state in (("h", h), ("c", c)):
        rank(op, what, state, 2, "[batch, hidden_size]")
        dimension(op, what, state, 1, hidden)
    with tf.name_scope(name, op, [x, h, c, w, b]):
        gates = tf.matmul(tf.concat([widened(x), widened(h)], axis=1), widened(w)) + widened(b)
        cell = _lstm_cell(gates, widened(c), forget_bias)
        return BasicLSTMCell(*[tf.cast(one, x.dtype.base_dtype) for one in cell])


def dynamic_rnn(
    x: Any,
    w: Any,
    b: Any,
    seq_length: Any,
    init_h: Any,
    init_c: Any,
    cell_type: str = "LSTM",
    direction: str = UNIDIRECTIONAL,
    cell_depth: int = 1,
    use_peephole: bool = False,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    activation: str = "tanh",
    forget_bias: float = 0.0,
    is_training: bool = True,
    name: Optional[str] = None,
) -> DynamicRnn:
    """Runs an LSTM over sequences; see `basic_lstm_cell` for its step.

    Args:
        x: the input, [num_step, batch, input_size], floating point.
        w: the weights, [input_size + hidden_size, 4 * hidden_size], of x's dtype.
        b: the biases, [4 * hidden_size], of x's dtype.
        seq_length: the number of steps of each sequence, int32 [batch]; None for all.
        init_h: the first hidden state, [1, batch, hidden_size] or [batch, hidden_size]; None for 0.
        init_c: the first cell state, like init_h.
        cell_type: see `check_attributes`, like the other attributes.
        direction: UNIDIRECTIONAL or REDIRECTIONAL.
        cell_depth: must be 1.
        use_peephole: must be False.
        keep_prob: must be 1.
        cell_clip: must be below 0.
        num_proj: must be 0.
        time_major: must be True.
        activation: must be "tanh".
        forget_bias: is added to the forget gate before its activation function.
        is_training: changes nothing: all results are there either way.
        name: a name for the results.

    Returns:
        (y, output_h, output_c, i, j, f, o, tanhc), of x's dtype.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicRNN; op DynamicRnn.
    """
    del is_training
    op = "dynamic_rnn"
    check_attributes(op, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
                     activation, cell_type, use_peephole)  # fmt: skip
    x = sequence(op, x)
    w, b = alike(op, "w", w, x), alike(op, "b", b, x)
    hidden = _check_lstm(op, x, w, b)
    with tf.name_scope(name, op, [x, w, b]):
        h = first_state(op, "init_h", init_h, x, hidden)
        c = first_state(op, "init_c", init_c, x, hidden)
        wide = widened(w)
        inputs = x.shape.as_list()[2]
        from_x, from_h = wide[:inputs], wide[inputs:]
        projected = project(widened(x), from_x) + widened(b)

        def step(states: Sequence[tf.Tensor], gates: tf.Tensor, _: Any) -> Any:
            gates += tf.matmul(states[0], from_h)
            c, h, i, j, f, o, tanhc = _lstm_cell(gates, states[1], forget_bias)
            return [h, c], [i, j, f, o, tanhc]

        y, states, extras = over_time(op, step, projected, None, [h, c], 5, seq_length, direction)
        return DynamicRnn(*finished([y, *states, *extras], x))


def dynamic_rnn_v2(
    x: Any, w: Any, b: Any, init_h: Any, init_c: Any, *args: Any, **kwargs: Any
) -> DynamicRnn:
    """Runs an LSTM over sequences of full length: `dynamic_rnn` without seq_length.

    Args:
        x: see `dynamic_rnn`, like all others.
        w: the weights.
        b: the biases.
        init_h: the first hidden state.
        init_c: the first cell state.
        *args: attributes.
        **kwargs: attributes.

    Returns:
        See `dynamic_rnn`.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, op DynamicRnnV2.
    """
    return dynamic_rnn(x, w, b, None, init_h, init_c, *args, **kwargs)


def _lstm_cell(gates: tf.Tensor, c: tf.Tensor, forget_bias: float) -> Any:
    i, j, f, o = tf.split(gates, 4, axis=-1)
    i, j, f, o = tf.sigmoid(i), tf.tanh(j), tf.sigmoid(f + forget_bias), tf.sigmoid(o)
    c = f * c + i * j
    tanhc = tf.tanh(c)
    return c, o * tanhc, i, j, f, o, tanhc


def _check_lstm(op: str, x: tf.Tensor, w: tf.Tensor, b: tf.Tensor) -> int:
    """Checks weights and biases, and returns the hidden size."""
    rank(op, "w", w, 2, "[input_size + hidden_size, 4 * hidden_size]")
    rank(op, "b", b, 1, "[4 * hidden_size]")
    columns = w.shape.as_list()[1]
    inputs = x.shape.as_list()[-1]
    if columns is None or inputs is None:
        raise ValueError(f"{op}: the sizes of w and x's last dimension must be known")
    if columns % 4:
        raise ValueError(
            f"{op}: w's second dimension must be 4 * hidden_size, "
            f"got shape {tuple(w.shape.as_list())}"
        )
    hidden = columns // 4
    dimension(op, "w", w, 0, inputs + hidden)
    dimension(op, "b", b, 0, columns)
    return hidden

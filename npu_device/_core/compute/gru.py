"""GRU, and GRU with an attentional update gate (AUGRU), over sequences.

See recurrent.py for layout and lengths.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import dimension, rank, widened
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


class DynamicGruV2(NamedTuple):
    """What dynamic_gru_v2 returns, each [num_step, batch, hidden_size]."""

    y: tf.Tensor
    output_h: tf.Tensor
    update: tf.Tensor
    reset: tf.Tensor
    new: tf.Tensor
    hidden_new: tf.Tensor


class DynamicAUGRU(NamedTuple):
    """What dynamic_augru returns, each [num_step, batch, hidden_size]."""

    y: tf.Tensor
    output_h: tf.Tensor
    update: tf.Tensor
    update_att: tf.Tensor
    reset: tf.Tensor
    new: tf.Tensor
    hidden_new: tf.Tensor


def dynamic_gru_v2(
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str = UNIDIRECTIONAL,
    cell_depth: int = 1,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    activation: str = "tanh",
    gate_order: str = "zrh",
    reset_after: bool = True,
    is_training: bool = True,
    name: Optional[str] = None,
) -> DynamicGruV2:
    """Runs a GRU over sequences.

    z = sigmoid(x Wz + bz + h Uz + cz); r likewise; hidden_new = h Uh + ch (or (r h) Uh + ch
    without reset_after); n = tanh(x Wh + bh + r hidden_new) (without the factor r, then);
    h = (1 - z) n + z h.

    Args:
        x: the input, [num_step, batch, input_size], floating point.
        weight_input: W, [input_size, 3 * hidden_size], of x's dtype.
        weight_hidden: U, [hidden_size, 3 * hidden_size], of x's dtype.
        bias_input: b, [3 * hidden_size], of x's dtype; None for 0.
        bias_hidden: c, like bias_input.
        seq_length: the number of steps of each sequence, int32 [batch]; None for all.
        init_h: the first state, [batch, hidden_size] or [1, batch, hidden_size]; None for 0.
        direction: UNIDIRECTIONAL or REDIRECTIONAL.
        cell_depth: see `check_attributes`, like the other attributes.
        keep_prob: must be 1.
        cell_clip: must be below 0.
        num_proj: must be 0.
        time_major: must be True.
        activation: must be "tanh".
        gate_order: how the gates lie in weights and biases: "zrh" or "rzh".
        reset_after: apply the reset gate after the multiplication by U.
        is_training: changes nothing: all results are there either way.
        name: a name for the results.

    Returns:
        (y, output_h, update z, reset r, new n, hidden_new), of x's dtype.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicGRUV2; op DynamicGruV2.
    """
    del is_training
    op = "dynamic_gru_v2"
    check_attributes(op, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
                     activation, gate_order=gate_order)  # fmt: skip
    with tf.name_scope(name, op):
        return DynamicGruV2(*_gru(op, x, weight_input, weight_hidden, None, bias_input, bias_hidden,
                                  seq_length, init_h, direction, gate_order,
                                  reset_after))  # fmt: skip


def dynamic_augru(
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    weight_att: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str = UNIDIRECTIONAL,
    cell_depth: int = 1,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    activation: str = "tanh",
    gate_order: str = "zrh",
    reset_after: bool = True,
    is_training: bool = True,
    name: Optional[str] = None,
) -> DynamicAUGRU:
    """Runs a GRU whose update gate is scaled by attention: z of the GRU becomes (1 - a) z.

    Args:
        x: see `dynamic_gru_v2`, like the other arguments.
        weight_input: W.
        weight_hidden: U.
        weight_att: the attention a of each step, [num_step, batch], of x's dtype.
        bias_input: b.
        bias_hidden: c.
        seq_length: the number of steps of each sequence.
        init_h: the first state.
        direction: UNIDIRECTIONAL or REDIRECTIONAL.
        cell_depth: must be 1.
        keep_prob: must be 1.
        cell_clip: must be below 0.
        num_proj: must be 0.
        time_major: must be True.
        activation: must be "tanh".
        gate_order: "zrh" or "rzh".
        reset_after: apply the reset gate after the multiplication by U.
        is_training: changes nothing.
        name: a name for the results.

    Returns:
        (y, output_h, update z, update_att (1 - a) z, reset, new, hidden_new), of x's dtype.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicAUGRU; op DynamicAUGRU.
    """
    del is_training
    op = "dynamic_augru"
    check_attributes(op, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
                     activation, gate_order=gate_order)  # fmt: skip
    with tf.name_scope(name, op):
        return DynamicAUGRU(*_gru(op, x, weight_input, weight_hidden, weight_att, bias_input,
                                  bias_hidden, seq_length, init_h, direction, gate_order,
                                  reset_after))  # fmt: skip


def _gru(
    op: str,
    x: Any,
    weight_input: Any,
    weight_hidden: Any,
    attention: Any,
    bias_input: Any,
    bias_hidden: Any,
    seq_length: Any,
    init_h: Any,
    direction: str,
    gate_order: str,
    reset_after: bool,
) -> List[tf.Tensor]:
    x = sequence(op, x)
    w = alike(op, "weight_input", weight_input, x)
    u = alike(op, "weight_hidden", weight_hidden, x)
    rank(op, "weight_input", w, 2, "[input_size, 3 * hidden_size]")
    rank(op, "weight_hidden", u, 2, "[hidden_size, 3 * hidden_size]")
    hidden = u.shape.as_list()[0]
    if hidden is None:
        raise ValueError(f"{op}: weight_hidden's first dimension must be known")
    dimension(op, "weight_hidden", u, 1, 3 * hidden)
    dimension(op, "weight_input", w, 0, x.shape.as_list()[2])
    dimension(op, "weight_input", w, 1, 3 * hidden)
    biases = []
    for what, value in (("bias_input", bias_input), ("bias_hidden", bias_hidden)):
        bias = tf.zeros([3 * hidden], x.dtype.base_dtype) if value is None else value
        bias = alike(op, what, bias, x)
        rank(op, what, bias, 1, "[3 * hidden_size]")
        dimension(op, what, bias, 0, 3 * hidden)
        biases.append(widened(bias))
    if attention is not None:
        attention = alike(op, "weight_att", attention, x)
        rank(op, "weight_att", attention, 2, "[num_step, batch]")
        for axis in (0, 1):
            dimension(op, "weight_att", attention, axis, x.shape.as_list()[axis])
        attention = widened(attention)[..., tf.newaxis]
    h = first_state(op, "init_h", init_h, x, hidden)
    projected = project(widened(x), widened(w)) + biases[0]
    u, bias_hidden = widened(u), biases[1]

    def by_gate(joined: tf.Tensor) -> Any:
        first, second, candidate = tf.split(joined, 3, axis=-1)
        return (first, second, candidate) if gate_order == "zrh" else (second, first, candidate)

    u_gates, u_new = u[:, : 2 * hidden], u[:, 2 * hidden :]
    bias_gates, bias_new = bias_hidden[: 2 * hidden], bias_hidden[2 * hidden :]

    def step(states: Sequence[tf.Tensor], from_x: tf.Tensor, att: Any) -> Any:
        (h,) = states
        x_update, x_reset, x_new = by_gate(from_x)
        both = tf.matmul(h, u_gates) + bias_gates
        first, second = tf.split(both, 2, axis=-1)
        h_update, h_reset = (first, second) if gate_order == "zrh" else (second, first)
        update, reset = tf.sigmoid(x_update + h_update), tf.sigmoid(x_reset + h_reset)
        if reset_after:
            hidden_new = tf.matmul(h, u_new) + bias_new
            new = tf.tanh(x_new + reset * hidden_new)
        else:
            hidden_new = tf.matmul(reset * h, u_new) + bias_new
            new = tf.tanh(x_new + hidden_new)
        kept = update if att is None else (1.0 - att) * update
        gates = [update, reset] if att is None else [update, kept, reset]
        return [(1.0 - kept) * new + kept * h], [*gates, new, hidden_new]

    extras = 4 if attention is None else 5
    y, states, rest = over_time(op, step, projected, attention, [h], extras, seq_length, direction)
    return finished([y, *states, *rest], x)

"""Gradients of the recurrent ops, from what the ops take and from the gradients of their results.

TensorFlow differentiates what recurrent.py makes by itself. These are for scripts that call the
published gradient functions, or the gradient ops by their raw names.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute import gru, lstm, recurrent
from npu_device._core.compute.arguments import floating, vector_jacobian


class DynamicRnnGrad(NamedTuple):
    """What dynamic_rnn_grad returns."""

    dw: tf.Tensor
    db: tf.Tensor
    dx: tf.Tensor
    dh_prev: tf.Tensor
    dc_prev: tf.Tensor


def basic_lstm_cell(
    inputs: Sequence[Any], gradients: Sequence[Any], forget_bias: float
) -> List[tf.Tensor]:
    """Returns the gradients of x, h, c, w and b of lstm.basic_lstm_cell.

    Args:
        inputs: x, h, c, w and b.
        gradients: those of its seven results; None stands for zeros.
        forget_bias: its argument.

    Returns:
        One for each input.
    """

    def function(x: Any, h: Any, c: Any, w: Any, b: Any) -> Any:
        return lstm.basic_lstm_cell(x, h, c, w, b, forget_bias=forget_bias)

    return vector_jacobian(function, _floats(inputs), gradients)


def dynamic_rnn(
    inputs: Sequence[Any], seq_length: Any, gradients: Sequence[Any], **attributes: Any
) -> List[tf.Tensor]:
    """Returns the gradients of x, w, b, init_h and init_c of lstm.dynamic_rnn.

    Args:
        inputs: x, w, b, init_h and init_c.
        seq_length: its argument.
        gradients: those of its eight results; None stands for zeros.
        **attributes: its other arguments.

    Returns:
        One for each input.
    """

    def function(x: Any, w: Any, b: Any, init_h: Any, init_c: Any) -> Any:
        return lstm.dynamic_rnn(x, w, b, seq_length, init_h, init_c, **attributes)

    return vector_jacobian(function, _floats(inputs), gradients)


def dynamic_gru_v2(
    inputs: Sequence[Any], seq_length: Any, gradients: Sequence[Any], **attributes: Any
) -> List[tf.Tensor]:
    """Returns the gradients of gru.dynamic_gru_v2, without that of seq_length.

    Args:
        inputs: x, weight_input, weight_hidden, bias_input, bias_hidden and init_h.
        seq_length: its argument.
        gradients: those of its six results; None stands for zeros.
        **attributes: its other arguments.

    Returns:
        One for each input.
    """

    def function(x: Any, w: Any, u: Any, b: Any, c: Any, init_h: Any) -> Any:
        return gru.dynamic_gru_v2(x, w, u, b, c, seq_length, init_h, **attributes)

    return vector_jacobian(function, _floats(inputs), gradients)


def dynamic_augru(
    inputs: Sequence[Any], seq_length: Any, gradients: Sequence[Any], **attributes: Any
) -> List[tf.Tensor]:
    """Returns the gradients of gru.dynamic_augru, without that of seq_length.

    Args:
        inputs: x, weight_input, weight_hidden, weight_att, bias_input, bias_hidden and init_h.
        seq_length: its argument.
        gradients: those of its seven results; None stands for zeros.
        **attributes: its other arguments.

    Returns:
        One for each input.
    """

    def function(x: Any, w: Any, u: Any, a: Any, b: Any, c: Any, init_h: Any) -> Any:
        return gru.dynamic_augru(x, w, u, a, b, c, seq_length, init_h, **attributes)

    return vector_jacobian(function, _floats(inputs), gradients)


def dynamic_rnn_grad(
    x: Any,
    w: Any,
    b: Any,
    y: Any,
    init_h: Any,
    init_c: Any,
    h: Any,
    c: Any,
    dy: Any,
    dh: Any,
    dc: Any,
    i: Any,
    j: Any,
    f: Any,
    o: Any,
    tanhc: Any,
    cell_type: str = "LSTM",
    direction: str = recurrent.UNIDIRECTIONAL,
    cell_depth: int = 1,
    use_peephole: bool = False,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    forget_bias: float = 0.0,
    name: Optional[str] = None,
) -> DynamicRnnGrad:
    """The gradient op of DynamicRnn, for sequences of full length.

    Args:
        x: the argument of lstm.dynamic_rnn, like w and b.
        w: the weights.
        b: the biases.
        y: not needed: it is computed again, like h, c, i, j, f, o and tanhc.
        init_h: the first hidden state, [batch, hidden_size] or [1, batch, hidden_size].
        init_c: the first cell state.
        h: not needed.
        c: not needed.
        dy: the gradient of y, [num_step, batch, hidden_size].
        dh: the gradient of the last hidden state, [batch, hidden_size].
        dc: the gradient of the last cell state, [batch, hidden_size].
        i: not needed.
        j: not needed.
        f: not needed.
        o: not needed.
        tanhc: not needed.
        cell_type: see recurrent.check_attributes, like the other attributes.
        direction: UNIDIRECTIONAL or REDIRECTIONAL.
        cell_depth: must be 1.
        use_peephole: must be False.
        keep_prob: must be 1.
        cell_clip: must be below 0.
        num_proj: must be 0.
        time_major: must be True.
        forget_bias: the argument of lstm.dynamic_rnn.
        name: a name for the gradients.

    Returns:
        (dw, db, dx, dh_prev, dc_prev).

    Source of the contract: CANN TF Adapter API, op DynamicRnnGrad.
    """
    del y, h, c, i, j, f, o, tanhc
    with tf.name_scope(name, "dynamic_rnn_grad"):
        steps = tf.shape(tf.convert_to_tensor(x))[0]
        dx, dw, db, dh_prev, dc_prev = dynamic_rnn(
            [x, w, b, init_h, init_c], None,
            [dy, _at_end(dh, steps, direction), _at_end(dc, steps, direction), *[None] * 5],
            cell_type=cell_type, direction=direction, cell_depth=cell_depth,
            use_peephole=use_peephole, keep_prob=keep_prob, cell_clip=cell_clip,
            num_proj=num_proj, time_major=time_major, forget_bias=forget_bias,
        )  # fmt: skip
        return DynamicRnnGrad(dw, db, dx, dh_prev, dc_prev)


def _at_end(gradient: Any, steps: tf.Tensor, direction: str) -> tf.Tensor:
    """Places the gradient of a last state among zeros for the other steps."""
    gradient = tf.convert_to_tensor(gradient)
    if gradient.shape.ndims == 2:
        gradient = gradient[tf.newaxis]
    others = [steps - 1, 0] if direction != recurrent.REDIRECTIONAL else [0, steps - 1]
    return tf.pad(gradient, [others, [0, 0], [0, 0]])


def _floats(inputs: Sequence[Any]) -> List[tf.Tensor]:
    return [floating("gradient", f"input {i}", one) for i, one in enumerate(inputs)]

"""What the recurrent ops share: their attributes, states, and the way over time.

Weights are laid out as on the NPU: the gates lie side by side in the last dimension, i j f o for
the LSTM (input, candidate, forget, output), and z r h or r z h for the GRU (update, reset,
candidate). float16 and bfloat16 are computed in float32 and rounded once.

Where seq_length is given, a sequence's later steps change nothing: the states stay, and y is 0.
"""

from __future__ import annotations

import numbers
from typing import Any, Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import (
    dimension,
    floating,
    one_of,
    rank,
    same_dtype,
    select,
    static_shape,
    tensor,
    widened,
)

UNIDIRECTIONAL = "UNIDIRECTIONAL"
BIDIRECTIONAL = "BIDIRECTIONAL"
REDIRECTIONAL = "REDIRECTIONAL"
GATE_ORDERS = ("zrh", "rzh")


def check_attributes(
    op: str,
    direction: str,
    cell_depth: int = 1,
    keep_prob: float = 1.0,
    cell_clip: float = -1.0,
    num_proj: int = 0,
    time_major: bool = True,
    activation: str = "tanh",
    cell_type: str = "LSTM",
    use_peephole: bool = False,
    gate_order: str = "zrh",
) -> None:
    """Checks what the ops publish as attributes and compute for one value only.

    Args:
        op: what error texts call it.
        direction: UNIDIRECTIONAL, or REDIRECTIONAL to go from the last step to the first.
        cell_depth: must be 1.
        keep_prob: must be 1.
        cell_clip: must be below 0, which means no clipping.
        num_proj: must be 0.
        time_major: must be True.
        activation: must be "tanh".
        cell_type: must be "LSTM".
        use_peephole: must be False.
        gate_order: "zrh" or "rzh".

    Raises:
        ValueError: one of them is something else; says what to do.
    """
    if direction == BIDIRECTIONAL:
        raise ValueError(
            f"{op}: direction {BIDIRECTIONAL} is not supported, as in the published API. Use two "
            f"layers, one of them with {REDIRECTIONAL}, and tf.concat their results."
        )
    one_of(op, "direction", direction, (UNIDIRECTIONAL, REDIRECTIONAL))
    one_of(op, "cell_type", cell_type, ("LSTM",))
    one_of(op, "activation", activation, ("tanh",))
    one_of(op, "gate_order", gate_order, GATE_ORDERS)
    for what, value, wanted, instead in (
        ("cell_depth", cell_depth, 1, "Use a layer for each level"),
        ("use_peephole", use_peephole, False, "There are no peephole weights"),
        ("keep_prob", keep_prob, 1, "Apply npu_ops.dropout to the input or the result"),
        ("num_proj", num_proj, 0, "Multiply the result by a matrix"),
        ("time_major", time_major, True, "Use tf.transpose(x, [1, 0, 2])"),
    ):
        if value != wanted:
            raise ValueError(f"{op}: {what} must be {wanted}, got {value!r}. {instead}.")
    if not isinstance(cell_clip, numbers.Real) or not cell_clip < 0:
        raise ValueError(f"{op}: cell_clip must be below 0 (no clipping), got {cell_clip!r}")


def over_time(
    op: str,
    step: Callable[..., Any],
    projected: tf.Tensor,
    attention: Optional[tf.Tensor],
    states: List[tf.Tensor],
    extras: int,
    seq_length: Any,
    direction: str,
) -> Any:
    """Runs a step over time.

    Returns:
        y, the states and the other results, each [num_step, batch, hidden_size], in x's order.
    """
    steps, batch = static_shape(projected)[:2]
    elements = {"x": projected}
    if attention is not None:
        elements["attention"] = attention
    if seq_length is not None:
        lengths = tf.cast(tensor(op, "seq_length", seq_length), tf.int32)
        rank(op, "seq_length", lengths, 1, "[batch]")
        dimension(op, "seq_length", lengths, 0, projected.shape.as_list()[1])
        elements["there"] = tf.range(steps)[:, tf.newaxis] < tf.reshape(lengths, [1, batch])
    names = sorted(elements)
    number = len(states)

    def one(previous: Any, current: Any) -> Any:
        now = dict(zip(names, current))
        before = list(previous[1 : 1 + number])
        after, rest = step(before, now["x"], now.get("attention"))
        y = after[0]
        if "there" in now:
            there = now["there"][:, tf.newaxis]
            after = [select(there, a, b) for a, b in zip(after, before)]
            y = select(there, y, tf.zeros_like(y))
        return (y, *after, *rest)

    nothing = tf.zeros_like(states[0])
    results = tf.scan(
        one,
        tuple(elements[name] for name in names),
        initializer=(nothing, *states, *[nothing] * extras),
        reverse=direction == REDIRECTIONAL,
    )
    return results[0], list(results[1 : 1 + number]), list(results[1 + number :])


def finished(results: Sequence[tf.Tensor], x: tf.Tensor) -> List[tf.Tensor]:
    finished = []
    for one in results:
        one.set_shape([*x.shape.as_list()[:2], one.shape.as_list()[-1]])
        finished.append(tf.cast(one, x.dtype.base_dtype))
    return finished


def project(x: tf.Tensor, w: tf.Tensor) -> tf.Tensor:
    """Multiplies all steps by a matrix at once."""
    steps, batch, inputs = static_shape(x)
    flat = tf.matmul(tf.reshape(x, [-1, inputs]), w)
    return tf.reshape(flat, [steps, batch, w.shape.as_list()[1]])


def sequence(op: str, x: Any) -> tf.Tensor:
    x = floating(op, "x", x)
    rank(op, "x", x, 3, "[num_step, batch, input_size]")
    if x.shape.ndims is None or x.shape.as_list()[2] is None:
        raise ValueError(f"{op}: x's last dimension, input_size, must be known. Use set_shape.")
    return x


def alike(op: str, what: str, value: Any, x: tf.Tensor) -> tf.Tensor:
    converted = floating(op, what, value)
    same_dtype(op, "x", x, what, converted)
    return converted


def first_state(op: str, what: str, value: Any, x: tf.Tensor, hidden: int) -> tf.Tensor:
    batch = static_shape(x)[1]
    if value is None:
        return tf.zeros(tf.stack([batch, hidden]), widened(x).dtype)
    state = alike(op, what, value, x)
    if state.shape.ndims == 3:
        dimension(op, what, state, 0, 1)
    else:
        rank(op, what, state, 2, "[batch, hidden_size], or [1, batch, hidden_size]")
    dimension(op, what, state, -1, hidden)
    dimension(op, what, state, -2, x.shape.as_list()[1])
    return tf.reshape(widened(state), tf.stack([batch, hidden]))

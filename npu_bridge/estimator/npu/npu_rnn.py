"""Recurrent networks from cells, unrolled."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import tensorflow.compat.v1 as tf

__all__ = ["npu_dynamic_rnn"]


def npu_dynamic_rnn(
    cell: Any,
    inputs: Any,
    initial_state: Any = None,
    dtype: Any = None,
    sequence_length: Any = None,
    scope: Optional[Any] = None,
) -> Tuple[tf.Tensor, Any]:
    """Runs a cell over sequences, with a copy of the cell's ops for each step.

    Args:
        cell: an RNNCell of TensorFlow.
        inputs: [max_time, batch, ...]; max_time must be known.
        initial_state: the cell's first state; None for its zero state.
        dtype: of the state, required without initial_state.
        sequence_length: the number of steps of each sequence, int32 [batch]; None for all. Later
            steps keep the state and give zeros.
        scope: the variable scope; "rnn" if None.

    Returns:
        (outputs [max_time, batch, ...], last state).

    Raises:
        ValueError: max_time is not known, or neither initial_state nor dtype is given.
        TypeError: cell is no RNNCell.

    Source of the contract: CANN TF Adapter API, npu_rnn.npu_dynamic_rnn.
    """
    inputs = tf.convert_to_tensor(inputs, name="inputs")
    if not inputs.shape.ndims or inputs.shape.as_list()[0] is None:
        raise ValueError(
            f"npu_dynamic_rnn: the first dimension of inputs, max_time, must be known, got shape "
            f"{inputs.shape}. Use set_shape, or tf.nn.dynamic_rnn."
        )
    outputs, state = tf.nn.static_rnn(
        cell,
        tf.unstack(inputs, axis=0),
        initial_state=initial_state,
        dtype=dtype,
        sequence_length=sequence_length,
        scope=scope,
    )
    return tf.stack(outputs, axis=0), state

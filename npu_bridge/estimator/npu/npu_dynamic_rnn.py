"""LSTM, GRU and AUGRU as layers for TensorFlow 1 scripts.

    lstm = DynamicRNN(hidden_size=16, dtype=tf.float32)
    y, output_h, output_c, i, j, f, o, tanhc = lstm(x)

Where a sequence is shorter than the batch's longest (seq_length), its later steps change nothing:
the states stay, and y is 0.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.dynamic_layer import _DynamicBasic, _DynamicGRU
from npu_bridge.helper import helper
from npu_device._core.compute import gru, lstm, recurrent

__all__ = [
    "DYNAMIC_RNN_BIDIRECTION",
    "DYNAMIC_RNN_REDIRECTIONAL",
    "DYNAMIC_RNN_UNIDIRECTION",
    "DynamicAUGRU",
    "DynamicGRUV2",
    "DynamicRNN",
    "gen_npu_ops",
    "helper",
]

#: The raw ops by name.
gen_npu_ops = helper.get_gen_ops()

DYNAMIC_RNN_UNIDIRECTION = recurrent.UNIDIRECTIONAL
DYNAMIC_RNN_BIDIRECTION = recurrent.BIDIRECTIONAL
DYNAMIC_RNN_REDIRECTIONAL = recurrent.REDIRECTIONAL


class DynamicGRUV2(_DynamicGRU):
    """A GRU over sequences.

    z = sigmoid(x Wz + bz + h Uz + cz); r likewise; hidden_new = h Uh + ch (or (r h) Uh + ch
    without reset_after); n = tanh(x Wh + bh + r hidden_new) (without the factor r, then);
    h = (1 - z) n + z h. The variables dynamicgruv2/weight_input W [input_size, 3 * hidden_size],
    weight_hidden U [hidden_size, 3 * hidden_size], bias_input b and bias_hidden c
    [3 * hidden_size] are initialized uniformly within 1 / sqrt(hidden_size).

    Args:
        hidden_size: the size of the state, an int of 1 or more.
        dtype: of weights and results: tf.float16 or tf.float32; x is converted to it.
        direction: DYNAMIC_RNN_UNIDIRECTION (the default) goes from the first step to the last,
            DYNAMIC_RNN_REDIRECTIONAL from the last to the first. DYNAMIC_RNN_BIDIRECTION is
            refused.
        cell_depth: number of levels; must be 1, the default.
        keep_prob: share of elements that are kept; must be 1, the default: all.
        cell_clip: limit of the cell state; must be below 0, as the default -1 is: no limit.
        num_proj: size of a projection; must be 0, the default: no projection.
        time_major: whether x is [num_step, batch, input_size]; must be True, the default.
        activation: of the candidate; must be "tanh", the default.
        gate_order: how the gates lie in the weights: "zrh" (the default: update, reset, candidate)
            or "rzh".
        reset_after: whether the reset gate is applied after the multiplication by the hidden
            weights (True, the default) or before it.
        is_training: changes nothing: all results are there either way.

    Raises:
        ValueError: an argument is not supported; says what to do.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicGRUV2.
    """

    _SCOPE = "dynamicgruv2"

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        direction: str = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: int = 1,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        gate_order: str = "zrh",
        reset_after: bool = True,
        is_training: bool = True,
    ) -> None:
        super().__init__(
            hidden_size, dtype, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
            activation, gate_order, reset_after, is_training,
        )  # fmt: skip

    @property
    def gate_order(self) -> str:
        """How the gates lie in the weights."""
        return self._gate_order

    @property
    def reset_after(self) -> bool:
        """Whether the reset gate comes after the multiplication by the hidden weights."""
        return self._reset_after

    def build(self, input_shape: Any) -> None:
        """Makes the variables.

        Args:
            input_shape: [num_step, batch, input_size] with a known input_size.

        Raises:
            ValueError: it is not.
        """
        self._build_gru(input_shape)
        super().build(input_shape)

    def call(self, x: Any, seq_length: Any = None, init_h: Any = None) -> gru.DynamicGruV2:
        """Runs the layer.

        Args:
            x: [num_step, batch, input_size], floating point.
            seq_length: the number of steps of each sequence, int32 [batch]; None for all.
            init_h: the first state, [batch, hidden_size] or [1, batch, hidden_size]; None for 0.

        Returns:
            (y, output_h, update, reset, new, hidden_new), each [num_step, batch, hidden_size].

        Raises:
            ValueError: a shape is wrong.
        """
        return gru.dynamic_gru_v2(
            self._converted(x), self._weight_input, self._weight_hidden, self._bias_input,
            self._bias_hidden, seq_length, self._converted(init_h), self._direction,
            gate_order=self._gate_order, reset_after=self._reset_after,
        )  # fmt: skip


class DynamicAUGRU(_DynamicGRU):
    """A GRU over sequences whose update gate z becomes (1 - attention) z; see `DynamicGRUV2`.

    Args:
        hidden_size: the size of the state, an int of 1 or more.
        dtype: of weights and results: tf.float16 or tf.float32; x is converted to it.
        direction: DYNAMIC_RNN_UNIDIRECTION (the default) goes from the first step to the last,
            DYNAMIC_RNN_REDIRECTIONAL from the last to the first. DYNAMIC_RNN_BIDIRECTION is
            refused.
        cell_depth: number of levels; must be 1, the default.
        keep_prob: share of elements that are kept; must be 1, the default: all.
        cell_clip: limit of the cell state; must be below 0, as the default -1 is: no limit.
        num_proj: size of a projection; must be 0, the default: no projection.
        time_major: whether x is [num_step, batch, input_size]; must be True, the default.
        activation: of the candidate; must be "tanh", the default.
        gate_order: how the gates lie in the weights: "zrh" (the default: update, reset, candidate)
            or "rzh".
        reset_after: whether the reset gate is applied after the multiplication by the hidden
            weights (True, the default) or before it.
        is_training: changes nothing: all results are there either way.

    Raises:
        ValueError: an argument is not supported; says what to do.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicAUGRU.
    """

    _SCOPE = "dynamicaugru"

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        direction: str = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: int = 1,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        gate_order: str = "zrh",
        reset_after: bool = True,
        is_training: bool = True,
    ) -> None:
        super().__init__(
            hidden_size, dtype, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
            activation, gate_order, reset_after, is_training,
        )  # fmt: skip

    @property
    def gate_order(self) -> str:
        """How the gates lie in the weights."""
        return self._gate_order

    @property
    def reset_after(self) -> bool:
        """Whether the reset gate comes after the multiplication by the hidden weights."""
        return self._reset_after

    def build(self, input_shape: Any) -> None:
        """Makes the variables, those of `DynamicGRUV2` under dynamicaugru.

        Args:
            input_shape: [num_step, batch, input_size] with a known input_size.

        Raises:
            ValueError: it is not.
        """
        self._build_gru(input_shape)
        super().build(input_shape)

    def call(
        self, x: Any, weight_att: Any, seq_length: Any = None, init_h: Any = None
    ) -> gru.DynamicAUGRU:
        """Runs the layer.

        Args:
            x: [num_step, batch, input_size], floating point.
            weight_att: the attention of each step, [num_step, batch].
            seq_length: the number of steps of each sequence, int32 [batch]; None for all.
            init_h: the first state, [batch, hidden_size] or [1, batch, hidden_size]; None for 0.

        Returns:
            (y, output_h, update, update_att, reset, new, hidden_new), each
            [num_step, batch, hidden_size].

        Raises:
            ValueError: a shape is wrong.
        """
        return gru.dynamic_augru(
            self._converted(x), self._weight_input, self._weight_hidden,
            self._converted(weight_att), self._bias_input, self._bias_hidden, seq_length,
            self._converted(init_h), self._direction, gate_order=self._gate_order,
            reset_after=self._reset_after,
        )  # fmt: skip


class DynamicRNN(_DynamicBasic):
    """An LSTM over sequences.

    i, j, f, o = split([x, h] w + b); c = sigmoid(f + forget_bias) c + sigmoid(i) tanh(j);
    h = sigmoid(o) tanh(c). The variables dynamicrnn/w [input_size + hidden_size, 4 * hidden_size]
    and dynamicrnn/b [4 * hidden_size] are initialized as Glorot and with zeros.

    Args:
        hidden_size: the size of both states, an int of 1 or more.
        dtype: of weights and results: tf.float16 or tf.float32; x is converted to it.
        cell_type: must be "LSTM", the default.
        direction: DYNAMIC_RNN_UNIDIRECTION (the default) goes from the first step to the last,
            DYNAMIC_RNN_REDIRECTIONAL from the last to the first. DYNAMIC_RNN_BIDIRECTION is
            refused.
        cell_depth: number of levels; must be 1, the default.
        use_peephole: whether gates see the cell state; must be False, the default.
        keep_prob: share of elements that are kept; must be 1, the default: all.
        cell_clip: limit of the cell state; must be below 0, as the default -1 is: no limit.
        num_proj: size of a projection; must be 0, the default: no projection.
        time_major: whether x is [num_step, batch, input_size]; must be True, the default.
        activation: of j and c; must be "tanh", the default.
        forget_bias: a float that is added to the forget gate before its activation function; 0 by
            default.
        is_training: changes nothing: all results are there either way.

    Raises:
        ValueError: an argument is not supported; says what to do.

    Source of the contract: CANN TF Adapter API, npu_dynamic_rnn.DynamicRNN.
    """

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        cell_type: str = "LSTM",
        direction: str = DYNAMIC_RNN_UNIDIRECTION,
        cell_depth: int = 1,
        use_peephole: bool = False,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        forget_bias: float = 0.0,
        is_training: bool = True,
    ) -> None:
        self._cell_type = cell_type
        self._use_peephole = use_peephole
        self._forget_bias = forget_bias
        super().__init__(
            hidden_size, dtype, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
            activation, is_training,
        )  # fmt: skip

    def _attributes(self) -> Any:
        attributes = super()._attributes()
        attributes.update(cell_type=self._cell_type, use_peephole=self._use_peephole)
        return attributes

    @property
    def cell_type(self) -> str:
        """The kind of cell, "LSTM"."""
        return self._cell_type

    @property
    def use_peephole(self) -> bool:
        """Whether gates see the cell state, False."""
        return self._use_peephole

    @property
    def forget_bias(self) -> float:
        """What is added to the forget gate."""
        return self._forget_bias

    def build(self, input_shape: Any) -> None:
        """Makes the variables.

        Args:
            input_shape: [num_step, batch, input_size] with a known input_size.

        Raises:
            ValueError: it is not.
        """
        rows, gates = self._input_size(input_shape) + self._hidden_size, 4 * self._hidden_size
        self._w = self._weight(
            "dynamicrnn/w", [rows, gates], tf.glorot_uniform_initializer(seed=10)
        )
        self._b = self._weight("dynamicrnn/b", [gates], tf.zeros_initializer())
        super().build(input_shape)

    def call(
        self,
        x: Any,
        seq_length: Any = None,
        init_h: Any = None,
        init_c: Any = None,
        weight: Optional[Any] = None,
        bias: Optional[Any] = None,
    ) -> lstm.DynamicRnn:
        """Runs the layer.

        Args:
            x: [num_step, batch, input_size], floating point.
            seq_length: the number of steps of each sequence, int32 [batch]; None for all.
            init_h: the first hidden state, [1, batch, hidden_size] or [batch, hidden_size]; None
                for 0.
            init_c: the first cell state, like init_h.
            weight: used instead of dynamicrnn/w.
            bias: used instead of dynamicrnn/b.

        Returns:
            (y, output_h, output_c, i, j, f, o, tanhc), each [num_step, batch, hidden_size].

        Raises:
            ValueError: a shape is wrong.
        """
        return lstm.dynamic_rnn(
            self._converted(x),
            self._w if weight is None else self._converted(weight),
            self._b if bias is None else self._converted(bias),
            seq_length,
            self._converted(init_h),
            self._converted(init_c),
            direction=self._direction,
            forget_bias=self._forget_bias,
        )

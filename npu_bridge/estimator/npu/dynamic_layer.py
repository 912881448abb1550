"""What the layers of npu_dynamic_rnn share: arguments, properties, variables."""

from __future__ import annotations

import math
import numbers
from typing import Any, List

import tensorflow.compat.v1 as tf

from npu_device._core.compute import recurrent


def _layer_class() -> Any:
    """Returns the layer class of TensorFlow 1, which makes variables in variable scopes."""
    try:
        return tf.layers.Layer
    except AttributeError:
        # With Keras 3, TensorFlow hides the class but still has it.
        from tensorflow.python.layers import base

        return base.Layer


_Layer: Any = _layer_class()


class _DynamicBasic(_Layer):
    """What the recurrent layers share.

    Args and their checks: see the layers. Only what is computed for one value is checked here.
    """

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        direction: str = recurrent.UNIDIRECTIONAL,
        cell_depth: int = 1,
        keep_prob: float = 1.0,
        cell_clip: float = -1.0,
        num_proj: int = 0,
        time_major: bool = True,
        activation: str = "tanh",
        is_training: bool = True,
    ) -> None:
        dtype = tf.as_dtype(dtype)
        layer = type(self).__name__
        integer = isinstance(hidden_size, numbers.Integral) and not isinstance(hidden_size, bool)
        if not integer or hidden_size < 1:
            raise ValueError(
                f"{layer}: hidden_size must be an integer above 0, got {hidden_size!r}"
            )
        if dtype not in (tf.float16, tf.float32):
            raise ValueError(f"{layer}: dtype must be float16 or float32, got {dtype.name}")
        super().__init__(dtype=dtype)
        self._hidden_size = int(hidden_size)
        self._weights_dtype = dtype
        self._direction = direction
        self._cell_depth = cell_depth
        self._keep_prob = keep_prob
        self._cell_clip = cell_clip
        self._num_proj = num_proj
        self._time_major = time_major
        self._activation = activation
        self._is_training = is_training
        recurrent.check_attributes(layer, **self._attributes())

    def _attributes(self) -> Any:
        return {
            "direction": self._direction,
            "cell_depth": self._cell_depth,
            "keep_prob": self._keep_prob,
            "cell_clip": self._cell_clip,
            "num_proj": self._num_proj,
            "time_major": self._time_major,
            "activation": self._activation,
        }

    @property
    def direction(self) -> str:
        """The way over time."""
        return self._direction

    @property
    def cell_depth(self) -> int:
        """The number of levels, 1."""
        return self._cell_depth

    @property
    def keep_prob(self) -> float:
        """The probability that an element is kept, 1."""
        return self._keep_prob

    @property
    def cell_clip(self) -> float:
        """The limit of the cell state, below 0 for none."""
        return self._cell_clip

    @property
    def num_proj(self) -> int:
        """The size of the projection, 0 for none."""
        return self._num_proj

    @property
    def time_major(self) -> bool:
        """Whether time is the first dimension, True."""
        return self._time_major

    @property
    def activation(self) -> str:
        """The activation function, "tanh"."""
        return self._activation

    @property
    def is_training(self) -> bool:
        """Whether the layer is for training."""
        return self._is_training

    def check_direction(self) -> None:
        """Checks the direction.

        Raises:
            ValueError: it is not supported.
        """
        recurrent.check_attributes(type(self).__name__, **self._attributes())

    def _input_size(self, input_shape: Any) -> int:
        sizes = tf.TensorShape(input_shape).as_list()
        if len(sizes) != 3 or sizes[2] is None:
            raise ValueError(
                f"{type(self).__name__}: x must be [num_step, batch, input_size] with a known "
                f"input_size, got shape {tuple(sizes)}"
            )
        return sizes[2]

    def _weight(self, name: str, shape: List[int], initializer: Any) -> Any:
        return self.add_weight(
            name=name, shape=shape, dtype=self._weights_dtype, initializer=initializer
        )

    def _converted(self, value: Any) -> Any:
        """Returns what was passed, in the dtype of the weights; None stays None."""
        if value is None:
            return None
        return tf.cast(tf.convert_to_tensor(value), self._weights_dtype)


class _DynamicGRU(_DynamicBasic):
    """What GRU and AUGRU share: the order of the gates and the weights."""

    _SCOPE = ""

    def __init__(
        self,
        hidden_size: int,
        dtype: Any,
        direction: str,
        cell_depth: int,
        keep_prob: float,
        cell_clip: float,
        num_proj: int,
        time_major: bool,
        activation: str,
        gate_order: str,
        reset_after: bool,
        is_training: bool,
    ) -> None:
        self._gate_order = gate_order
        self._reset_after = reset_after
        super().__init__(
            hidden_size, dtype, direction, cell_depth, keep_prob, cell_clip, num_proj, time_major,
            activation, is_training,
        )  # fmt: skip

    def _attributes(self) -> Any:
        attributes = super()._attributes()
        attributes["gate_order"] = self._gate_order
        return attributes

    def _build_gru(self, input_shape: Any) -> None:
        inputs, gates = self._input_size(input_shape), 3 * self._hidden_size
        limit = 1.0 / math.sqrt(self._hidden_size)
        initializer = tf.random_uniform_initializer(-limit, limit)
        scope = self._SCOPE
        self._weight_input = self._weight(f"{scope}/weight_input", [inputs, gates], initializer)
        self._weight_hidden = self._weight(
            f"{scope}/weight_hidden", [self._hidden_size, gates], initializer
        )
        self._bias_input = self._weight(f"{scope}/bias_input", [gates], initializer)
        self._bias_hidden = self._weight(f"{scope}/bias_hidden", [gates], initializer)

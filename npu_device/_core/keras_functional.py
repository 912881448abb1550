"""Functions in functional models of Keras, in whichever Keras runs.

A functional model is made by calling layers on symbolic tensors. `TFOpLambda` is the layer that
calls a function instead. Keras 2 has it since TensorFlow 2.4; where Keras 3 runs, it is ours.
"""

from __future__ import annotations

import importlib
import itertools
import re
from typing import Any, Callable

import tensorflow.compat.v1 as tf

_KERAS_2 = re.match(r"(.*)\.engine\.training\Z", tf.keras.Model.__module__)

_numbers = itertools.count()

TFOpLambda: Any
KerasTensor: Any


def _part(*names: str) -> Any:
    """Returns the first module of Keras 2 that is there, by names below its root."""
    root = _KERAS_2.group(1) if _KERAS_2 else ""
    for name in names:
        try:
            return importlib.import_module(f"{root}.{name}")
        except ImportError:
            continue
    return None


def is_symbolic(value: Any) -> bool:
    """Whether a value is a symbolic tensor of a functional model that is no tensor of a graph."""
    return KerasTensor is not None and isinstance(value, KerasTensor)


def unique_name(name: str) -> str:
    """Returns a name that no layer of Keras has yet, which begins with `name`."""
    if _KERAS_2:
        backend = _part("backend")
        return backend.unique_object_name(name, zero_based=True, avoid_observed_names=True)
    return re.sub(r"\W", "_", name) + f"_{next(_numbers)}"


def registered(package: str) -> Callable[[Any], Any]:
    """Returns a decorator that lets Keras find a class when it loads a model."""
    register = getattr(tf.keras.utils, "register_keras_serializable", None)
    return register(package=package) if register else lambda decorated: decorated


if _KERAS_2:
    KerasTensor = getattr(_part("engine.keras_tensor"), "KerasTensor", None)
else:
    KerasTensor = tf.keras.KerasTensor

if _KERAS_2 and KerasTensor is not None:
    TFOpLambda = _part("layers.core.tf_op_layer", "layers.core").TFOpLambda
else:
    # In TensorFlow 1 nothing but a name: there symbolic tensors are those of the graph.
    class TFOpLambda(tf.keras.layers.Layer):  # type: ignore[no-redef]
        """A layer that calls a function."""

        def __init__(self, function: Callable[..., Any], **kwargs: Any) -> None:
            if isinstance(kwargs.get("dtype"), dict):  # of a saved model
                kwargs["dtype"] = tf.keras.dtype_policies.deserialize(kwargs["dtype"])
            super().__init__(**kwargs)
            self.function = function
            self.symbol = None

        def call(self, *args: Any, **kwargs: Any) -> Any:
            return self.function(*args, **kwargs)

        def get_config(self) -> Any:
            return dict(super().get_config(), function=self.symbol)

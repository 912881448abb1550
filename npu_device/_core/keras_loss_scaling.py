"""Loss scaling of Keras around an optimizer that reduces its gradients.

Keras 3 looks for overflows and then, if there are none, has the optimizer inside apply. Each rank
would look at its own gradients, and those without an overflow would wait in the reduction for the
others. Keras 2 has the optimizer inside reduce before, but drops gradients that are None even
before that, so that ranks could not compare which are. So the gradients are reduced first of all:
where one rank's overflow, all have the overflow.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Optional, Type

from npu_device._core import keras_root

_MARK = "_npu_reduces_first"


def let_it_reduce_first(optimizer: Any, reducing: Type[Any]) -> None:
    """Makes the LossScaleOptimizer of an optimizer's Keras reduce first, where what it wraps does.

    Nothing changes for those that wrap other optimizers. It is the class that changes: a script
    wraps an optimizer that reduces with no further call of this package.

    Args:
        optimizer: of Keras.
        reducing: the class of optimizers that reduce.
    """
    root = keras_root.of(optimizer)
    if keras_root.is_keras_3(optimizer):
        _change(importlib.import_module("keras").optimizers.LossScaleOptimizer, "apply", reducing)
    elif root is not None:
        for scaling in _scaling_of_keras_2(root):
            _change(scaling, "apply_gradients", reducing)


def _scaling_of_keras_2(root: str) -> Any:
    name = f"{root}.mixed_precision.loss_scale_optimizer"
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError:  # TensorFlow 1.15 to 2.3 have only an older one, of no use here
        return []
    found = (getattr(module, one, None) for one in ("LossScaleOptimizer", "LossScaleOptimizerV3"))
    return [one for one in found if one is not None and "apply_gradients" in one.__dict__]


def _change(scaling: Any, method: str, reducing: Type[Any]) -> None:
    if scaling.__dict__.get(_MARK):
        return
    original = getattr(scaling, method)

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Optional[Any] = None) -> Any:
        inner = self.inner_optimizer
        if not isinstance(inner, reducing):
            return original(self, grads, trainable_variables)
        variables = trainable_variables
        if variables is None:
            variables = self._trainable_variables
        reduced = inner._npu_reduced_list(list(grads), list(variables))
        with inner._npu_reduced_outside():
            return original(self, reduced, trainable_variables)

    @functools.wraps(original)
    def apply_gradients(self: Any, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        inner = self.inner_optimizer
        aggregates = kwargs.get("experimental_aggregate_gradients", args[1:2] != (False,))
        if not isinstance(inner, reducing) or not aggregates or _skips(args, kwargs):
            return original(self, grads_and_vars, *args, **kwargs)
        reduced = inner._npu_reduced(list(grads_and_vars))
        with inner._npu_reduced_outside():
            return original(self, reduced, *args, **kwargs)

    setattr(scaling, method, apply if method == "apply" else apply_gradients)
    setattr(scaling, _MARK, True)


def _skips(args: Any, kwargs: Any) -> bool:
    """Whether the caller of a newer optimizer of Keras 2 has reduced gradients itself."""
    return bool(kwargs.get("skip_gradients_aggregation", args[:1] == (True,)))

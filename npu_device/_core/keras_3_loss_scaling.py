"""Loss scaling of Keras 3 around an optimizer that reduces its gradients.

Keras 3 looks for overflows and then, if there are none, has the optimizer inside apply. Each rank
would look at its own gradients, and those without an overflow would wait in the reduction for the
others. So the gradients are reduced before: where one rank's overflow, all have the overflow.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Type

_MARK = "_npu_reduces_first"


def let_it_reduce_first(optimizer: Any, reducing: Type[Any]) -> None:
    """Makes the LossScaleOptimizer of an optimizer's Keras reduce first, where what it wraps does.

    Nothing changes for those that wrap other optimizers. It is the class that changes: a script
    wraps an optimizer that reduces with no further call of this package.

    Args:
        optimizer: of Keras 3.
        reducing: the class of optimizers that reduce.
    """
    names = {one.__module__.split(".")[0] for one in type(optimizer).__mro__}
    if "keras" not in names:
        return
    scaling = importlib.import_module("keras").optimizers.LossScaleOptimizer
    if getattr(scaling, _MARK, False):
        return
    original = scaling.apply

    @functools.wraps(original)
    def apply(self: Any, grads: Any, trainable_variables: Any = None) -> Any:
        inner = self.inner_optimizer
        if not isinstance(inner, reducing):
            return original(self, grads, trainable_variables)
        variables = trainable_variables
        if variables is None:
            variables = self._trainable_variables
        reduced = inner._npu_reduced_list(list(grads), list(variables))
        with inner._npu_reduced_outside():
            return original(self, reduced, trainable_variables)

    scaling.apply = apply
    setattr(scaling, _MARK, True)

"""Lets all ranks begin with the weights of one: a Keras callback, a scope, and functions."""

from __future__ import annotations

import weakref
from typing import Any, Iterable, List, Optional

import tensorflow as tf

from npu_device._core import broadcast_callback, op_arguments
from npu_device._core.op_arguments import Node
from npu_device.distribute import hccl
from npu_device.npu_device import get_ranksize

__all__ = [
    "NPUBroadcastGlobalVariablesCallback",
    "NpuBroadcastScopeContext",
    "broadcast_helper",
    "broadcast_keras_model",
    "broadcast_registry",
    "get_ranksize",
    "hccl",
    "npu_broadcast_scope_wrapper",
]

#: The variables that were broadcast, by id: each is broadcast once.
broadcast_registry: Any = weakref.WeakValueDictionary()


def broadcast_helper(variables: Iterable[Any], root_rank: int = 0) -> None:
    """Broadcasts those variables that were not broadcast before.

    Args:
        variables: of TensorFlow or Keras, in the same order on all ranks.
        root_rank: the rank whose values the others get.

    Source of the contract: CANN TF Adapter API, npu_callbacks.
    """
    candidates = [one for one in variables if broadcast_registry.get(id(one)) is not one]
    if not candidates:
        return
    if get_ranksize() > 1:
        hccl.broadcast(candidates, root_rank)
    for one in candidates:
        broadcast_registry[id(one)] = one


def broadcast_keras_model(model: Any, root_rank: int = 0) -> Any:
    """Broadcasts a model's trainable variables, each once; leaves one that is not built.

    Args:
        model: a tf.keras.Model; anything else is returned as it is.
        root_rank: the rank whose values the others get.

    Returns:
        The model.

    Source of the contract: CANN TF Adapter API, npu_callbacks.
    """
    if isinstance(model, tf.keras.Model) and model.built:
        broadcast_helper(model.trainable_variables, root_rank)
    return model


class NPUBroadcastGlobalVariablesCallback(
    broadcast_callback.BroadcastOnce, tf.keras.callbacks.Callback
):
    """A Keras callback that lets all ranks begin with the weights of one.

    Pass it to fit on every rank, among the first callbacks. It works once: before the first batch,
    or after it if the model has no weights before. What it broadcasts is the model's weights, what
    batch normalization keeps, and the optimizer's variables (slots, iterations, learning rate), so
    that a rank that restored a checkpoint brings all others to where it is.

    Args:
        root_rank: the rank whose values the others get.

    Raises:
        TypeError: `root_rank` is not an integer.
        ValueError: it is negative.

    Source of the contract: CANN TF Adapter API, NPUBroadcastGlobalVariablesCallback.
    """

    def __init__(self, root_rank: int):
        at = Node("NPUBroadcastGlobalVariablesCallback")
        super().__init__(op_arguments.integer(root_rank, at, "root_rank", at_least=0))


class NpuBroadcastScopeContext:
    """A context in which trainable variables get rank 0's values when they are made.

    Contexts may be nested; the outermost one works. Variables that are made while a function is
    traced have no values yet, and are broadcast at the end of the context.

    Args:
        org_scope_ctx: a context to enter as well, such as strategy.scope(); or None.
        model_trainable_variables: variables to broadcast at the beginning, such as those of a
            model that exists already; or None.

    Source of the contract: CANN TF Adapter API, npu_callbacks.
    """

    _inside: Optional[NpuBroadcastScopeContext] = None

    def __init__(self, org_scope_ctx: Any, model_trainable_variables: Any) -> None:
        self._original = org_scope_ctx
        self._given = model_trainable_variables
        self._creator: Any = None
        self._waiting: List[Any] = []

    def __enter__(self) -> Any:
        if NpuBroadcastScopeContext._inside is None:
            NpuBroadcastScopeContext._inside = self
            self._creator = tf.variable_creator_scope(self._create)
            self._creator.__enter__()
        if self._given is not None:
            broadcast_helper(self._given)
        return None if self._original is None else self._original.__enter__()

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if self._original is not None:
            self._original.__exit__(kind, error, traceback)
        if NpuBroadcastScopeContext._inside is not self:
            return
        NpuBroadcastScopeContext._inside = None
        self._creator.__exit__(kind, error, traceback)
        waiting, self._waiting = self._waiting, []
        if kind is None:
            broadcast_helper(waiting)

    def _create(self, next_creator: Any, **kwargs: Any) -> Any:
        variable = next_creator(**kwargs)
        if variable.trainable:
            if tf.executing_eagerly() and isinstance(variable, op_arguments.Variable):
                broadcast_helper([variable])
            else:
                self._waiting.append(variable)
        return variable


def npu_broadcast_scope_wrapper(strategy: Any) -> Any:
    """Makes a strategy's scope one in which variables get rank 0's values.

    Args:
        strategy: a tf.distribute.Strategy, changed in place; anything else is left as it is.

    Returns:
        The strategy.

    Source of the contract: CANN TF Adapter API, npu_callbacks.npu_broadcast_scope_wrapper.
    """
    if not isinstance(strategy, tf.distribute.Strategy) or hasattr(strategy, "_npu_scope_wrapped"):
        return strategy
    original = strategy.scope
    strategy.scope = lambda: NpuBroadcastScopeContext(original(), None)
    strategy._npu_scope_wrapped = True
    return strategy

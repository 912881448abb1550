"""Scopes that mark the ops made in them for the device. CPU ranks keep the marks and look at none.

Each is for a `with` statement; the mark is an attribute of the ops of a graph. Outside of graphs
there is nothing to mark.
"""

from __future__ import annotations

import contextlib
from typing import Any, ContextManager, Iterator

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import attr_value_pb2

from npu_device._core.autograph import unconverted

__all__ = [
    "keep_dtype_scope",
    "npu_gradients_scope",
    "npu_optimizer_scope",
    "npu_recompute_scope",
]


@contextlib.contextmanager
def _marked(name: str, value: Any) -> Iterator[None]:
    if tf.executing_eagerly():
        yield
        return
    with tf.get_default_graph()._attr_scope({name: value}):
        yield


@unconverted
def keep_dtype_scope() -> ContextManager[None]:
    """Keeps ops in the number format that the script gives them: attribute _keep_dtype.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, npu.keep_dtype_scope.
    """
    return _marked("_keep_dtype", attr_value_pb2.AttrValue(i=1))


@unconverted
def npu_optimizer_scope() -> ContextManager[None]:
    """Marks ops as those of an optimizer: attribute _optimizer.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter, npu_device.utils.scope.
    """
    return _marked("_optimizer", attr_value_pb2.AttrValue(b=True))


@unconverted
def npu_gradients_scope() -> ContextManager[None]:
    """Marks ops as those that compute gradients: attribute _backward.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter, npu_device.utils.scope.
    """
    return _marked("_backward", attr_value_pb2.AttrValue(b=True))


@unconverted
def npu_recompute_scope() -> ContextManager[None]:
    """Lets the device compute results again instead of keeping them: attribute _recompute.

    Accepted without effect on CPU ranks; tf.recompute_grad does it everywhere.

    Source of the contract: CANN TF Adapter API, npu.npu_recompute_scope.
    """
    return _marked("_recompute", attr_value_pb2.AttrValue(b=True))

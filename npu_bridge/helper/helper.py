"""The ops that TensorFlow loaded, and the version."""

from __future__ import annotations

from typing import Any

from npu_device._core import operations
from npu_device._core.version import VERSION

__all__ = ["get_gen_ops", "npu_bridge_handle", "version"]

version = VERSION

#: What `get_gen_ops` returns.
npu_bridge_handle = operations.load()


def get_gen_ops() -> Any:
    """Returns the module of Python functions that TensorFlow made for the ops.

    They are named after the ops (hcom_all_reduce for HcomAllReduce) and take their inputs and
    attributes as keyword arguments. Ops made by them are paired with their peers by the names of
    their nodes. Prefer npu_bridge.hccl.hccl_ops, which checks arguments and pairs by more.

    Returns:
        The module.

    Source of the contract: CANN TF Adapter API, helper.get_gen_ops.
    """
    return npu_bridge_handle

"""The ops that TensorFlow loaded, and the version."""

from __future__ import annotations

from typing import Any

from npu_device._core.compute import raw_ops
from npu_device._core.version import VERSION

__all__ = ["get_gen_ops", "npu_bridge_handle", "version"]

version = VERSION

#: What `get_gen_ops` returns.
npu_bridge_handle = raw_ops.load()


def get_gen_ops() -> Any:
    """Returns the module of the raw ops, which gen_npu_ops and its other names are.

    Functions of compiled ops are named after the ops (hcom_all_reduce for HcomAllReduce) and take
    their inputs and attributes as keyword arguments. Collectives made by them are paired with their
    peers by the names of their nodes: prefer npu_bridge.hccl.hccl_ops, which checks arguments and
    pairs by more. Computing ops (gelu, drop_out_gen_mask, dynamic_rnn ...) are made of TensorFlow's
    ops. What is not available on CPU ranks raises NotImplementedError when it is called.

    Returns:
        The module.

    Source of the contract: CANN TF Adapter API, helper.get_gen_ops.
    """
    return npu_bridge_handle

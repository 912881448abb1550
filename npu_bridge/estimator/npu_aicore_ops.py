"""Ops that compute on one rank: activations, dropout, normalization, positions of elements.

They are made of TensorFlow's own ops, see npu_device._core.compute: they run in graphs and eagerly,
and TensorFlow differentiates them.
"""

from __future__ import annotations

from typing import Any, Optional

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import dtypes

from npu_bridge.estimator.npu.npu_common import NPUBasics
from npu_bridge.helper import helper
from npu_device._core.compute import activations, refused
from npu_device._core.compute import dropout as dropout_ops
from npu_device._core.compute.activations import fast_gelu_v2
from npu_device._core.compute.indexing import nonzero
from npu_device._core.compute.indexing import nonzero_with_value as nonzerowithvalue
from npu_device._core.compute.normalization import centralization, layer_norm
from npu_device._core.compute.op_gradients import prelu_grad

__all__ = [
    "DEFAULT_GRAPH_SEED",
    "NPUBasics",
    "centralization",
    "dropout_v3",
    "dropout_v4",
    "fast_gelu_v2",
    "helper",
    "layer_norm",
    "lru_cache_v2",
    "nonzero",
    "nonzerowithvalue",
    "npu_aicore_ops",
    "prelu",
    "prelu_grad",
    "prod_env_mat_a",
    "prodforcesea",
    "prodvirialsea",
    "tabulatefusion",
    "tabulatefusiongrad",
    "tabulatefusionsea",
    "tabulatefusionseagrad",
]

#: The raw ops by name.
npu_aicore_ops = helper.get_gen_ops()

#: The seed that TensorFlow uses for the graph where a script sets only that of an op.
DEFAULT_GRAPH_SEED = dropout_ops.DEFAULT_GRAPH_SEED


def prelu(x: Any, weight: Any) -> tf.Tensor:
    """X where it is above 0, weight * x elsewhere.

    Args:
        x: a floating-point tensor of any shape.
        weight: the slopes below 0, of x's dtype, in a shape that broadcasts to x's.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: weight does not broadcast to x.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.prelu.
    """
    return activations.prelu(x, weight)


def dropout_v3(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Sets elements to 0 at random and divides the others by keep_prob.

    The versions differ in how the NPU lays out the mask; results are those of npu_ops.dropout.

    Args:
        x: a floating-point tensor of any shape.
        keep_prob: the probability that an element is kept: a number in (0, 1], or a tensor with
            one. For the number 1, x itself comes back.
        noise_shape: the mask's shape, which broadcasts to x's; None for x's own.
        seed: the op's seed; acts with the graph's like those of TensorFlow's own random ops.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: x does not hold floating-point numbers, keep_prob is not in (0, 1], or
            noise_shape does not broadcast to x's shape.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.dropout_v3.
    """
    return dropout_ops.dropout(x, keep_prob, noise_shape, seed, name, op="dropout_v3")


def dropout_v4(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    output_dtype: Any = dtypes.bool,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Sets elements to 0 at random and divides the others by keep_prob; see `dropout_v3`.

    Args:
        x: a floating-point tensor of any shape.
        keep_prob: the probability that an element is kept.
        noise_shape: the mask's shape, which broadcasts to x's; None for x's own.
        seed: the op's seed.
        output_dtype: the mask's dtype on the NPU, tf.bool or tf.uint8; changes no result.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: as `dropout_v3`, or output_dtype is another.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.dropout_v4.
    """
    dropout_ops.check_mask_dtype("dropout_v4", output_dtype)
    return dropout_ops.dropout(x, keep_prob, noise_shape, seed, name, op="dropout_v4")


def lru_cache_v2(
    index_list: Any,
    data: Any,
    cache: Any,
    tag: Any,
    is_last_call: Any,
    pre_route_count: Any,
    name: Any = None,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.lru_cache_v2.
    """
    raise refused.error("lru_cache_v2")


def prod_env_mat_a(
    coord: Any,
    types: Any,
    natoms: Any,
    box: Any,
    mesh: Any,
    davg: Any,
    dstd: Any,
    rcut_a: Any = 0.0,
    rcut_r: Any = 0.0,
    rcut_r_smth: Any = 0.0,
    sel_a: Any = None,
    sel_r: Any = None,
    name: Any = None,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.prod_env_mat_a.
    """
    raise refused.error("prod_env_mat_a")


def prodvirialsea(
    net_deriv: Any,
    in_deriv: Any,
    rij: Any,
    nlist: Any,
    natoms: Any,
    n_a_sel: Any = 0,
    n_r_sel: Any = 0,
    name: Any = None,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.prodvirialsea.
    """
    raise refused.error("prodvirialsea")


def prodforcesea(
    net_deriv: Any,
    in_deriv: Any,
    nlist: Any,
    natoms: Any,
    n_a_sel: Any = 0,
    n_r_sel: Any = 0,
    name: Any = None,
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.prodforcesea.
    """
    raise refused.error("prodforcesea")


def tabulatefusionsea(
    table: Any, table_info: Any, em_x: Any, em: Any, last_layer_size: Any = 128, name: Any = None
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.tabulatefusionsea.
    """
    raise refused.error("tabulatefusionsea")


def tabulatefusionseagrad(
    table: Any, table_info: Any, em_x: Any, em: Any, dy_dem_x: Any, dy_dem: Any, name: Any = None
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.tabulatefusionseagrad.
    """
    raise refused.error("tabulatefusionseagrad")


def tabulatefusion(
    table: Any, table_info: Any, em_x: Any, em: Any, last_layer_size: Any = 128, name: Any = None
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.tabulatefusion.
    """
    raise refused.error("tabulatefusion")


def tabulatefusiongrad(
    table: Any, table_info: Any, em_x: Any, em: Any, dy_dem_x: Any, dy_dem: Any, name: Any = None
) -> Any:
    """Is not available on CPU ranks.

    Raises:
        NotImplementedError: always; says why and what to use.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.tabulatefusiongrad.
    """
    raise refused.error("tabulatefusiongrad")

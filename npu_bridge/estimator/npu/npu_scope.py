"""Scopes that mark the ops made in them for the device. CPU ranks keep the marks and look at none.

Each is for a `with` statement; the mark is an attribute of the ops, or part of their names.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import util
from npu_bridge.estimator.npu.npu_config import NpuExecutePlacement
from npu_bridge.estimator.npu.op_attributes import Value, attribute_value

__all__ = [
    "NpuExecutePlacement",
    "disable_autofuse",
    "keep_dtype_scope",
    "limit_core_num_scope",
    "npu_graph_slice_scope",
    "npu_mem_type_scope",
    "npu_optimizer_scope",
    "npu_qos_label_scope",
    "npu_recompute_scope",
    "npu_stage_scope",
    "npu_variable_scope",
    "npu_weight_prefetch_scope",
    "op_specified_engine_scope",
    "subgraph_multi_dims_scope",
    "util",
    "without_npu_compile_scope",
]


@contextlib.contextmanager
def _attributes(**values: Value) -> Iterator[None]:
    protos = {name: attribute_value(name, value) for name, value in values.items()}
    with tf.get_default_graph()._attr_scope(protos):
        yield


def without_npu_compile_scope() -> Any:
    """Leaves ops to the host: attribute _without_npu_compile.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, without_npu_compile_scope.
    """
    return _attributes(_without_npu_compile=True)


def npu_variable_scope(placement: NpuExecutePlacement = NpuExecutePlacement.ALL) -> Any:
    """Chooses the engine that runs ops: attribute _variable_placement.

    Accepted without effect on CPU ranks.

    Args:
        placement: a NpuExecutePlacement.

    Raises:
        ValueError: it is something else.

    Source of the contract: CANN TF Adapter API, npu_variable_scope.
    """
    if not isinstance(placement, NpuExecutePlacement):
        allowed = ", ".join(str(one) for one in NpuExecutePlacement)
        raise ValueError(f"placement is {placement!r}, allowed is one of {allowed}.")
    return _attributes(_variable_placement=placement.value)


def keep_dtype_scope() -> Any:
    """Keeps ops in the number format that the script gives them: attribute _keep_dtype.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, keep_dtype_scope.
    """
    return _attributes(_keep_dtype=1)


def npu_stage_scope(stage: int) -> Any:
    """Makes ops a stage of a pipeline over steps: attribute _stage_level.

    Accepted without effect on CPU ranks.

    Args:
        stage: number of the stage.

    Source of the contract: CANN TF Adapter API, npu_stage_scope.
    """
    return _attributes(_stage_level=_integer(stage, "stage"))


def npu_mem_type_scope() -> Any:
    """Puts results where remote devices can read them: attribute _output_memory_type.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, npu_mem_type_scope.
    """
    return _attributes(_output_memory_type=1)


def npu_weight_prefetch_scope(buffer_pool_id: int = 0, buffer_pool_size: int = 536870912) -> Any:
    """Fetches weights early into a pool: attributes _buffer_pool_id and _buffer_pool_size.

    Accepted without effect on CPU ranks.

    Args:
        buffer_pool_id: number of the pool.
        buffer_pool_size: bytes of the pool, the same in all scopes of its number.

    Source of the contract: CANN TF Adapter API, npu_weight_prefetch_scope.
    """
    return _attributes(
        _buffer_pool_id=_integer(buffer_pool_id, "buffer_pool_id"),
        _buffer_pool_size=_integer(buffer_pool_size, "buffer_pool_size"),
    )


def op_specified_engine_scope(engine_name: str, kernel_lib_name: str) -> Any:
    """Chooses who runs ops: attributes _specified_engine_name and _specified_kernel_lib_name.

    Accepted without effect on CPU ranks.

    Args:
        engine_name: name of the engine.
        kernel_lib_name: name of its library of kernels.

    Source of the contract: CANN TF Adapter API, op_specified_engine_scope.
    """
    return _attributes(
        _specified_engine_name=engine_name, _specified_kernel_lib_name=kernel_lib_name
    )


def npu_qos_label_scope(label: int) -> Any:
    """Labels ops for quality of service: attribute _qos_service_label.

    Accepted without effect on CPU ranks.

    Args:
        label: number of the label.

    Source of the contract: CANN TF Adapter API, npu_qos_label_scope.
    """
    return _attributes(_qos_service_label=_integer(label, "label"))


def subgraph_multi_dims_scope(index: int) -> Any:
    """Makes ops a part that is compiled for several shapes: attribute _subgraph_multi_dims_index.

    Accepted without effect on CPU ranks.

    Args:
        index: number of the part.

    Source of the contract: CANN TF Adapter API, subgraph_multi_dims_scope.
    """
    return _attributes(_subgraph_multi_dims_index=_integer(index, "index"))


def npu_optimizer_scope() -> Any:
    """Marks ops as those of an optimizer: attribute _optimizer.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, npu_optimizer_scope.
    """
    return _attributes(_optimizer=True)


def npu_recompute_scope() -> Any:
    """Lets the device compute results again instead of keeping them: name scope NpuRecompute.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, npu_recompute_scope.
    """
    return tf.name_scope("NpuRecompute")


def npu_graph_slice_scope(slice_num: Optional[int] = None) -> Any:
    """Lets the device cut the part of a graph: name scope SliceNum-N-NpuGraphSlicingN.

    Accepted without effect on CPU ranks.

    Args:
        slice_num: number of slices, 1 or more; None leaves it to the device.

    Raises:
        TypeError: it is no int.
        ValueError: it is below 1.

    Source of the contract: CANN TF Adapter API, npu_graph_slice_scope.
    """
    if slice_num is not None:
        util.check_positive_integer(slice_num, "slice_num")
    return tf.name_scope(f"SliceNum-{slice_num}-NpuGraphSlicing{slice_num}")


def disable_autofuse() -> Any:
    """Keeps ops from being merged automatically: attribute _disable_autofuse_scope.

    Accepted without effect on CPU ranks.

    Source of the contract: CANN TF Adapter API, disable_autofuse.
    """
    return _attributes(_disable_autofuse_scope=True)


def limit_core_num_scope(op_aicore_num: str = "0", op_vectorore_num: str = "0") -> Any:
    """Limits the cores that ops use: attribute _op_vectorcore_num.

    Accepted without effect on CPU ranks.

    Args:
        op_aicore_num: matrix cores, of which the original takes no notice, either.
        op_vectorore_num: vector cores, a number above 0 as a text.

    Raises:
        ValueError: op_vectorore_num is something else.

    Source of the contract: CANN TF Adapter API, limit_core_num_scope.
    """
    number = op_vectorore_num
    if not isinstance(number, str) or not number.strip().isdigit() or int(number) < 1:
        raise ValueError(
            f"op_vectorore_num is {number!r}, allowed is a number above 0 as a str, such as '8'."
        )
    return _attributes(_op_vectorcore_num=number)


def _integer(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} is {value!r} of type {type(value).__name__}, allowed is an int.")
    return value

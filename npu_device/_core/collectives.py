"""The collectives, as both packages call them: arguments checked, ops made, attributes set.

One function an op. `npu_bridge.hccl.hccl_ops` and `npu_device.distribute.hccl_ops` give them their
published names, argument order and defaults, and describe them. All work in a TF1 graph, in
tf.function and eagerly.

`name` is the op's name in a graph, which pairs it with its peers; the op's type if None.
"""

from __future__ import annotations

import collections.abc
from typing import Any, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core import (
    compiled_by_xla,
    groups,
    input_names,
    library,
    op_arguments,
    tags,
    variables,
)
from npu_device._core.op_arguments import Fusion, Node

WORLD_GROUP = groups.WORLD


def all_reduce(
    tensor: Any,
    reduction: str,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomAllReduce; see npu_bridge.hccl.hccl_ops.allreduce."""
    at = Node("HcomAllReduce", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    reduction = op_arguments.reduction(reduction, at)
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(tensor, at, "tensor")
    names = input_names.of([tensor])
    result = library.ops().hcom_all_reduce(
        input=data,
        reduction=reduction,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    return _marked(result, [data], names)


def all_gather(
    tensor: Any,
    rank_size: int,
    group: str = WORLD_GROUP,
    fusion: int = 0,
    fusion_id: int = -1,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomAllGather; see npu_bridge.hccl.hccl_ops.allgather."""
    at = Node("HcomAllGather", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    rank_size = op_arguments.integer(rank_size, at, "rank_size", at_least=1)
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(tensor, at, "tensor")
    _check_has_rows(data, at)
    names = input_names.of([tensor])
    result = library.ops().hcom_all_gather(
        input=data,
        rank_size=rank_size,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    return _marked(result, [data], names)


def broadcast(
    tensors: Any,
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> Any:
    """Makes one HcomBroadcast, and assigns results to what is a variable.

    See npu_bridge.hccl.hccl_ops.broadcast.

    Returns:
        A list of tensors for a list, a tuple for a tuple, a tensor for anything else.
    """
    at = Node("HcomBroadcast", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    root_rank = op_arguments.integer(root_rank, at, "root_rank")
    group = op_arguments.group(group, at)
    values = _as_list(tensors)
    if values is None:
        return broadcast([tensors], root_rank, how.fusion, how.fusion_id, group, name)[0]
    targets = [variables.target(value) for value in values]
    data = [op_arguments.tensor(value, at, f"tensor {index}") for index, value in enumerate(values)]
    names = input_names.of(values)
    results = library.ops().hcom_broadcast(
        input=data,
        root_rank=root_rank,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    results = _marked(results, data, names)
    # Without tensors the op has no outputs, and what is returned is the op itself, or None.
    results = list(results) if data else []
    results = variables.assign(targets, results)
    return tuple(results) if isinstance(tensors, tuple) else results


def reduce(
    tensor: Any,
    reduction: str,
    root_rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomReduce; see npu_bridge.hccl.hccl_ops.reduce."""
    at = Node("HcomReduce", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    reduction = op_arguments.reduction(reduction, at)
    root_rank = op_arguments.integer(root_rank, at, "root_rank")
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(tensor, at, "tensor")
    names = input_names.of([tensor])
    result = library.ops().hcom_reduce(
        input=data,
        reduction=reduction,
        root_rank=root_rank,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    return _marked(result, [data], names)


def reduce_scatter(
    tensor: Any,
    reduction: str,
    rank_size: int,
    group: str = WORLD_GROUP,
    fusion: int = 0,
    fusion_id: int = -1,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomReduceScatter; see npu_bridge.hccl.hccl_ops.reduce_scatter."""
    at = Node("HcomReduceScatter", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    reduction = op_arguments.reduction(reduction, at)
    rank_size = op_arguments.integer(rank_size, at, "rank_size", at_least=1)
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(tensor, at, "tensor")
    _check_has_rows(data, at)
    names = input_names.of([tensor])
    result = library.ops().hcom_reduce_scatter(
        input=data,
        reduction=reduction,
        rank_size=rank_size,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    return _marked(result, [data], names)


def send(
    tensor: Any,
    sr_tag: int,
    dest_rank: int,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> Optional[tf.Operation]:
    """Makes an HcomSend; see npu_bridge.hccl.hccl_ops.send."""
    at = Node("HcomSend", name)
    sr_tag = op_arguments.integer(sr_tag, at, "sr_tag")
    dest_rank = op_arguments.integer(dest_rank, at, "dest_rank")
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(tensor, at, "tensor")
    operation = library.ops().hcom_send(
        input=data, group=group, sr_tag=sr_tag, dest_rank=dest_rank, name=name
    )
    return _marked(operation, [data])


def receive(
    shape: Any,
    data_type: Any,
    sr_tag: int,
    src_rank: int,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomReceive; see npu_bridge.hccl.hccl_ops.receive."""
    at = Node("HcomReceive", name)
    sr_tag = op_arguments.integer(sr_tag, at, "sr_tag")
    src_rank = op_arguments.integer(src_rank, at, "src_rank")
    group = op_arguments.group(group, at)
    try:
        static = tf.TensorShape(shape)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{at}: shape must be fully known, got {shape!r}: {error}") from None
    if not static.is_fully_defined():
        raise ValueError(f"{at}: shape must be fully known, got {static}.")
    result = library.ops().hcom_receive(
        T=tf.as_dtype(data_type),
        shape=static,
        group=group,
        sr_tag=sr_tag,
        src_rank=src_rank,
        name=name,
    )
    return _marked(result, [result])


def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomAllToAllV; see npu_bridge.hccl.hccl_ops.all_to_all_v."""
    at = Node("HcomAllToAllV", name)
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(send_data, at, "send_data")
    vectors = {
        "send_counts": send_counts,
        "send_displacements": send_displacements,
        "recv_counts": recv_counts,
        "recv_displacements": recv_displacements,
    }
    vectors = {key: _counts(value, at, key) for key, value in vectors.items()}
    names = input_names.of([send_data])
    result = library.ops().hcom_all_to_all_v(
        send_data=data, group=input_names.beside(group, names), name=name, **vectors
    )
    return _marked(result, [data], names)


def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes an HcomAllToAllVC; see npu_bridge.hccl.hccl_ops.all_to_all_v_c."""
    at = Node("HcomAllToAllVC", name)
    how = op_arguments.fusion(fusion, fusion_id, at)
    rank = op_arguments.integer(rank, at, "rank")
    group = op_arguments.group(group, at)
    data = op_arguments.data_tensor(send_data, at, "send_data")
    matrix = _counts(send_count_matrix, at, "send_count_matrix")
    names = input_names.of([send_data])
    result = library.ops().hcom_all_to_all_vc(
        send_data=data,
        send_count_matrix=matrix,
        rank=rank,
        group=input_names.beside(group, names),
        name=name,
        **_fusion(how),
    )
    return _marked(result, [data], names)


def gather_all_to_all_v(
    addrinfo: Any,
    addrinfo_count_per_rank: Any,
    recv_counts: Any,
    recv_displacements: Any,
    dtype: Any,
    addr_length: int,
    group: str = WORLD_GROUP,
    name: Optional[str] = None,
) -> Any:
    """Makes an HcomGatherAllToAllV; see npu_bridge.hccl.hccl_ops.gather_all_to_all_v."""
    at = Node("HcomGatherAllToAllV", name)
    result = library.ops().hcom_gather_all_to_all_v(
        addrinfo=op_arguments.tensor(addrinfo, at, "addrinfo", tf.uint64),
        addrinfo_count_per_rank=_counts(addrinfo_count_per_rank, at, "addrinfo_count_per_rank"),
        recv_counts=_counts(recv_counts, at, "recv_counts"),
        recv_displacements=_counts(recv_displacements, at, "recv_displacements"),
        dtype=tf.as_dtype(dtype),
        addr_length=op_arguments.integer(addr_length, at, "addr_length"),
        group=op_arguments.group(group, at),
        name=name,
    )
    return _marked(result, [])


def remote_read(remote: Any, data_type: Any) -> tf.Tensor:
    """Makes an HcomRemoteRead; see npu_bridge.hccl.hccl_ops.remote_read."""
    return library.ops().hcom_remote_read(remote=remote, dtype=tf.as_dtype(data_type))


def remote_ref_read(remote: Any, cache: Any, offset: Any) -> tf.Tensor:
    """Makes an HcomRemoteRefRead; see npu_bridge.hccl.hccl_ops.remote_ref_read."""
    return library.ops().hcom_remote_ref_read(
        remote=remote, cache_var=variables.reference(cache), local_offset=offset
    )


def remote_write(remote: Any, local: Any, data_type: Any) -> Optional[tf.Operation]:
    """Makes an HcomRemoteWrite; see npu_bridge.hccl.hccl_ops.remote_write."""
    at = Node("HcomRemoteWrite")
    data = op_arguments.tensor(local, at, "tensorLocal", tf.as_dtype(data_type))
    return library.ops().hcom_remote_write(remote=remote, local=data)


def remote_scatter_write(remote: Any, local: Any, offset: Any) -> Optional[tf.Operation]:
    """Makes an HcomRemoteScatterWrite; see npu_bridge.hccl.hccl_ops.remote_scatter_write."""
    return library.ops().hcom_remote_scatter_write(
        remote=remote, local=variables.reference(local), local_offset=offset
    )


def _fusion(how: Fusion) -> Any:
    return {"fusion": how.fusion, "fusion_id": how.fusion_id}


def _marked(result: Any, data: Sequence[tf.Tensor], names: Optional[List[str]] = None) -> Any:
    """Marks the op that was made, and returns `result`: its output, outputs, or the op itself."""
    if tf.executing_eagerly():
        return result
    op = result
    if isinstance(result, (list, tuple)):
        op = result[0]
    if not isinstance(op, tf.Operation):
        op = op.op
    compiled_by_xla.refuse(op)
    tags.mark(op, data)
    if names is not None:
        input_names.record(op, names)
    return result


def _as_list(values: Any) -> Optional[List[Any]]:
    """Returns the members of a list, tuple, view or iterator of tensors; None for one tensor."""
    views = (list, tuple, collections.abc.ValuesView, collections.abc.Iterator)
    return list(values) if isinstance(values, views) else None


def _counts(value: Any, at: Node, what: str) -> tf.Tensor:
    """Converts counts or displacements; integers of other dtypes are cast."""
    converted = op_arguments.tensor(value, at, what)
    if converted.shape.num_elements() == 0 and not isinstance(value, tf.Tensor):
        # An empty list has become float32.
        return tf.cast(converted, tf.int64)
    if not converted.dtype.is_integer:
        raise TypeError(f"{at}: {what} must hold integers, got {converted.dtype.name}.")
    return tf.cast(converted, tf.int64)


def _check_has_rows(data: tf.Tensor, at: Node) -> None:
    if data.shape.ndims == 0:
        raise ValueError(
            f"{at}: tensor must have at least one dimension, since dimension 0 is joined or cut, "
            f"got a scalar. Use tf.reshape(tensor, [1])."
        )

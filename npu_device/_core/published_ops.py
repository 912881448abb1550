"""The functions of hccl_ops under their published names, argument order and defaults.

npu_bridge.hccl.hccl_ops and npu_device.distribute.hccl_ops both give out these, so that the two
cannot drift apart. What differs between them (allgather, reduce_scatter) the latter defines anew.

What holds for all of them:

* They work in a TensorFlow 1 graph, in tf.function and eagerly, on one rank or many. With one rank
  (RANK_SIZE absent or 1) every result is the input.
* `tensor` may be a tensor, a variable, a numpy array or a Python number.
* `group` is the name of a group of hccl.manage.api that this rank is in. Ranks in arguments are
  ranks in that group.
* All ranks of the group must make the call, with the same dtype, shape and attributes. A difference
  is an InvalidArgumentError on every rank, which names both sides. In a graph, calls belong
  together by the names of their ops; eagerly by the order of calls. Ranks that make unnamed ops in
  different orders swap their tensors; NPU_BRIDGE_CHECK_NAMES=1 finds that (docs/name-check.md).
* A wrong group, root, rank or size is an InvalidArgumentError when the op runs; a value that no
  group could make right is a ValueError or TypeError when it is made.
* fusion: 0 never merges the op with others; 1 (allreduce only) merges by the group's split strategy
  (hccl.split.api) and needs fusion_id -1; 2 merges ops of equal fusion_id, 0 to 0x7fffffff. Results
  are the same bits either way.
* Every rank gets the same bits, and so does every repetition.

DATA below stands for int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32,
float64 and bfloat16.
"""

from __future__ import annotations

from typing import Any, List, Optional, Union

import tensorflow.compat.v1 as tf

from npu_device._core import collectives
from npu_device._core.autograph import unconverted


@unconverted
def allreduce(
    tensor: Any,
    reduction: str,
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> tf.Tensor:
    """Reduces a tensor over the ranks of a group, element by element; all get the result.

    Args:
        tensor: DATA, any shape, the same on all ranks.
        reduction: "sum", "prod", "max" or "min". Sums and products run in rank order; float16 and
            bfloat16 are accumulated in float32 and rounded once; integers wrap; NaN on any rank is
            NaN in min and max.
        fusion: 0, 1 or 2, see above. Only sums are merged.
        fusion_id: see above.
        group: name of the group.

    Returns:
        A tensor with the dtype and shape of `tensor`.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: reduction, fusion, fusion_id or group is none of the above.

    Gradient:
        The sum over the ranks of the results' gradients goes to: all inputs (sum); the inputs that
        hold the extremum, equal shares where several do (min, max); all inputs, times the product
        of the other ranks' inputs (prod).

    Source of the contract: CANN TF Adapter API, hccl_ops.allreduce.
    """
    return collectives.all_reduce(tensor, reduction, fusion, fusion_id, group)


@unconverted
def allgather(
    tensor: Any,
    rank_size: int,
    group: str = "hccl_world_group",
    fusion: int = 0,
    fusion_id: int = -1,
) -> tf.Tensor:
    """Joins the tensors of the ranks of a group along dimension 0, in rank order; all get it.

    Args:
        tensor: DATA, at least one dimension, the same shape on all ranks.
        rank_size: number of ranks in the group, 1 to 32768.
        group: name of the group.
        fusion: 0 or 2, see above.
        fusion_id: see above.

    Returns:
        A tensor of the same dtype, whose dimension 0 is `rank_size` times that of `tensor`.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: `tensor` is a scalar, or another argument is none of the above.

    Gradient:
        A rank's rows get the sum over the ranks of their gradients (a reduce_scatter).

    Source of the contract: CANN TF Adapter API, hccl_ops.allgather.
    """
    return collectives.all_gather(tensor, rank_size, group, fusion, fusion_id)


@unconverted
def broadcast(
    tensor: Any,
    root_rank: int,
    fusion: int = 2,
    fusion_id: int = 0,
    group: str = "hccl_world_group",
) -> Any:
    """Gives the ranks of a group the tensors of one of them.

    Variables among the tensors hold the root's values afterwards; no assign is needed, and one
    that the script makes does no harm. In a TensorFlow 1 graph that happens whenever the result of
    any of them is run, which may be made before they are initialized.

    Args:
        tensor: a list of tensors or variables of any numeric dtypes and shapes, each the same on
            all ranks; many are one exchange. The published type is a list; a tuple, or a single
            tensor, is taken as well.
        root_rank: the rank in the group that gives its values.
        fusion: 0 or 2, see above.
        fusion_id: see above.
        group: name of the group.

    Returns:
        The root's tensors: a list for a list, a tuple for a tuple, a tensor for a single one.

    Raises:
        TypeError: a dtype is not numeric (string, resource).
        ValueError: another argument is none of the above.

    Gradient:
        The root's input gets the sum over the ranks of the gradients; other ranks' inputs zero.

    Source of the contract: CANN TF Adapter API, hccl_ops.broadcast.
    """
    return collectives.broadcast(tensor, root_rank, fusion, fusion_id, group)


@unconverted
def reduce(
    tensor: Any,
    reduction: str,
    root_rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> tf.Tensor:
    """Reduces a tensor over the ranks of a group, element by element; one rank gets the result.

    Args:
        tensor: DATA, any shape, the same on all ranks.
        reduction: "sum", "prod", "max" or "min", see `allreduce`.
        root_rank: the rank in the group that gets the result.
        fusion: 0 or 2, see above. Only sums are merged.
        fusion_id: see above.
        group: name of the group.

    Returns:
        On the root the reduced tensor, on the other ranks their own `tensor`; same dtype and shape.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: another argument is none of the above.

    Gradient:
        The root's gradient goes to all inputs as in `allreduce`; the other ranks' own is added to
        it there, since their result is their input.

    Source of the contract: CANN TF Adapter API, hccl_ops.reduce.
    """
    return collectives.reduce(tensor, reduction, root_rank, fusion, fusion_id, group)


@unconverted
def reduce_scatter(
    tensor: Any,
    reduction: str,
    rank_size: int,
    group: str = "hccl_world_group",
    fusion: int = 0,
    fusion_id: int = -1,
) -> tf.Tensor:
    """Reduces a tensor over the ranks of a group and deals its rows out to them, in rank order.

    Args:
        tensor: DATA, the same shape on all ranks, dimension 0 divisible by `rank_size`.
        reduction: "sum", "prod", "max" or "min", see `allreduce`.
        rank_size: number of ranks in the group, 1 to 32768.
        group: name of the group.
        fusion: 0 or 2, see above. Only sums are merged.
        fusion_id: see above.

    Returns:
        This rank's rows of the reduced tensor: same dtype, dimension 0 divided by `rank_size`.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: `tensor` is a scalar, its rows cannot be dealt out evenly, or another argument
            is none of the above.

    Gradient:
        The gradients of all ranks' rows (an allgather) go to the inputs as in `allreduce`.

    Source of the contract: CANN TF Adapter API, hccl_ops.reduce_scatter.
    """
    return collectives.reduce_scatter(tensor, reduction, rank_size, group, fusion, fusion_id)


@unconverted
def send(
    tensor: Any, sr_tag: int, dest_rank: int, group: str = "hccl_world_group"
) -> Optional[tf.Operation]:
    """Sends a tensor to one rank, which must `receive` it.

    The op is done when the bytes are buffered, so that two ranks may send to each other before
    they receive. Messages of equal group, source, destination and sr_tag arrive in order.

    Args:
        tensor: DATA, any shape.
        sr_tag: a number that sender and receiver agree on.
        dest_rank: the rank in the group to send to.
        group: name of the group.

    Returns:
        The op, which a TensorFlow 1 session must run; None eagerly.

    Raises:
        TypeError: the dtype is not one of DATA.
        ValueError: another argument is none of the above.

    Gradient:
        None: the op has no result, so that TensorFlow finds no way from a loss back through it.

    Source of the contract: CANN TF Adapter API, hccl_ops.send.
    """
    return collectives.send(tensor, sr_tag, dest_rank, group)


@unconverted
def receive(
    shape: Any, data_type: Any, sr_tag: int, src_rank: int, group: str = "hccl_world_group"
) -> tf.Tensor:
    """Receives a tensor that one rank sends to this one.

    Args:
        shape: the tensor's shape, fully known.
        data_type: its dtype, one of DATA.
        sr_tag: a number that sender and receiver agree on.
        src_rank: the rank in the group that sends.
        group: name of the group.

    Returns:
        The tensor.

    Raises:
        ValueError: `shape` is not fully known, or another argument is none of the above.

    Gradient:
        None: the op has no input, so that TensorFlow finds no way from a loss back through it.

    Source of the contract: CANN TF Adapter API, hccl_ops.receive.
    """
    return collectives.receive(shape, data_type, sr_tag, src_rank, group)


@unconverted
def all_to_all_v(
    send_data: Any,
    send_counts: Any,
    send_displacements: Any,
    recv_counts: Any,
    recv_displacements: Any,
    group: str = "hccl_world_group",
) -> tf.Tensor:
    """Sends each rank of a group a block of a tensor, and receives one from each.

    Counts and displacements are in elements, one a rank of the group: tensors, arrays or lists of
    integers, [rank size].

    Args:
        send_data: DATA, read as if it had one dimension.
        send_counts: elements to send to each rank. What rank r sends to rank i must be what rank i
            expects from rank r.
        send_displacements: where each rank's block begins in `send_data`. Blocks may overlap.
        recv_counts: elements to receive from each rank.
        recv_displacements: where each rank's block goes in the result. Where blocks overlap, the
            highest rank's stands.
        group: name of the group.

    Returns:
        A tensor of the same dtype with one dimension, just long enough for the block that ends
        last. Elements that no block covers are zero.

    Raises:
        TypeError: the dtype is not one of DATA, or counts are no integers.
        ValueError: `group` is no name of a group.

    Gradient:
        Blocks travel back. Elements that were sent several times get the sum; those that a later
        block overwrote get zero.

    Source of the contract: CANN TF Adapter API, hccl_ops.all_to_all_v.
    """
    return collectives.all_to_all_v(
        send_data, send_counts, send_displacements, recv_counts, recv_displacements, group
    )


@unconverted
def all_to_all_v_c(
    send_data: Any,
    send_count_matrix: Any,
    rank: int,
    fusion: int = 0,
    fusion_id: int = -1,
    group: str = "hccl_world_group",
) -> tf.Tensor:
    """Like `all_to_all_v`, with one matrix of counts that is the same on all ranks.

    Args:
        send_data: DATA, read as if it had one dimension: the blocks for rank 0, 1, ... in turn.
        send_count_matrix: element [i][j] is the number of elements that rank i sends to rank j,
            integers [rank size, rank size].
        rank: this rank in the group.
        fusion: 0 or 2, see above.
        fusion_id: see above.
        group: name of the group.

    Returns:
        A tensor of the same dtype with one dimension: the blocks of rank 0, 1, ... in turn.

    Raises:
        TypeError: the dtype is not one of DATA, or counts are no integers.
        ValueError: another argument is none of the above.

    Gradient:
        Blocks travel back (the transposed matrix); elements that were not sent get zero.

    Source of the contract: CANN TF Adapter API, hccl_ops.all_to_all_v_c.
    """
    return collectives.all_to_all_v_c(send_data, send_count_matrix, rank, fusion, fusion_id, group)


@unconverted
def gather_all_to_all_v(
    addrinfo: Any,
    addrinfo_count_per_rank: Any,
    recv_counts: Any,
    recv_displacements: Any,
    dtype: Any,
    addr_length: int,
    group: str = "hccl_world_group",
) -> List[tf.Tensor]:
    """Like `all_to_all_v`, of data at addresses of a device's memory.

    Addresses of a device mean nothing to the transports of this project: running the op is an
    error that says so.

    Args:
        addrinfo: uint64 [k, 2], an address and a number of bytes a row.
        addrinfo_count_per_rank: rows for each rank, integers [rank size].
        recv_counts: elements to receive from each rank, integers [rank size].
        recv_displacements: where each rank's block goes in the result, integers [rank size].
        dtype: dtype of the data, one of DATA.
        addr_length: bytes behind each address where all are equal, -1 or -2 where not.
        group: name of the group.

    Returns:
        Two tensors of dtype `dtype`: what was received, and what was gathered to be sent.

    Raises:
        ValueError: `group` is no name of a group.

    Gradient:
        None: its inputs are integers.

    Source of the contract: CANN TF Adapter API, hccl_ops.gather_all_to_all_v.
    """
    return collectives.gather_all_to_all_v(
        addrinfo,
        addrinfo_count_per_rank,
        recv_counts,
        recv_displacements,
        dtype,
        addr_length,
        group,
    )


@unconverted
def remote_read(tensorRemote: Any, data_type: Any) -> tf.Tensor:
    """Reads memory of other ranks by remote direct memory access of a device.

    No transport of this project serves it: running the op is an error that says so.

    Args:
        tensorRemote: int64 or uint64 [k, 3], a rank, an address and a number of bytes a row.
        data_type: dtype of the data.

    Returns:
        What was read, a tensor of dtype `data_type`.

    Source of the contract: CANN TF Adapter API, hccl_ops.remote_read.
    """
    return collectives.remote_read(tensorRemote, data_type)


@unconverted
def remote_ref_read(tensorRemote: Any, cache: Any, offset: Any) -> tf.Tensor:
    """Reads memory of other ranks into a variable, see `remote_read`.

    Args:
        tensorRemote: uint64 [k, 3], a rank, an address and a number of bytes a row.
        cache: the ref variable to write into.
        offset: where in it, uint64.

    Returns:
        The variable.

    Raises:
        TypeError: `cache` is no ref variable.

    Gradient:
        None; differentiating through it is a LookupError.

    Source of the contract: CANN TF Adapter API, hccl_ops.remote_ref_read.
    """
    return collectives.remote_ref_read(tensorRemote, cache, offset)


@unconverted
def remote_write(
    tensorRemote: Any,
    tensorLocal: Any,
    data_type: Any,
) -> Union[tf.Operation, None]:
    """Writes a tensor into memory of other ranks, see `remote_read`.

    Args:
        tensorRemote: int64 or uint64 [k, 3], a rank, an address and a number of bytes a row.
        tensorLocal: what to write.
        data_type: its dtype.

    Returns:
        The op, which a TensorFlow 1 session must run.

    Source of the contract: CANN TF Adapter API, hccl_ops.remote_write.
    """
    return collectives.remote_write(tensorRemote, tensorLocal, data_type)


@unconverted
def remote_scatter_write(
    tensorRemote: Any,
    tensorLocal: Any,
    offset: Any,
) -> Union[tf.Operation, None]:
    """Writes parts of a variable into memory of other ranks, see `remote_read`.

    Args:
        tensorRemote: int64 or uint64 [k, 3], a rank, an address and a number of bytes a row.
        tensorLocal: the ref variable to read.
        offset: where in it, of the dtype of `tensorRemote`.

    Returns:
        The op, which a TensorFlow 1 session must run.

    Raises:
        TypeError: `tensorLocal` is no ref variable.

    Source of the contract: CANN TF Adapter API, hccl_ops.remote_scatter_write.
    """
    return collectives.remote_scatter_write(tensorRemote, tensorLocal, offset)

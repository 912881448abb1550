"""Gradients of the collectives, registered with TensorFlow when this module is imported.

The loss that is differentiated is the sum over the ranks of a group of their local losses. So each
gradient is a collective too, in the group of the op itself: all ranks that ran the op must run the
gradient. The gradients of ops that may be merged (fusion 2) may be merged too, under the same
fusion_id; a gradient takes no part in the split strategy of fusion 1. Integer inputs have none.

All of these can be differentiated again, since they are made of ops that have gradients.
Source of the contract: those ops' definitions; the published adapter differentiates allreduce only.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Optional

import tensorflow.compat.v1 as tf

from npu_device._core import block_layout, collectives, groups, input_names, op_arguments, tags


@tf.RegisterGradient("HcomAllReduce")
@input_names.unrecorded
def all_reduce_gradient(op: Any, dy: Any) -> Optional[tf.Tensor]:
    """Each element's gradients, summed over the ranks, go to the inputs by their share in it."""
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return None
    name, group = tags.gradient_name(op), _group(op)
    total = collectives.all_reduce(_dense(dy, y), "sum", group=group, name=name, **_fusion(op))
    return _through_reduction(_text(op, "reduction"), x, lambda: y, total, group, name)


@tf.RegisterGradient("HcomAllGather")
@input_names.unrecorded
def all_gather_gradient(op: Any, dy: Any) -> Optional[tf.Tensor]:
    """A rank's rows get the sum of what all ranks' losses want of them."""
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return None
    return collectives.reduce_scatter(
        _dense(dy, y),
        "sum",
        op.get_attr("rank_size"),
        group=_group(op),
        name=tags.gradient_name(op),
        **_fusion(op),
    )


@tf.RegisterGradient("HcomReduceScatter")
@input_names.unrecorded
def reduce_scatter_gradient(op: Any, dy: Any) -> Optional[tf.Tensor]:
    """Every rank learns the gradients of all rows, and gets its inputs' share in each."""
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return None
    name, group, size = tags.gradient_name(op), _group(op), op.get_attr("rank_size")
    rows = collectives.all_gather(_dense(dy, y), size, group=group, name=name, **_fusion(op))

    def reduced_rows() -> tf.Tensor:
        return collectives.all_gather(y, size, group=group, name=_suffixed(name, "reduced"))

    return _through_reduction(_text(op, "reduction"), x, reduced_rows, rows, group, name)


@tf.RegisterGradient("HcomBroadcast")
@input_names.unrecorded
def broadcast_gradient(op: Any, *dys: Any) -> List[Optional[tf.Tensor]]:
    """The root's input gets the sum of all ranks' gradients; other ranks' inputs play no part."""
    name, group, root = tags.gradient_name(op), _group(op), op.get_attr("root_rank")
    gradients: List[Optional[tf.Tensor]] = []
    for index, (x, y, dy) in enumerate(zip(op.inputs, op.outputs, dys)):
        if dy is None or not _differentiable(x):
            gradients.append(None)
            continue
        part = name if len(dys) == 1 else _suffixed(name, str(index))
        total = collectives.reduce(
            _dense(dy, y), "sum", root, group=group, name=part, **_fusion(op)
        )
        gradients.append(_only_if(groups.rank_id(group) == root, total))
    return gradients


@tf.RegisterGradient("HcomReduce")
@input_names.unrecorded
def reduce_gradient(op: Any, dy: Any) -> Optional[tf.Tensor]:
    """The root's gradient goes to all inputs; other ranks got their own input back."""
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return None
    name, group, root = tags.gradient_name(op), _group(op), op.get_attr("root_rank")
    own = _dense(dy, y)

    def from_root(value: tf.Tensor, part: Optional[str]) -> tf.Tensor:
        return collectives.broadcast([value], root, group=group, name=part, **_fusion(op))[0]

    gradient = _through_reduction(
        _text(op, "reduction"),
        x,
        lambda: from_root(y, _suffixed(name, "reduced")),
        from_root(own, name),
        group,
        name,
    )
    return gradient + _only_if(groups.rank_id(group) != root, own)


@tf.RegisterGradient("HcomAllToAllV")
@input_names.unrecorded
def all_to_all_v_gradient(op: Any, dy: Any) -> List[Optional[tf.Tensor]]:
    """Blocks travel back to where they came from.

    An element that was sent several times gets the sum; one that a later block overwrote on
    arrival had no effect and sends back zero.
    """
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return [None] * 5
    send_counts, send_displacements, recv_counts, recv_displacements = op.inputs[1:]
    block, place = block_layout.packed_positions(recv_counts, recv_displacements)
    wanted = tf.gather(_dense(dy, y), place)
    stands = block_layout.stands(block, place, tf.size(y, out_type=tf.int64))
    returned = collectives.all_to_all_v(
        tf.where_v2(stands, wanted, tf.zeros_like(wanted)),
        recv_counts,
        block_layout.starts(recv_counts),
        send_counts,
        block_layout.starts(send_counts),
        group=_group(op),
        name=tags.gradient_name(op),
    )
    _, sent_from = block_layout.packed_positions(send_counts, send_displacements)
    summed = tf.math.unsorted_segment_sum(returned, sent_from, tf.size(x, out_type=tf.int64))
    return [_shaped_like(summed, x)] + [None] * 4


@tf.RegisterGradient("HcomAllToAllVC")
@input_names.unrecorded
def all_to_all_v_c_gradient(op: Any, dy: Any) -> List[Optional[tf.Tensor]]:
    """Blocks travel back to where they came from; elements that were not sent get zero."""
    x, y = op.inputs[0], op.outputs[0]
    if not _differentiable(x):
        return [None, None]
    returned = collectives.all_to_all_v_c(
        _dense(dy, y),
        tf.transpose(op.inputs[1]),
        op.get_attr("rank"),
        group=_group(op),
        name=tags.gradient_name(op),
        **_fusion(op),
    )
    unsent = tf.size(x, out_type=tf.int64) - tf.size(returned, out_type=tf.int64)
    return [_shaped_like(tf.pad(returned, [[0, unsent]]), x), None]


def _refuse(op: Any, *_: Any) -> None:
    """Ends a differentiation that would otherwise be silently wrong."""
    name = getattr(op, "name", op.type)
    raise LookupError(
        f"{op.type} '{name}' has no gradient: what it moves leaves the computation that is "
        f"differentiated. Use a collective that has one (all_to_all_v, broadcast, allgather ...), "
        f"or tf.stop_gradient."
    )


for _op_type in (
    "HcomSend",
    "HcomReceive",
    "HcomGatherAllToAllV",
    "HcomRemoteRead",
    "HcomRemoteRefRead",
    "HcomRemoteWrite",
    "HcomRemoteScatterWrite",
):
    tf.RegisterGradient(_op_type)(_refuse)


def _through_reduction(
    reduction: str,
    x: tf.Tensor,
    reduced: Any,
    gradient: tf.Tensor,
    group: str,
    name: Optional[str],
) -> tf.Tensor:
    """Takes a gradient from a reduction's result to this rank's input.

    Args:
        reduction: sum, min, max or prod, element by element over the ranks.
        x: this rank's input.
        reduced: returns the result, with the shape of x and equal on all ranks. Called for min and
            max only.
        gradient: that of the result, with the shape of x and equal on all ranks.
        group: the ranks.
        name: the gradient op's name.

    Returns:
        The gradient of x.
    """
    if reduction == "sum":
        return gradient
    if reduction == "prod":
        product = _product_of_others(x, group, _suffixed(name, "factors"))
        return tf.cast(tf.cast(gradient, product.dtype) * product, x.dtype.base_dtype)
    extremum = reduced()
    # NaN is not equal to itself, and is what min and max give when it is there.
    holds = tf.logical_or(
        tf.equal(x, extremum),
        tf.logical_and(tf.not_equal(x, x), tf.not_equal(extremum, extremum)),
    )
    share = tf.stop_gradient(tf.cast(holds, x.dtype))
    holders = collectives.all_reduce(share, "sum", group=group, name=_suffixed(name, "holders"))
    return gradient * (share / tf.stop_gradient(holders))


def _product_of_others(x: tf.Tensor, group: str, name: Optional[str]) -> tf.Tensor:
    """Returns the product of the other ranks' x, element by element; of half precision in float32.

    Not by dividing the product of all: that fails where an element is zero, and its derivative
    where any is.
    """
    size, rank = groups.rank_size(group), groups.rank_id(group)
    working = tf.float32 if x.dtype.base_dtype in (tf.float16, tf.bfloat16) else x.dtype.base_dtype
    everyones = collectives.all_gather(tf.expand_dims(x, 0), size, group=group, name=name)
    factors = tf.unstack(tf.cast(everyones, working), num=size)
    del factors[rank]
    return functools.reduce(tf.multiply, factors, tf.ones_like(x, dtype=working))


def _only_if(condition: bool, tensor: tf.Tensor) -> tf.Tensor:
    """Returns the tensor, or zeros that still depend on it.

    Where ranks differ in what they need, all must keep what the tensor was made of: its own
    gradient is a collective, which every rank has to reach.
    """
    return tf.where_v2(tf.fill(tf.shape(tensor), condition), tensor, tf.zeros_like(tensor))


def _differentiable(x: tf.Tensor) -> bool:
    return bool(x.dtype.is_floating)


def _dense(dy: Any, y: tf.Tensor) -> tf.Tensor:
    """Returns the gradient of output y as a tensor, also where it came as IndexedSlices."""
    tensor = tf.convert_to_tensor(dy)
    tensor.set_shape(y.shape)
    return tensor


def _shaped_like(flat: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    shaped = tf.reshape(flat, tf.shape(x))
    shaped.set_shape(x.shape)
    return shaped


def _fusion(op: Any) -> Dict[str, int]:
    """Returns the arguments that let an op's gradient be merged where the op itself may be."""
    fusion, fusion_id = op.get_attr("fusion"), op.get_attr("fusion_id")
    # A GraphDef may hold any numbers; the op itself is refused when it runs.
    if fusion != 2 or not 0 <= fusion_id <= op_arguments.MAX_FUSION_ID:
        return {"fusion": 0}
    return {"fusion": 2, "fusion_id": fusion_id}


def _group(op: Any) -> str:
    """Returns the group of one of our ops."""
    return input_names.group_alone(_text(op, "group"))


def _text(op: Any, attribute: str) -> str:
    """Returns a string attribute: bytes on operations of a graph, str or bytes on a tape's."""
    value = op.get_attr(attribute)
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)


def _suffixed(name: Optional[str], suffix: str) -> Optional[str]:
    return None if name is None else f"{name}_{suffix}"

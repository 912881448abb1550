"""Reduces what training loops hold: lists with None entries, sparse gradients, means.

On top of the plain collectives, for npu_device.distribute.all_reduce and the optimizer wrappers.
"""

from __future__ import annotations

import functools
import itertools
import json
from typing import Any, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from npu_device._core import collectives, groups, input_names, op_arguments, tags
from npu_device._core.cluster import rank_list
from npu_device._core.op_arguments import Fusion, Node

REDUCTIONS = ("mean", *op_arguments.REDUCTIONS)

_MOST_ENTRIES_TOLD = 8  # of those that are None on some ranks only


def all_reduce(
    values: Any,
    reduction: str,
    fusion: int,
    fusion_id: int,
    group: str,
    names: Optional[Sequence[str]] = None,
) -> Any:
    """Reduces one value or each of several; see npu_device.distribute.all_reduce.

    Args:
        values: see there.
        reduction: see there.
        fusion: see there.
        fusion_id: see there.
        group: see there.
        names: of the ops that reduce the entries of a list, by position; for errors to tell.

    Returns:
        See there.
    """
    at = Node("HcomAllReduce")
    how = op_arguments.fusion(fusion, fusion_id, at)
    reduction = op_arguments.reduction(reduction, at, REDUCTIONS)
    group = op_arguments.group(group, at)
    if not isinstance(values, (list, tuple)):
        return _reduced(values, reduction, how, group, None)
    known = None if names is None else [name.rpartition("HcomAllReduce/")[2] for name in names]
    if names is None:
        # By position, so that an entry which is None on one rank does not shift the others' names.
        names = [f"HcomAllReduce_{index}" for index in range(len(values))]
    if tf.executing_eagerly() and len(values) > 1:
        _check_same_entries(values, group, known)
        if how.fusion != 0:
            together = _reduced_together(values, reduction, how, group, names)
            return tuple(together) if isinstance(values, tuple) else together
    absent = [index for index, value in enumerate(values) if value is None]
    reduced = [
        _reduced(value, reduction, how, group, name, absent) for value, name in zip(values, names)
    ]
    return tuple(reduced) if isinstance(values, tuple) else reduced


def _reduced_together(
    values: Sequence[Any], reduction: str, how: Fusion, group: str, names: Sequence[str]
) -> List[Any]:
    """Reduces the tensors of an eager list in one graph, where they become one exchange.

    Sparse gradients, whose parts depend on each other, follow one by one.
    """
    reduced = list(values)
    at = Node("HcomAllReduce")
    dense = {
        index: op_arguments.data_tensor(value, at, f"values[{index}]")
        for index, value in enumerate(values)
        if value is not None and not isinstance(value, tf.IndexedSlices)
    }
    if dense:
        members = tuple(groups.world_ranks(group))
        own_names = tuple(names[index] for index in dense)
        together = _list_reduction(own_names, reduction, how, group, members)
        for index, value in zip(dense, together(*dense.values())):
            reduced[index] = value
    for index, value in enumerate(values):
        if isinstance(value, tf.IndexedSlices):
            reduced[index] = _reduced(value, reduction, how, group, None)
    return reduced


@functools.lru_cache(maxsize=256)
def _list_reduction(
    names: Sequence[str], reduction: str, how: Fusion, group: str, members: Sequence[int]
) -> Any:
    """Makes the function that reduces some entries of a list.

    Args:
        names: of the ops.
        reduction: one of REDUCTIONS.
        how: see hccl_ops.allreduce.
        group: the ranks.
        members: their world ranks: a group of the same name may be made anew with others.
    """

    @tf.function(autograph=False)
    def all_reduce_list(*tensors: tf.Tensor) -> List[tf.Tensor]:
        return [
            _reduced(tensor, reduction, how, group, name) for name, tensor in zip(names, tensors)
        ]

    return all_reduce_list


def _reduced(
    value: Any,
    reduction: str,
    how: Fusion,
    group: str,
    name: Optional[str],
    absent: Sequence[int] = (),
) -> Any:
    """Reduces one value.

    Args:
        value: a tensor or what can be one, IndexedSlices, or None, which stays that.
        reduction: one of REDUCTIONS.
        how: see hccl_ops.allreduce.
        group: the ranks.
        name: of the op.
        absent: positions in the list that this is an entry of which are None. In a graph ranks
            compare them, since the ops of entries that others lack would wait for ever.
    """
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        return _reduced_slices(value, reduction, group, name, absent)
    summed = collectives.all_reduce(
        value,
        "sum" if reduction == "mean" else reduction,
        fusion=how.fusion,
        fusion_id=how.fusion_id,
        group=group,
        name=name,
    )
    tags.mark_absent_entries(summed, absent)
    return divided(summed, groups.rank_size(group)) if reduction == "mean" else summed


def divided(total: tf.Tensor, ranks: int) -> tf.Tensor:
    """Returns a sum over ranks divided by their number, in the dtype of the sum.

    Integers are rounded towards zero, as tf.reduce_mean does.
    """
    if not total.dtype.is_integer:
        return total / tf.cast(ranks, total.dtype)
    dtype = total.dtype.base_dtype
    if ranks == 1:
        return total
    # TensorFlow does not divide every integer dtype in every version, but all divide int64.
    if dtype == tf.uint64:
        return _divided_uint64(total, ranks)
    wide = tf.truncatediv(tf.cast(total, tf.int64), tf.constant(ranks, tf.int64))
    return tf.cast(wide, dtype)


def _divided_uint64(total: tf.Tensor, ranks: int) -> tf.Tensor:
    """Divides in int64: first half the value, which fits, then corrects the quotient by one.

    TensorFlow 1.15 has hardly any op for uint64.
    """
    bits = tf.bitcast(total, tf.int64)
    divisor = tf.constant(ranks, tf.int64)
    one, all_but_sign = tf.constant(1, tf.int64), tf.constant(2**63 - 1, tf.int64)
    half = tf.bitwise.bitwise_and(tf.bitwise.right_shift(bits, one), all_but_sign)
    quotient = 2 * tf.truncatediv(half, divisor)
    remainder = bits - quotient * divisor  # wraps; 0 to 2 * ranks - 1
    quotient += tf.cast(remainder >= divisor, tf.int64)
    return tf.bitcast(quotient, tf.uint64)


def _reduced_slices(
    slices: tf.IndexedSlices,
    reduction: str,
    group: str,
    name: Optional[str],
    absent: Sequence[int],
) -> tf.IndexedSlices:
    """Joins the rows of all ranks, whose number may differ.

    Rows with equal indices stay apart, since that is what a sum of IndexedSlices means.
    """
    at = Node("HcomAllReduce", name)
    if reduction not in ("sum", "mean"):
        raise ValueError(
            f"{at}: reduction {reduction!r} is not defined for tf.IndexedSlices, whose absent rows "
            f"count as zero. Use sum or mean, or pass a dense tensor (tf.convert_to_tensor)."
        )
    ranks = groups.rank_size(group)
    values = op_arguments.data_tensor(slices.values, at, "values")
    indices = op_arguments.data_tensor(slices.indices, at, "indices")
    name = name or "HcomAllReduce"
    rows = collectives.all_gather(
        tf.shape(indices, out_type=tf.int64), ranks, group=group, name=name + "_rows"
    )
    tags.mark_absent_entries(rows, absent)
    row_shape = tf.shape(values)[1:]
    row_elements = tf.reduce_prod(tf.cast(row_shape, tf.int64))
    flat = _gathered(values, rows * row_elements, group, name + "_values")
    joined = tf.reshape(flat, tf.concat([[-1], row_shape], axis=0))
    joined.set_shape(tf.TensorShape([None]).concatenate(values.shape[1:]))
    if reduction == "mean":
        joined = divided(joined, ranks)
    return tf.IndexedSlices(
        joined, _gathered(indices, rows, group, name + "_indices"), slices.dense_shape
    )


def _gathered(tensor: tf.Tensor, counts: tf.Tensor, group: str, name: str) -> tf.Tensor:
    """Joins tensors that differ in size between ranks.

    Args:
        tensor: this rank's; is read flat.
        counts: elements of each rank's tensor, int64 [rank size].
        group: the ranks.
        name: the op's name.

    Returns:
        The elements of all ranks' tensors in rank order, with one dimension.
    """
    everyone = tf.ones_like(counts)
    return collectives.all_to_all_v(
        tensor,
        tf.size(tensor, out_type=tf.int64) * everyone,
        tf.zeros_like(counts),
        counts,
        tf.cumsum(counts, exclusive=True),
        group=group,
        name=name,
    )


def _check_same_entries(
    values: Sequence[Any], group: str, known: Optional[Sequence[str]] = None
) -> None:
    """Checks that the same entries are None on all ranks.

    Eager ops are paired by the order in which they are called. An entry that is missing on one
    rank would make it pair each later entry with the one before.

    Args:
        values: the list.
        group: the ranks.
        known: what to call the entries, such as the variables whose gradients they are.

    Raises:
        ValueError: they are not; the same on all ranks.
    """
    present = np.array([value is not None for value in values], np.int32)
    ranks = groups.rank_size(group)
    if ranks == 1:
        return
    try:
        counts = collectives.all_reduce(present, "sum", group=group).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise tf.errors.InvalidArgumentError(
            error.node_def,
            error.op,
            f"all_reduce of a list of {len(values)} in group {group}: ranks first compare which "
            f"entries are None, as int32 [entries], and here lists differ in length, or a rank "
            f"called something else: {error.message}",
        ) from None
    differing: List[int] = [i for i, n in enumerate(counts) if 0 < n < ranks]
    if not differing:
        return
    own = [
        None if values[i] is None else known[i] if known else input_names.name(values[i])
        for i in differing
    ]
    everyones = [json.loads(text) for text in _texts_of_all(json.dumps(own), ranks, group)]
    told = [
        _told_apart(index, names, group)
        for index, *names in itertools.islice(zip(differing, *everyones), _MOST_ENTRIES_TOLD)
    ]
    if len(differing) > len(told):
        told.append(f"and so are {len(differing) - len(told)} more")
    raise ValueError(
        f"all_reduce in group {group}: of the list of {len(values)}, {', '.join(told)}. All ranks "
        f"must pass None at the same positions: replace None by tf.zeros_like of the variable."
    )


def _told_apart(index: int, names: Sequence[Optional[str]], group: str) -> str:
    """Says on which ranks an entry is None: "entry 1 ('kernel:0') is None on rank 3 only".

    Args:
        index: the entry's position.
        names: what each rank of the group calls it, "" where it has no name; None for None.
        group: the ranks.
    """
    ranks = [world for world, name in zip(groups.world_ranks(group), names) if name is None]
    known = next((f" ({name!r})" for name in names if name), "")
    where = "" if group == groups.WORLD else "world "
    return f"entry {index}{known} is None on {where}{rank_list(sorted(ranks))} only"


def _texts_of_all(text: str, ranks: int, group: str) -> List[str]:
    """Gives every rank's text to all, in rank order.

    Args:
        text: this rank's, without NUL.
        ranks: their number.
        group: the ranks.
    """
    encoded = np.frombuffer(text.encode("utf-8"), np.uint8)
    length = int(collectives.all_reduce(np.int64(encoded.size), "max", group=group))
    padded = np.pad(encoded, (0, length - encoded.size), "constant")
    rows = collectives.all_gather(padded[np.newaxis], ranks, group=group).numpy()
    return [row.tobytes().rstrip(b"\0").decode("utf-8") for row in rows]

"""Reduces what training loops hold: lists with None entries, sparse gradients, means.

On top of the plain collectives, for npu_device.distribute.all_reduce and the optimizer wrappers.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from npu_device._core import collectives, groups, op_arguments
from npu_device._core.op_arguments import Fusion

REDUCTIONS = ("mean", *op_arguments.REDUCTIONS)


def all_reduce(values: Any, reduction: str, fusion: int, fusion_id: int, group: str) -> Any:
    """Reduces one value or each of several; see npu_device.distribute.all_reduce."""
    at = op_arguments.node("HcomAllReduce")
    how = op_arguments.fusion(fusion, fusion_id, at)
    reduction = op_arguments.reduction(reduction, at, REDUCTIONS)
    group = op_arguments.group(group, at)
    if not isinstance(values, (list, tuple)):
        return _reduced(values, reduction, how, group, None)
    if tf.executing_eagerly() and len(values) > 1:
        _check_same_entries(values, group)
    reduced = [
        # By position, so that an entry which is None on one rank does not shift the others' names.
        _reduced(value, reduction, how, group, f"HcomAllReduce_{index}")
        for index, value in enumerate(values)
    ]
    return tuple(reduced) if isinstance(values, tuple) else reduced


def _reduced(value: Any, reduction: str, how: Fusion, group: str, name: Optional[str]) -> Any:
    if value is None:
        return None
    if isinstance(value, tf.IndexedSlices):
        return _reduced_slices(value, reduction, group, name)
    summed = collectives.all_reduce(
        value,
        "sum" if reduction == "mean" else reduction,
        fusion=how.fusion,
        fusion_id=how.fusion_id,
        group=group,
        name=name,
    )
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
    """Divides in int64: first half the value, which fits, then corrects the quotient by one."""
    divisor = tf.constant(ranks, tf.int64)
    half = tf.bitcast(tf.bitwise.right_shift(total, tf.ones_like(total)), tf.int64)
    quotient = 2 * tf.truncatediv(half, divisor)
    remainder = tf.bitcast(total, tf.int64) - quotient * divisor  # wraps; 0 to 2 * ranks - 1
    quotient += tf.cast(remainder >= divisor, tf.int64)
    return tf.bitcast(quotient, tf.uint64)


def _reduced_slices(
    slices: tf.IndexedSlices, reduction: str, group: str, name: Optional[str]
) -> tf.IndexedSlices:
    """Joins the rows of all ranks, whose number may differ.

    Rows with equal indices stay apart, since that is what a sum of IndexedSlices means.
    """
    at = op_arguments.node("HcomAllReduce", name)
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


def _check_same_entries(values: Sequence[Any], group: str) -> None:
    """Checks that the same entries are None on all ranks.

    Eager ops are paired by the order in which they are called. An entry that is missing on one
    rank would make it pair each later entry with the one before.

    Raises:
        ValueError: they are not; the same on all ranks.
    """
    present = np.array([value is not None for value in values], np.int32)
    ranks = groups.rank_size(group)
    if ranks == 1:
        return
    counts = collectives.all_reduce(present, "sum", group=group).numpy()
    differing: List[int] = [i for i, n in enumerate(counts) if 0 < n < ranks]
    if differing:
        here = ", ".join(str(i) for i in differing if values[i] is None) or "none of these"
        raise ValueError(
            f"all_reduce in group {group}: entries {differing} of the list of {len(values)} are "
            f"None on some ranks only, here {here}. All ranks must pass None at the same "
            f"positions: replace None by tf.zeros_like of the variable."
        )

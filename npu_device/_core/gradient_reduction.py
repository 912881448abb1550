"""Reduces a step's gradients over the ranks, each exactly once and under its variable's name.

What all optimizer wrappers share. A gradient that was reduced carries a mark, so that wrappers
around wrappers, and Keras methods that call each other, do not reduce it again.
"""

from __future__ import annotations

import re
from typing import Any, List, Optional, Sequence, Tuple

import tensorflow.compat.v1 as tf

from npu_device._core import common_names, groups, value_reduction

GradientAndVariable = Tuple[Any, Any]

_REDUCED_MARK = "_npu_reduced_in"
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9._\-/]")
_HALF = (tf.float16, tf.bfloat16)


def reduce_gradients(
    grads_and_vars: Sequence[GradientAndVariable],
    reduction: str = "mean",
    fusion: int = 1,
    fusion_id: int = -1,
    group: str = groups.WORLD,
    scope: str = "Gradients_Allreduce",
    predivide: bool = False,
    sparse_as_dense: bool = False,
) -> List[GradientAndVariable]:
    """Reduces each gradient over a group.

    Args:
        grads_and_vars: gradients (dense, IndexedSlices or None) and their variables, in the same
            order on all ranks. IndexedSlices may differ in rows between ranks.
        reduction: "mean" divides by the group's size; or "sum", or another of
            value_reduction.REDUCTIONS for dense gradients.
        fusion: see hccl_ops.allreduce; the split strategy decides by default.
        fusion_id: see hccl_ops.allreduce.
        group: the ranks.
        scope: the name scope of the ops.
        predivide: for "mean", whether to divide before the sum, so that float16 does not overflow
            in it, instead of after it, as the device does.
        sparse_as_dense: whether IndexedSlices are reduced, and returned, as dense tensors.

    Returns:
        The reduced gradients and their variables. Those that are None, or were reduced in this
        group before, are as they came; so are all in a group of one rank.
    """
    pairs = list(grads_and_vars)
    if groups.rank_size(group) == 1:
        return pairs
    # None stays in the list, since ranks compare which entries are.
    waiting = [i for i, (gradient, _) in enumerate(pairs) if not is_reduced(gradient, group)]
    if all(pairs[i][0] is None for i in waiting):
        return pairs
    with root_scope(scope):
        prepare = _dense if sparse_as_dense else _with_bounded_rows
        values = [prepare(*pairs[i]) for i in waiting]
        if predivide and reduction == "mean":
            ranks = groups.rank_size(group)
            values, reduction = [_divided(value, ranks) for value in values], "sum"
        names = [f"HcomAllReduce/{op_name(pairs[i][1])}" for i in waiting]
        reduced = value_reduction.all_reduce(values, reduction, fusion, fusion_id, group, names)
    for i, value in zip(waiting, reduced):
        pairs[i] = (mark_reduced(value, group), pairs[i][1])
    return pairs


def mark_reduced(gradient: Any, group: str) -> Any:
    """Notes on a gradient that it holds what all ranks of a group gave; returns it."""
    if gradient is not None:
        setattr(gradient, _REDUCED_MARK, group)
    return gradient


def is_reduced(gradient: Any, group: str) -> bool:
    """Returns whether a gradient was reduced in a group."""
    return getattr(gradient, _REDUCED_MARK, None) == group


def scaled(gradient: Any, factor: tf.Tensor) -> Any:
    """Returns a gradient times a scalar; IndexedSlices and None stay what they are.

    The mark of a reduced gradient is kept.

    Args:
        gradient: dense, IndexedSlices, or None.
        factor: a scalar of any float dtype, equal on all ranks.
    """
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values * tf.cast(factor, gradient.values.dtype.base_dtype)
        product: Any = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    else:
        product = gradient * tf.cast(factor, gradient.dtype.base_dtype)
    return _marked_as(gradient, product)


def _marked_as(gradient: Any, made_of_it: Any) -> Any:
    group: Optional[str] = getattr(gradient, _REDUCED_MARK, None)
    return made_of_it if group is None else mark_reduced(made_of_it, group)


def _divided(gradient: Any, ranks: int) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        values = value_reduction.divided(gradient.values, ranks)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return None if gradient is None else value_reduction.divided(gradient, ranks)


def _dense(gradient: Any, variable: Any) -> Any:
    """Returns a sparse gradient as a tensor of its variable's shape; others as they are."""
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    summed = _segment_sum(gradient.values, gradient.indices, int(variable.shape[0]))
    summed.set_shape(variable.shape)
    return summed


def _with_bounded_rows(gradient: Any, variable: Any) -> Any:
    """Sums the rows of a sparse gradient with equal indices where they outnumber the variable's.

    So no rank sends more than the variable holds, however often a batch repeats an id. Otherwise
    rows stay as they are: TensorFlow's norms, by which gradients are clipped, count each row, and
    are those of one process on the joined batch.
    """
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    most = tf.compat.dimension_value(variable.shape[0])
    if most is None:
        return gradient
    rows = tf.compat.dimension_value(gradient.indices.shape[0])
    if rows is not None:
        return with_merged_rows(gradient) if rows > most else gradient

    def merged() -> Tuple[tf.Tensor, tf.Tensor]:
        slices = with_merged_rows(gradient)
        return slices.values, slices.indices

    values, indices = tf.cond(
        tf.size(gradient.indices) > most,
        merged,
        lambda: (tf.identity(gradient.values), tf.identity(gradient.indices)),
    )
    values.set_shape(tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    return tf.IndexedSlices(values, indices, gradient.dense_shape)


def _segment_sum(values: tf.Tensor, places: tf.Tensor, rows: Any) -> tf.Tensor:
    dtype = values.dtype.base_dtype
    working = tf.float32 if dtype in _HALF else dtype
    return tf.cast(tf.math.unsorted_segment_sum(tf.cast(values, working), places, rows), dtype)


def with_merged_rows(gradient: Any, variable: Any = None) -> Any:
    """Sums the rows of a sparse gradient that have equal indices.

    A batch repeats frequent ids many times. Each rank would send, and every rank receive, all the
    repetitions; merged, there are never more rows than the variable has.

    Args:
        gradient: dense, IndexedSlices, or None.
        variable: not used.

    Returns:
        The gradient; of IndexedSlices new ones, each index once, with the mark of a reduced one.
    """
    del variable
    if not isinstance(gradient, tf.IndexedSlices):
        return gradient
    indices, places = tf.unique(gradient.indices)
    summed = _segment_sum(gradient.values, places, tf.size(indices))
    summed.set_shape(tf.TensorShape([None]).concatenate(gradient.values.shape[1:]))
    return _marked_as(gradient, tf.IndexedSlices(summed, indices, gradient.dense_shape))


def root_scope(name: str) -> Any:
    """Returns a name scope that is not within the current one.

    Ops on different ranks belong together by their names, and scopes around them may be counted:
    Keras numbers one for each training function, and a rank that restored a model made one more.

    Args:
        name: the scope's.
    """
    return tf.name_scope(name + "/")


def op_name(variable: Any) -> str:
    """Returns the part of an op's name that tells whose gradient it moves."""
    known = common_names.of(variable).split(":")[0]
    return _NOT_IN_NAMES.sub("_", known) or "gradient"

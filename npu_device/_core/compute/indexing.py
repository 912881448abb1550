"""Ops about positions: nonzero and its variants, scatter_elements, random choices from a mask."""

from __future__ import annotations

import numbers
from typing import Any, NamedTuple, Optional, Tuple

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import axis_of, rank, select, tensor

_INTEGERS = (tf.int32, tf.int64)


class NonZeroWithValue(NamedTuple):
    """What nonzerowithvalue returns."""

    value: tf.Tensor
    index: tf.Tensor
    count: tf.Tensor


class NonZeroWithValueShape(NamedTuple):
    """What non_zero_with_value_shape returns."""

    out_value: tf.Tensor
    out_index: tf.Tensor


class RandomChoice(NamedTuple):
    """What randomchoicewithmask returns."""

    y: tf.Tensor
    mask: tf.Tensor


def nonzero(
    x: Any, transpose: bool = False, output_type: Any = tf.int64, name: Optional[str] = None
) -> tf.Tensor:
    """Returns where elements are not 0, in row-major order.

    Args:
        x: a tensor of numbers or bools of any shape. NaN is not 0, -0.0 is.
        transpose: return a row a dimension instead of a row an element.
        output_type: tf.int32 or tf.int64.
        name: a name for the result.

    Returns:
        [number of elements that are not 0, x's rank], or the other way round with transpose.

    Raises:
        ValueError: output_type is another.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.nonzero.
    """
    x = tensor("nonzero", "x", x)
    _index_type("nonzero", output_type)
    with tf.name_scope(name, "nonzero", [x]):
        found = tf.cast(tf.where(_not_zero(x)), output_type)
        return tf.transpose(found) if transpose else found


def nonzero_with_value(
    x: Any, transpose: bool = False, output_type: Any = tf.int64, name: Optional[str] = None
) -> NonZeroWithValue:
    """Returns the elements that are not 0, where they are, and how many, in shapes known before.

    Args:
        x: a tensor of numbers or bools of shape [rows, columns].
        transpose: how the index is laid out. True: first all rows, then all columns. False: row and
            column of one element after the other.
        output_type: tf.int32 or tf.int64.
        name: a name for the results.

    Returns:
        (value [rows * columns], index [2 * rows * columns], count [1]). Of value the first count
        elements hold the values in row-major order and the rest zeros. Of index, likewise, the
        first count of each half with transpose, and the first 2 * count without.
        `non_zero_with_value_shape` cuts off the rest.

    Raises:
        ValueError: output_type is another, or x has another rank.

    Source of the contract: CANN TF Adapter API, npu_aicore_ops.nonzerowithvalue.
    """
    op = "nonzerowithvalue"
    x = tensor(op, "x", x)
    rank(op, "x", x, 2, "[rows, columns]")
    _index_type(op, output_type)
    with tf.name_scope(name, op, [x]):
        total = tf.size(x)
        found = tf.where(_not_zero(x))
        count = tf.shape(found)[0]
        value = tf.pad(tf.gather_nd(x, found), [[0, total - count]])
        rows = tf.pad(found, [[0, total - count], [0, 0]])
        index = tf.reshape(tf.transpose(rows) if transpose else rows, [-1])
        value.set_shape([x.shape.num_elements()])
        return NonZeroWithValue(
            value, tf.cast(index, output_type), tf.cast(tf.reshape(count, [1]), output_type)
        )


def non_zero_with_value_shape(
    value: Any, index: Any, count: Any, name: Optional[str] = None
) -> NonZeroWithValueShape:
    """Cuts the results of `nonzero_with_value` (with transpose) to the elements that there are.

    Args:
        value: its first result, of n elements.
        index: its second result, of 2 * n elements.
        count: its third result.
        name: a name for the results.

    Returns:
        (value [count], index [2 * count]): first all rows, then all columns.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.non_zero_with_value_shape.
    """
    op = "non_zero_with_value_shape"
    value, index = tensor(op, "value", value), tensor(op, "index", index)
    with tf.name_scope(name, op, [value, index]):
        number = tf.reshape(tf.cast(tensor(op, "count", count), tf.int32), [])
        halves = tf.reshape(index, [2, -1])
        return NonZeroWithValueShape(value[:number], tf.reshape(halves[:, :number], [-1]))


def scatter_elements(
    data: Any, indices: Any, updates: Any, axis: int = 0, name: Optional[str] = None
) -> tf.Tensor:
    """Copies data and writes updates into it, each along one dimension.

    For axis 0 and two dimensions: result[indices[i, j], j] = updates[i, j].

    Args:
        data: a tensor of at least one dimension.
        indices: int32 or int64, of as many dimensions, none larger than data's, except along axis.
            Counted from the end where negative. Where two are equal, either may stand.
        updates: of data's dtype and of indices' shape.
        axis: the dimension that indices count along, from -rank to rank - 1.
        name: a name for the result.

    Returns:
        A tensor of data's shape and dtype.

    Raises:
        TypeError: a dtype is wrong, or the axis is no integer.
        ValueError: a shape or the axis is wrong.
        tf.errors.InvalidArgumentError: (when it runs) an index is out of range.

    Source of the contract: CANN TF Adapter API, npu_ops.scatter_elements.
    """
    op = "scatter_elements"
    data, indices = tensor(op, "data", data), tensor(op, "indices", indices)
    if indices.dtype.base_dtype not in _INTEGERS:
        raise TypeError(
            f"{op}: indices must be int32 or int64, not {indices.dtype.base_dtype.name}"
        )
    updates = tensor(op, "updates", updates, data.dtype.base_dtype)
    dims = data.shape.ndims
    if not dims:
        raise ValueError(f"{op}: data must have a known number of dimensions, at least 1")
    axis = axis_of(op, "axis", axis, data)
    rank(op, "indices", indices, dims, "as data has")
    if not indices.shape.is_compatible_with(updates.shape):
        raise ValueError(
            f"{op}: updates must have the shape of indices, {tuple(indices.shape.as_list())}, "
            f"got {tuple(updates.shape.as_list())}"
        )
    with tf.name_scope(name, op, [data, indices, updates]):
        along = tf.shape(data, out_type=indices.dtype.base_dtype)[axis]
        wrapped = select(indices < 0, indices + along, indices)
        sizes = tf.shape(indices)
        places = []
        for dim in range(dims):
            if dim == axis:
                places.append(wrapped)
                continue
            shape = [1] * dims
            shape[dim] = -1
            count = tf.reshape(tf.range(sizes[dim], dtype=tf.int32), shape)
            places.append(tf.broadcast_to(tf.cast(count, indices.dtype.base_dtype), sizes))
        return tf.tensor_scatter_nd_update(data, tf.stack(places, axis=-1), updates)


def random_choice_with_mask(
    x: Any, count: int = 0, seed: int = 0, seed2: int = 0, name: Optional[str] = None
) -> RandomChoice:
    """Chooses positions of true elements at random, without putting any back.

    Args:
        x: a bool tensor of 1 to 5 dimensions.
        count: how many; 0 for all there are.
        seed: the graph's seed. If both are 0, the choice is another one in every run.
        seed2: the op's seed.
        name: a name for the results.

    Returns:
        (y int32 [count, x's rank], mask bool [count]). Where there are fewer true elements than
        count, the last rows of y are 0 and mask is false there.

    Raises:
        TypeError: x is not bool, or count is no integer.
        ValueError: count is below 0, or x has another number of dimensions.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.randomchoicewithmask.
    """
    op = "randomchoicewithmask"
    x = _mask(op, x)
    if isinstance(count, bool) or not isinstance(count, numbers.Integral):
        raise TypeError(f"{op}: count must be an integer, got {count!r}")
    if count < 0:
        raise ValueError(f"{op}: count must be at least 0, got {count}")
    with tf.name_scope(name, op, [x]):
        found = tf.cast(tf.where(x), tf.int32)
        shuffled = tf.raw_ops.RandomShuffle(value=found, seed=seed, seed2=seed2)
        if count == 0:
            return RandomChoice(shuffled, tf.ones([tf.shape(shuffled)[0]], tf.bool))
        y, mask = _cut(shuffled, count)
        y.set_shape([count, x.shape.ndims])
        mask.set_shape([count])
        return RandomChoice(y, mask)


def stateless_random_choice_with_mask(
    x: Any, count: Any, seed: Any, offset: Any, name: Optional[str] = None
) -> RandomChoice:
    """Like `random_choice_with_mask`, with a choice that depends on nothing but the arguments.

    Args:
        x: a bool tensor of 1 to 5 dimensions.
        count: how many, a number or an integer scalar; 0 for all there are.
        seed: an integer scalar. Equal seeds and offsets choose equally on every rank.
        offset: an integer scalar.
        name: a name for the results.

    Returns:
        (y int32 [count, x's rank], mask bool [count]).

    Raises:
        TypeError: x is not bool.
        ValueError: count is a number below 0, or x has another number of dimensions.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.stateless_random_choice_with_mask.
    """
    op = "stateless_random_choice_with_mask"
    x = _mask(op, x)
    if isinstance(count, numbers.Integral) and count < 0:
        raise ValueError(f"{op}: count must be at least 0, got {count}")
    with tf.name_scope(name, op, [x]):
        wanted = tf.reshape(tf.cast(tensor(op, "count", count), tf.int32), [])
        seeds = tf.stack(
            [tf.reshape(tf.cast(tensor(op, what, value), tf.int64), [])
             for what, value in (("seed", seed), ("offset", offset))]
        )  # fmt: skip
        found = tf.cast(tf.where(x), tf.int32)
        there = tf.shape(found)[0]
        keys = tf.random.stateless_uniform([there], seeds, dtype=tf.float32)
        shuffled = tf.gather(found, tf.argsort(keys, stable=True))
        return RandomChoice(*_cut(shuffled, select(tf.equal(wanted, 0), there, wanted)))


def get_shape(x: Any, name: Optional[str] = None) -> tf.Tensor:
    """Returns the sizes of a tensor's dimensions, or of several tensors' one after the other.

    Args:
        x: a tensor, or a list of tensors.
        name: a name for the result.

    Returns:
        int32, 1-D.

    Source of the contract: CANN TF Adapter API, op GetShape.
    """
    with tf.name_scope(name, "get_shape"):
        if isinstance(x, (list, tuple)) and x and all(isinstance(one, tf.Tensor) for one in x):
            return tf.concat([tf.shape(one) for one in x], axis=0)
        return tf.shape(tensor("getshape", "x", x))


def _cut(found: tf.Tensor, count: Any) -> Tuple[tf.Tensor, tf.Tensor]:
    """Returns the first `count` rows, filled up with zeros, and which of them were there."""
    there = tf.shape(found)[0]
    rows = found[:count]
    missing = tf.maximum(count - there, 0)
    return tf.pad(rows, [[0, missing], [0, 0]]), tf.range(count) < there


def _mask(op: str, x: Any) -> tf.Tensor:
    x = tensor(op, "x", x)
    if x.dtype.base_dtype != tf.bool:
        raise TypeError(f"{op}: x must be bool, not {x.dtype.base_dtype.name}")
    if x.shape.ndims is not None and not 1 <= x.shape.ndims <= 5:
        raise ValueError(f"{op}: x must have 1 to 5 dimensions, got {x.shape.ndims}")
    return x


def _index_type(op: str, dtype: Any) -> None:
    if tf.as_dtype(dtype) not in _INTEGERS:
        raise ValueError(
            f"{op}: output_type must be tf.int32 or tf.int64, got {tf.as_dtype(dtype).name}"
        )


def _not_zero(x: tf.Tensor) -> tf.Tensor:
    if x.dtype.base_dtype == tf.bool:
        return x
    return tf.not_equal(x, tf.zeros([], x.dtype.base_dtype))

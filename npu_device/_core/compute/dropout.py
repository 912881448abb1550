"""Dropout in its published forms, and the ops that make and apply a mask.

A mask comes from tf.random.uniform's generator, so seeds act as they do everywhere in TensorFlow:
an op's seed and the graph's seed together fix it, and an op's seed alone goes with
DEFAULT_GRAPH_SEED (87654321) for the graph's. The NPU's generator gives other masks for the same
seeds.
"""

from __future__ import annotations

import numbers
from typing import Any, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import (
    floating,
    rank,
    scalars,
    select,
    static_shape,
    static_value,
    tensor,
    widened,
)

#: The seed that TensorFlow uses for the graph where a script sets only that of an op.
DEFAULT_GRAPH_SEED = 87654321

_BITS_ALIGNED = 128  # the packed mask of drop_out_gen_mask is padded to this many bits
_FRACTAL = 16  # edge of the blocks that drop_out_gen_mask_v3 lays its mask out in


def dropout(
    x: Any,
    keep_prob: Any,
    noise_shape: Any = None,
    seed: Optional[int] = None,
    name: Optional[str] = None,
    op: str = "dropout",
) -> tf.Tensor:
    """Sets elements to 0 at random and divides the others by keep_prob.

    Args:
        x: a floating-point tensor of any shape.
        keep_prob: the probability that an element is kept: a number in (0, 1], or a tensor with
            one. For the number 1, x itself comes back.
        noise_shape: the mask's shape, which broadcasts to x's: elements that share one of the
            mask's are kept or dropped together. None, or a None in it, stands for x's size.
        seed: the op's seed; see tf.set_random_seed.
        name: a name for the result.
        op: what error texts call it.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: x does not hold floating-point numbers, keep_prob is not in (0, 1], or
            noise_shape does not broadcast to x's shape.

    Source of the contract: CANN TF Adapter API, npu_ops.dropout.
    """
    x = _floating_or_value_error(op, x)
    always = _checked_probability(op, "keep_prob", keep_prob)
    if always:
        return x
    with tf.name_scope(name, "dropout", [x]):
        shape = _mask_shape(op, x, noise_shape)
        (keep,) = scalars(op, tf.float32, keep_prob=keep_prob)
        mask = tf.random.uniform(shape, dtype=tf.float32, seed=seed) < keep
        return _apply(op, x, mask, keep_prob)


def stateless_dropout(
    x: Any,
    noise_shape: Any,
    p: Any,
    seed: Any,
    offset: Any,
    name: Optional[str] = None,
    op: str = "stateless_dropout",
) -> tf.Tensor:
    """Dropout whose mask depends on nothing but its arguments.

    Args:
        x: a floating-point tensor of any shape.
        noise_shape: the mask's shape, which broadcasts to x's; None for x's own.
        p: the probability that an element is set to 0: a number in [0, 1), or a tensor with one.
            The elements that are kept are divided by 1 - p.
        seed: an integer. Equal seeds and offsets give equal masks, on every rank and in every run.
        offset: an integer; another one gives another mask for the same seed.
        name: a name for the result.
        op: what error texts call it.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        ValueError: x does not hold floating-point numbers, p is not in [0, 1), or noise_shape does
            not broadcast to x's shape.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.stateless_dropout.
    """
    x = _floating_or_value_error(op, x)
    if isinstance(p, numbers.Real) and not 0 <= float(p) < 1:
        raise ValueError(f"{op}: p must be a number or scalar tensor in [0, 1), got {p!r}")
    with tf.name_scope(name, "stateless_dropout", [x]):
        shape = _mask_shape(op, x, noise_shape)
        (dropped,) = scalars(op, tf.float32, p=p)
        seeds = tf.stack(
            [tf.reshape(tf.cast(tensor(op, what, value), tf.int64), [])
             for what, value in (("seed", seed), ("offset", offset))]
        )  # fmt: skip
        mask = tf.random.stateless_uniform(shape, seeds, dtype=tf.float32) >= dropped
        return _apply(op, x, mask, 1 - p if isinstance(p, numbers.Real) else 1.0 - dropped)


def drop_out_gen_mask(
    shape: Any, prob: Any, seed: int = 0, seed2: int = 0, name: Optional[str] = None
) -> tf.Tensor:
    """Makes a packed mask.

    Args:
        shape: the shape of what the mask is for, int32 or int64.
        prob: the probability that an element is kept, a scalar.
        seed: the graph's seed. If both are 0, the mask is another one in every run.
        seed2: the op's seed.
        name: a name for the mask.

    Returns:
        uint8, 1-D: a bit an element, the first in the lowest bit of the first byte, padded with
        zeros to a multiple of 16 bytes.

    Source of the contract: CANN TF Adapter API, op DropOutGenMask.
    """
    with tf.name_scope(name, "drop_out_gen_mask"):
        count = tf.reduce_prod(tf.cast(tensor("drop_out_gen_mask", "shape", shape), tf.int64))
        kept = _kept("drop_out_gen_mask", [count], prob, seed, seed2)
        padding = tf.math.floormod(-count, _BITS_ALIGNED)
        bits = tf.reshape(tf.pad(tf.cast(kept, tf.int32), [[0, padding]]), [-1, 8])
        places = tf.constant([1 << place for place in range(8)], tf.int32)
        return tf.cast(tf.reduce_sum(bits * places, axis=1), tf.uint8)


def drop_out_do_mask(x: Any, mask: Any, keep_prob: Any, name: Optional[str] = None) -> tf.Tensor:
    """Applies a mask of `drop_out_gen_mask`.

    Args:
        x: a floating-point tensor with at most as many elements as the mask has bits.
        mask: uint8, 1-D.
        keep_prob: what kept elements are divided by, a scalar.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        TypeError: x does not hold floating-point numbers.

    Source of the contract: CANN TF Adapter API, op DropOutDoMask.
    """
    x = floating("drop_out_do_mask", "x", x)
    mask = tensor("drop_out_do_mask", "mask", mask, tf.uint8)
    rank("drop_out_do_mask", "mask", mask, 1, "[bytes]")
    with tf.name_scope(name, "drop_out_do_mask", [x, mask]):
        places = tf.constant([1 << place for place in range(8)], tf.int32)
        bits = tf.not_equal(tf.bitwise.bitwise_and(tf.cast(mask, tf.int32)[:, None], places), 0)
        return _apply("drop_out_do_mask", x, _first(tf.reshape(bits, [-1]), x), keep_prob)


def drop_out_gen_mask_v3(
    shape: Any, prob: Any, seed: int = 0, seed2: int = 0, name: Optional[str] = None
) -> tf.Tensor:
    """Makes a mask with a byte an element.

    Args:
        shape: the shape of what the mask is for; its value must be known when the op is made.
        prob: the probability that an element is kept, a scalar.
        seed: the graph's seed. If both are 0, the mask is another one in every run.
        seed2: the op's seed.
        name: a name for the mask.

    Returns:
        uint8, 1 for what is kept. If the last two sizes M, N are multiples of 16, of shape
        [..., N / 16, M / 16, 16, 16]; else 1-D, padded with zeros to a multiple of 16.

    Raises:
        ValueError: the shape is not known.

    Source of the contract: CANN TF Adapter API, op DropOutGenMaskV3.
    """
    known = static_value(tensor("drop_out_gen_mask_v3", "shape", shape))
    if known is None:
        raise ValueError(
            "drop_out_gen_mask_v3: shape must be known when the op is made, since the mask's "
            "layout depends on it. Use drop_out_gen_mask_v4."
        )
    sizes = [int(size) for size in known]
    with tf.name_scope(name, "drop_out_gen_mask_v3"):
        kept = tf.cast(_kept("drop_out_gen_mask_v3", sizes, prob, seed, seed2), tf.uint8)
        if _has_blocks(sizes):
            blocks = tf.reshape(kept, _row_blocks(sizes))
            return tf.transpose(blocks, _between_layouts(len(sizes), to_mask=True))
        flat = tf.reshape(kept, [-1])
        return tf.pad(flat, [[0, tf.math.floormod(-tf.size(flat), _FRACTAL)]])


def drop_out_gen_mask_v4(
    shape: Any,
    prob: Any,
    seed: int = 0,
    seed2: int = 0,
    dtype: Any = tf.bool,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Makes a mask of the shape that it is for.

    Args:
        shape: the shape, int32 or int64.
        prob: the probability that an element is kept, a scalar.
        seed: the graph's seed. If both are 0, the mask is another one in every run.
        seed2: the op's seed.
        dtype: tf.bool or tf.uint8.
        name: a name for the mask.

    Returns:
        The mask; true or 1 is for what is kept.

    Raises:
        ValueError: dtype is another.

    Source of the contract: CANN TF Adapter API, op DropOutGenMaskV4.
    """
    check_mask_dtype("drop_out_gen_mask_v4", dtype)
    with tf.name_scope(name, "drop_out_gen_mask_v4"):
        shape = tensor("drop_out_gen_mask_v4", "shape", shape)
        return tf.cast(_kept("drop_out_gen_mask_v4", shape, prob, seed, seed2), dtype)


def drop_out_do_mask_v3(x: Any, mask: Any, keep_prob: Any, name: Optional[str] = None) -> tf.Tensor:
    """Applies a mask of `drop_out_gen_mask_v3` or `drop_out_gen_mask_v4`.

    Args:
        x: a floating-point tensor whose number of dimensions is known.
        mask: uint8 or bool, as made for x's shape.
        keep_prob: what kept elements are divided by, a scalar.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        TypeError: x does not hold floating-point numbers.
        ValueError: the mask's shape does not belong to x's.

    Source of the contract: CANN TF Adapter API, op DropOutDoMaskV3.
    """
    op = "drop_out_do_mask_v3"
    x = floating(op, "x", x)
    mask = tf.cast(tensor(op, "mask", mask), tf.bool)
    with tf.name_scope(name, op, [x, mask]):
        known = x.shape.as_list() if x.shape.is_fully_defined() else None
        dims, mask_dims = x.shape.ndims, mask.shape.ndims
        if known is not None and _has_blocks(known) and mask_dims == dims + 2:
            rows = tf.transpose(mask, _between_layouts(dims, to_mask=False))
            return _apply(op, x, tf.reshape(rows, known), keep_prob)
        if mask_dims == 1 and dims != 1:
            return _apply(op, x, _first(mask, x), keep_prob)
        if mask_dims == 1 and not mask.shape.is_compatible_with(x.shape):
            return _apply(op, x, _first(mask, x), keep_prob)
        if not mask.shape.is_compatible_with(x.shape):
            raise ValueError(
                f"{op}: a mask of shape {tuple(mask.shape.as_list())} was not made "
                f"for x of shape {tuple(x.shape.as_list())}"
            )
        return _apply(op, x, mask, keep_prob)


def check_mask_dtype(op: str, dtype: Any) -> None:
    """Checks the dtype of a mask that is not packed.

    Raises:
        ValueError: it is neither bool nor uint8.
    """
    if tf.as_dtype(dtype) not in (tf.bool, tf.uint8):
        raise ValueError(
            f"{op}: the mask's dtype must be tf.bool or tf.uint8, got {tf.as_dtype(dtype).name}"
        )


def _floating_or_value_error(op: str, x: Any) -> tf.Tensor:
    x = tensor(op, "x", x)
    if not x.dtype.is_floating:
        raise ValueError(
            f"{op}: x must be a floating-point tensor, not {x.dtype.base_dtype.name}. Use tf.cast."
        )
    return x


def _checked_probability(op: str, what: str, value: Any) -> bool:
    """Checks a number, and returns whether it is 1."""
    if not isinstance(value, numbers.Real):
        return False
    if not 0 < float(value) <= 1:
        raise ValueError(f"{op}: {what} must be a number or scalar tensor in (0, 1], got {value!r}")
    return value == 1


def _mask_shape(op: str, x: tf.Tensor, noise_shape: Any) -> Any:
    if noise_shape is None:
        return tf.shape(x)
    if isinstance(noise_shape, tf.TensorShape):
        noise_shape = noise_shape.as_list()
    if isinstance(noise_shape, (list, tuple)):
        if any(size is None for size in noise_shape):
            if x.shape.ndims is not None and len(noise_shape) != x.shape.ndims:
                raise ValueError(
                    f"{op}: noise_shape {list(noise_shape)} has a None, so it must have as many "
                    f"entries as x has dimensions, which is {x.shape.ndims}"
                )
            own = static_shape(x)
            noise_shape = [own[axis] if size is None else size
                           for axis, size in enumerate(noise_shape)]  # fmt: skip
        if all(isinstance(size, numbers.Integral) for size in noise_shape):
            _check_broadcast(op, noise_shape, x)
        return noise_shape
    shape = tensor(op, "noise_shape", noise_shape)
    known = static_value(shape)
    if known is not None:
        _check_broadcast(op, [int(size) for size in known.reshape(-1)], x)
    return shape


def _check_broadcast(op: str, noise_shape: Sequence[int], x: tf.Tensor) -> None:
    if x.shape.ndims is None:
        return
    try:
        result = tf.broadcast_static_shape(tf.TensorShape(list(noise_shape)), x.shape)
        fits = result.is_compatible_with(x.shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"{op}: noise_shape {list(noise_shape)} must broadcast to x's shape "
            f"{tuple(x.shape.as_list())}: each size must be x's or 1"
        )


def _kept(op: str, shape: Any, prob: Any, seed: int, seed2: int) -> tf.Tensor:
    uniform = tf.raw_ops.RandomUniform(
        shape=tf.convert_to_tensor(shape), dtype=tf.float32, seed=seed, seed2=seed2
    )
    (keep,) = scalars(op, tf.float32, prob=prob)
    return uniform < keep


def _apply(op: str, x: tf.Tensor, mask: tf.Tensor, keep_prob: Any) -> tf.Tensor:
    # Selected, not multiplied: a dropped infinity is 0, not a NaN.
    wide = widened(x)
    (keep,) = scalars(op, wide.dtype, keep_prob=keep_prob)
    scaled = wide / keep
    result = tf.cast(select(mask, scaled, tf.zeros_like(scaled)), x.dtype.base_dtype)
    result.set_shape(x.shape)
    return result


def _first(flat_mask: tf.Tensor, x: tf.Tensor) -> tf.Tensor:
    return tf.reshape(flat_mask[: tf.size(x)], tf.shape(x))


def _has_blocks(sizes: Sequence[int]) -> bool:
    return len(sizes) >= 2 and sizes[-1] % _FRACTAL == 0 and sizes[-2] % _FRACTAL == 0


def _row_blocks(sizes: Sequence[int]) -> Any:
    rows, columns = sizes[-2], sizes[-1]
    return [*sizes[:-2], rows // _FRACTAL, _FRACTAL, columns // _FRACTAL, _FRACTAL]


def _between_layouts(dims: int, to_mask: bool) -> Any:
    """Axes for [..., M/16, 16, N/16, 16] to [..., N/16, M/16, 16, 16], or back."""
    first = dims - 2
    order = (2, 0, 1, 3) if to_mask else (1, 2, 0, 3)
    return [*range(first), *[first + axis for axis in order]]

"""Deformable convolution, version 2."""

from __future__ import annotations

import numbers
from typing import Any, List, NamedTuple, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import (
    dimension,
    floating,
    one_of,
    rank,
    same_dtype,
    static_shape,
    vector_jacobian,
    widened,
)

_FORMATS = ("NHWC", "NCHW")
_TO_NHWC, _TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


class _Window(NamedTuple):
    """Sizes of a sliding window: kernel, stride and dilation as (height, width)."""

    kernel: Sequence[int]
    stride: Sequence[int]
    dilation: Sequence[int]
    pads: Sequence[int]


def deformable_offsets(
    x: Any,
    offsets: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    ksize: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    data_format: str = "NHWC",
    deformable_groups: int = 1,
    modulated: bool = True,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Gathers what a deformable convolution multiplies with its filter.

    Each position of the filter is moved by an offset of its own, the image is interpolated
    bilinearly there (it is 0 outside), and the value is multiplied by a mask.

    Args:
        x: the image, [batch, height, width, channels] (for NHWC), floating point.
        offsets: [batch, out_height, out_width, 3 * deformable_groups * kh * kw], of x's dtype: the
            offsets to the right, then those down, then the masks, each as [group, kh, kw].
        strides: 4 integers in data_format's order; 1 for batch and channels.
        pads: (top, bottom, left, right) in pixels.
        ksize: (kh, kw), the filter's size.
        dilations: 4 integers in data_format's order; 1 for batch and channels.
        data_format: "NHWC" or "NCHW", of x, offsets and the result.
        deformable_groups: how many groups of channels have their own offsets.
        modulated: must be True: the version with masks.
        name: a name for the result.

    Returns:
        [batch, out_height * kh, out_width * kw, channels] (for NHWC), of x's dtype. A convolution
        with stride (kh, kw) and without padding follows.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, op DeformableOffsets.
    """
    op = "deformable_offsets"
    x, offsets = floating(op, "x", x), floating(op, "offsets", offsets)
    window = _checked(op, x, offsets, strides, pads, ksize, dilations, data_format,
                      deformable_groups, modulated)  # fmt: skip
    with tf.name_scope(name, op, [x, offsets]):
        image, moves = widened(x), widened(offsets)
        if data_format == "NCHW":
            image, moves = tf.transpose(image, _TO_NHWC), tf.transpose(moves, _TO_NHWC)
        result = _gathered(image, moves, window, deformable_groups)
        if data_format == "NCHW":
            result = tf.transpose(result, _TO_NCHW)
        return tf.cast(result, x.dtype.base_dtype)


def deformable_offsets_grad(
    grad: Any,
    x: Any,
    offsets: Any,
    strides: Sequence[int],
    pads: Sequence[int],
    ksize: Sequence[int],
    dilations: Sequence[int] = (1, 1, 1, 1),
    data_format: str = "NHWC",
    deformable_groups: int = 1,
    modulated: bool = True,
    name: Optional[str] = None,
) -> List[tf.Tensor]:
    """The gradients of `deformable_offsets`.

    Args:
        grad: the gradient of its result.
        x: its argument.
        offsets: its argument.
        strides: its argument.
        pads: its argument.
        ksize: its argument.
        dilations: its argument.
        data_format: its argument.
        deformable_groups: its argument.
        modulated: its argument.
        name: a name for the gradients.

    Returns:
        Those of x and offsets.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, op DeformableOffsetsGrad.
    """
    op = "deformable_offsets_grad"

    def function(x: tf.Tensor, offsets: tf.Tensor) -> tf.Tensor:
        return deformable_offsets(x, offsets, strides, pads, ksize, dilations, data_format,
                                  deformable_groups, modulated)  # fmt: skip

    with tf.name_scope(name, op):
        inputs = [floating(op, "x", x), floating(op, "offsets", offsets)]
        return vector_jacobian(function, inputs, [floating(op, "grad", grad)])


def deformable_conv2d(
    x: Any,
    filter: Any,
    offsets: Any,
    strides: Optional[Sequence[int]] = None,
    pads: Optional[Sequence[int]] = None,
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    groups: int = 1,
    deformable_groups: int = 1,
    modulated: bool = True,
    name: Optional[str] = None,
) -> tf.Tensor:
    """A convolution whose filter positions are moved and weighted; see `deformable_offsets`.

    Args:
        x: the image, [batch, height, width, channels] (for NHWC), floating point.
        filter: [kh, kw, channels, out_channels], of x's dtype.
        offsets: see `deformable_offsets`.
        strides: 4 integers in data_format's order; required.
        pads: (top, bottom, left, right) in pixels; required.
        data_format: "NHWC" or "NCHW", of x, offsets and the result.
        dilations: 4 integers in data_format's order.
        groups: must be 1.
        deformable_groups: how many groups of channels have their own offsets.
        modulated: must be True.
        name: a name for the result.

    Returns:
        [batch, out_height, out_width, out_channels] (for NHWC), of x's dtype, where out_height is
        (height + top + bottom - dilation * (kh - 1) - 1) // stride + 1, and out_width likewise.

    Raises:
        TypeError: dtypes differ or are not of floating point.
        ValueError: a shape or an attribute is wrong.

    Source of the contract: CANN TF Adapter API, npu_cube_ops.deformable_conv2d.
    """
    op = "deformable_conv2d"
    x, offsets = floating(op, "x", x), floating(op, "offsets", offsets)
    weights = floating(op, "filter", filter)
    rank(op, "filter", weights, 4, "[height, width, channels, out_channels]")
    same_dtype(op, "x", x, "filter", weights)
    if groups != 1:
        raise ValueError(f"{op}: groups must be 1, got {groups!r}")
    for what, value in (("strides", strides), ("pads", pads)):
        if value is None:
            raise ValueError(f"{op}: {what} is required: 4 integers")
    kernel = weights.shape.as_list()[:2]
    if None in kernel:
        raise ValueError(f"{op}: the filter's height and width must be known, got {kernel}")
    window = _checked(op, x, offsets, strides, pads, kernel, dilations, data_format,
                      deformable_groups, modulated)  # fmt: skip
    channels = data_format.index("C")
    dimension(op, "filter", weights, 2, x.shape.as_list()[channels])
    with tf.name_scope(name, op, [x, weights, offsets]):
        image, moves = widened(x), widened(offsets)
        if data_format == "NCHW":
            image, moves = tf.transpose(image, _TO_NHWC), tf.transpose(moves, _TO_NHWC)
        gathered = _gathered(image, moves, window, deformable_groups)
        # Always NHWC: TensorFlow has no NCHW convolution on the CPU.
        result = tf.nn.conv2d(gathered, widened(weights), strides=[1, *kernel, 1], padding="VALID")
        if data_format == "NCHW":
            result = tf.transpose(result, _TO_NCHW)
        return tf.cast(result, x.dtype.base_dtype)


def _gathered(image: tf.Tensor, moves: tf.Tensor, window: _Window, groups: int) -> tf.Tensor:
    batch, height, width, channels = static_shape(image)
    _, out_height, out_width, _ = static_shape(moves)
    kh, kw = window.kernel
    per_group = channels // groups
    moves = tf.reshape(moves, [batch, out_height, out_width, 3, groups, kh, kw])
    rows = _regular(out_height, kh, window, 0, image.dtype, [1, -1, 1, 1, kh, 1])
    columns = _regular(out_width, kw, window, 1, image.dtype, [1, 1, -1, 1, 1, kw])
    rows, columns = rows + moves[..., 1, :, :, :], columns + moves[..., 0, :, :, :]
    top, left = tf.floor(rows), tf.floor(columns)
    flat = tf.reshape(image, [-1, per_group])
    first = tf.reshape(tf.range(batch) * (height * width), [-1, 1, 1, 1, 1, 1])
    group = tf.reshape(tf.range(groups), [1, 1, 1, -1, 1, 1])

    def corner(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
        # Positions may be infinite or NaN: they are cut before they become integers.
        inside = (row >= 0) & (row < tf.cast(height, row.dtype))
        inside &= (column >= 0) & (column < tf.cast(width, row.dtype))
        nowhere = tf.zeros_like(row)
        r = tf.cast(tf.where_v2(inside, row, nowhere), tf.int32)
        c = tf.cast(tf.where_v2(inside, column, nowhere), tf.int32)
        values = tf.gather(flat, (first + r * width + c) * groups + group)
        share = (1.0 - tf.abs(rows - row)) * (1.0 - tf.abs(columns - column))
        return tf.where_v2(inside, share, nowhere)[..., tf.newaxis] * values

    total = corner(top, left) + corner(top, left + 1)
    total += corner(top + 1, left) + corner(top + 1, left + 1)
    total *= moves[..., 2, :, :, :][..., tf.newaxis]
    # [batch, y, x, group, kh, kw, channel] to [batch, y, kh, x, kw, group, channel]
    ordered = tf.transpose(total, [0, 1, 4, 2, 5, 3, 6])
    return tf.reshape(ordered, [batch, out_height * kh, out_width * kw, channels])


def _regular(out: Any, size: int, window: _Window, axis: int, dtype: Any, shape: Any) -> tf.Tensor:
    """Returns where the filter's positions are before they are moved."""
    starts = tf.range(out) * window.stride[axis] - window.pads[2 * axis]
    positions = starts[:, tf.newaxis] + tf.range(size) * window.dilation[axis]
    return tf.reshape(tf.cast(positions, dtype), shape)


def _checked(
    op: str,
    x: tf.Tensor,
    offsets: tf.Tensor,
    strides: Any,
    pads: Any,
    ksize: Any,
    dilations: Any,
    data_format: str,
    groups: int,
    modulated: bool,
) -> _Window:
    one_of(op, "data_format", data_format, _FORMATS)
    if modulated is not True:
        raise ValueError(f"{op}: modulated must be True: version 1, without masks, is not there")
    same_dtype(op, "x", x, "offsets", offsets)
    rank(op, "x", x, 4, data_format)
    rank(op, "offsets", offsets, 4, data_format)
    height, width, channels = (data_format.index(one) for one in "HWC")
    kernel = _integers(op, "ksize", ksize, 2, 1)
    pads = _integers(op, "pads", pads, 4, 0)
    spatial = []
    for what, value in (("strides", strides), ("dilations", dilations)):
        four = _integers(op, what, value, 4, 1)
        if four[0] != 1 or four[channels] != 1:
            raise ValueError(
                f"{op}: {what} must be 1 for batch and channels ({data_format}), got {four}"
            )
        spatial.append((four[height], four[width]))
    stride, dilation = spatial
    if not isinstance(groups, numbers.Integral) or groups < 1:
        raise ValueError(f"{op}: deformable_groups must be an integer above 0, got {groups!r}")
    own = x.shape.as_list()
    if own[channels] is None:
        raise ValueError(f"{op}: x's number of channels must be known, got shape {tuple(own)}")
    if own[channels] % groups:
        raise ValueError(
            f"{op}: x's {own[channels]} channels cannot be divided into deformable_groups={groups}"
        )
    dimension(op, "offsets", offsets, channels, 3 * groups * kernel[0] * kernel[1])
    dimension(op, "offsets", offsets, 0, own[0])
    for position, axis in enumerate((height, width)):
        if own[axis] is not None:
            padded = own[axis] + pads[2 * position] + pads[2 * position + 1]
            covered = dilation[position] * (kernel[position] - 1) + 1
            dimension(op, "offsets", offsets, axis, (padded - covered) // stride[position] + 1)
    return _Window(kernel, stride, dilation, pads)


def _integers(op: str, what: str, value: Any, count: int, least: int) -> List[int]:
    try:
        entries = [int(one) for one in value]
    except (TypeError, ValueError):
        entries = []
    if len(entries) != count or any(one < least for one in entries):
        raise ValueError(f"{op}: {what} must be {count} integers from {least} on, got {value!r}")
    return entries

"""Ops on images: decoding, and warping by a flow."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import (
    dimension,
    floating,
    rank,
    static_shape,
    static_value,
    tensor,
    vector_jacobian,
    widened,
)


def decode_and_resize_jpeg(image: Any, size: Any, name: Optional[str] = None) -> tf.Tensor:
    """Decodes a JPEG image and resizes it.

    The resizing is bilinear with half-pixel centers, rounded to the nearest integer. The NPU's
    hardware filters otherwise, so single values may differ by some units.

    Args:
        image: the file's bytes, a string scalar.
        size: [height, width] of the result, int32.
        name: a name for the result.

    Returns:
        uint8 [height, width, 3].

    Raises:
        TypeError: an argument has another dtype.
        ValueError: size does not have 2 entries above 0.
        tf.errors.InvalidArgumentError: (when it runs) the bytes are no JPEG image.

    Source of the contract: CANN TF Adapter API, image_ops.decode_and_resize_jpeg.
    """
    op = "decode_and_resize_jpeg"
    contents, size = _contents(op, image), _entries(op, "size", size, 2, 1)
    with tf.name_scope(name, op, [contents]):
        return _resized(tf.image.decode_jpeg(contents, channels=3), size)


def decode_and_crop_and_resize_jpeg(
    image: Any, crop_size: Any, size: Any, name: Optional[str] = None
) -> tf.Tensor:
    """Decodes a part of a JPEG image and resizes it; see `decode_and_resize_jpeg`.

    Args:
        image: the file's bytes, a string scalar.
        crop_size: [y_min, x_min, height, width] of the part, in pixels, int32.
        size: [height, width] of the result, int32.
        name: a name for the result.

    Returns:
        uint8 [height, width, 3].

    Raises:
        TypeError: an argument has another dtype.
        ValueError: size or crop_size has another number of entries, or one that is too small.
        tf.errors.InvalidArgumentError: (when it runs) the bytes are no JPEG image, or the part is
            not inside of it.

    Source of the contract: CANN TF Adapter API, image_ops.decode_and_crop_and_resize_jpeg.
    """
    op = "decode_and_crop_and_resize_jpeg"
    contents, size = _contents(op, image), _entries(op, "size", size, 2, 1)
    window = _entries(op, "crop_size", crop_size, 4, 0)
    with tf.name_scope(name, op, [contents]):
        # Decoding the part only gives other colors along its border.
        whole = tf.image.decode_jpeg(contents, channels=3)
        start = tf.concat([window[:2], [0]], axis=0)
        return _resized(tf.slice(whole, start, tf.concat([window[2:], [3]], axis=0)), size)


def decode_image(
    contents: Any, channels: int = 0, dtype: Any = tf.uint8, expand_animations: bool = True
) -> tf.Tensor:
    """Decodes a BMP, GIF, JPEG or PNG image.

    Args:
        contents: the file's bytes, a string scalar.
        channels: of the result: 1, 3, 4, or 0 for the image's own.
        dtype: tf.uint8, tf.uint16 or tf.float32; floats are in [0, 1].
        expand_animations: return all frames of a GIF image, as [frames, height, width, channels];
            else the first one.

    Returns:
        [height, width, channels], except for a GIF image with expand_animations.

    Raises:
        TypeError: contents is no string.
        ValueError: channels or dtype is another.

    Source of the contract: CANN TF Adapter API, experimental.image.decode_image.
    """
    if channels not in (0, 1, 3, 4):
        raise ValueError(f"decode_image: channels must be 0, 1, 3 or 4, got {channels!r}")
    if tf.as_dtype(dtype) not in (tf.uint8, tf.uint16, tf.float32):
        raise ValueError(
            f"decode_image: dtype must be uint8, uint16 or float32, got {tf.as_dtype(dtype).name}"
        )
    return tf.io.decode_image(
        _contents("decode_image", contents),
        channels=channels,
        dtype=dtype,
        expand_animations=expand_animations,
    )


def dense_image_warp(image: Any, flow: Any, name: Optional[str] = None) -> tf.Tensor:
    """Takes each pixel from where a flow field says that it came from.

    result[b, y, x] = image[b, y - flow[b, y, x, 0], x - flow[b, y, x, 1]], interpolated bilinearly;
    outside of the image the nearest pixel of its border counts.

    Args:
        image: [batch, height, width, channels], floating point.
        flow: [batch, height, width, 2], floating point, in pixels.
        name: a name for the result.

    Returns:
        A tensor of the image's shape and dtype.

    Raises:
        TypeError: an argument does not hold floating-point numbers.
        ValueError: a shape is wrong.

    Source of the contract: CANN TF Adapter API, npu_cpu_ops.dense_image_warp; op DenseImageWarp.
    """
    op = "dense_image_warp"
    image, flow = floating(op, "image", image), floating(op, "flow", flow)
    rank(op, "image", image, 4, "[batch, height, width, channels]")
    rank(op, "flow", flow, 4, "[batch, height, width, 2]")
    dimension(op, "flow", flow, 3, 2)
    for axis in range(3):
        if image.shape.ndims is not None:
            dimension(op, "flow", flow, axis, image.shape.as_list()[axis])
    with tf.name_scope(name, op, [image, flow]):
        pixels, moved = widened(image), widened(flow)
        batch, height, width, channels = static_shape(pixels)
        rows = tf.reshape(tf.cast(tf.range(height), moved.dtype), [1, -1, 1]) - moved[..., 0]
        columns = tf.reshape(tf.cast(tf.range(width), moved.dtype), [1, 1, -1]) - moved[..., 1]
        top, bottom, down = _neighbours(rows, height)
        left, right, across = _neighbours(columns, width)
        down, across = tf.cast(down, pixels.dtype), tf.cast(across, pixels.dtype)
        flat = tf.reshape(pixels, [-1, channels])
        first = tf.reshape(tf.range(batch) * (height * width), [-1, 1, 1])

        def at(row: tf.Tensor, column: tf.Tensor) -> tf.Tensor:
            return tf.gather(flat, first + row * width + column)

        upper = at(top, left) + across * (at(top, right) - at(top, left))
        lower = at(bottom, left) + across * (at(bottom, right) - at(bottom, left))
        result = tf.cast(upper + down * (lower - upper), image.dtype.base_dtype)
        result.set_shape(image.shape)
        return result


def dense_image_warp_grad(
    grad: Any, image: Any, flow: Any, name: Optional[str] = None
) -> List[tf.Tensor]:
    """The gradients of `dense_image_warp`.

    Args:
        grad: the gradient of its result.
        image: its first argument.
        flow: its second.
        name: a name for the gradients.

    Returns:
        Those of image and flow.

    Raises:
        TypeError: an argument does not hold floating-point numbers.
        ValueError: a shape is wrong.

    Source of the contract: CANN TF Adapter API, op DenseImageWarpGrad.
    """
    op = "dense_image_warp_grad"
    with tf.name_scope(name, op):
        return vector_jacobian(
            dense_image_warp,
            [floating(op, "image", image), floating(op, "flow", flow)],
            [floating(op, "grad", grad)],
        )


def _neighbours(position: tf.Tensor, size: Any) -> Any:
    """Returns the pixels before and after a position, and how far it is from the former."""
    last = tf.cast(tf.maximum(size - 2, 0), position.dtype)
    before = tf.minimum(tf.maximum(tf.floor(position), 0.0), last)
    share = tf.clip_by_value(position - tf.stop_gradient(before), 0.0, 1.0)
    index = tf.cast(before, tf.int32)
    return index, tf.minimum(index + 1, size - 1), share[..., tf.newaxis]


def _resized(image: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    floats = tf.image.resize_bilinear(image[tf.newaxis], size, half_pixel_centers=True)[0]
    return tf.cast(tf.clip_by_value(tf.round(floats), 0.0, 255.0), tf.uint8)


def _contents(op: str, value: Any) -> tf.Tensor:
    converted = tensor(op, "the image", value)
    if converted.dtype.base_dtype != tf.string:
        raise TypeError(
            f"{op}: the image must be the bytes of a file, a string scalar, "
            f"not {converted.dtype.base_dtype.name}. Use tf.io.read_file."
        )
    rank(op, "the image", converted, 0, "[]")
    return converted


def _entries(op: str, what: str, value: Any, count: int, least_size: int) -> tf.Tensor:
    converted = tensor(op, what, value, tf.int32)
    rank(op, what, converted, 1, f"[{count}]")
    dimension(op, what, converted, 0, count)
    known = static_value(converted)
    if known is not None and ((known < least_size).any() or (known[-2:] < 1).any()):
        raise ValueError(
            f"{op}: {what} must have heights and widths of at least 1, and no entry below "
            f"{least_size}, got {known.tolist()}"
        )
    return converted

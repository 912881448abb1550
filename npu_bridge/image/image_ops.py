"""Decoding of JPEG images for TensorFlow 1 scripts."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from npu_bridge.helper import helper
from npu_device._core.compute import image as image_functions

__all__ = [
    "decode_and_crop_and_resize_jpeg",
    "decode_and_resize_jpeg",
    "gen_npu_image_ops",
    "helper",
]

#: The raw ops by name.
gen_npu_image_ops = helper.get_gen_ops()


def decode_and_resize_jpeg(image: Any, size: Any) -> tf.Tensor:
    """Decodes a JPEG image and resizes it.

    The resizing is bilinear with half-pixel centers, rounded to the nearest integer. The NPU's
    hardware filters otherwise, so single values may differ by some units.

    Args:
        image: the file's bytes, a string scalar.
        size: [height, width] of the result, int32.

    Returns:
        uint8 [height, width, 3].

    Raises:
        TypeError: an argument has another dtype.
        ValueError: size does not have 2 entries above 0.
        tf.errors.InvalidArgumentError: (when it runs) the bytes are no JPEG image.

    Source of the contract: CANN TF Adapter API, image_ops.decode_and_resize_jpeg.
    """
    return image_functions.decode_and_resize_jpeg(image, size)


def decode_and_crop_and_resize_jpeg(image: Any, crop_size: Any, size: Any) -> tf.Tensor:
    """Decodes a part of a JPEG image and resizes it; see `decode_and_resize_jpeg`.

    Args:
        image: the file's bytes, a string scalar.
        crop_size: [y_min, x_min, height, width] of the part, in pixels, int32.
        size: [height, width] of the result, int32.

    Returns:
        uint8 [height, width, 3].

    Raises:
        TypeError: an argument has another dtype.
        ValueError: size or crop_size has another number of entries, or one that is too small.
        tf.errors.InvalidArgumentError: (when it runs) the bytes are no JPEG image, or the part is
            not inside of it.

    Source of the contract: CANN TF Adapter API, image_ops.decode_and_crop_and_resize_jpeg.
    """
    return image_functions.decode_and_crop_and_resize_jpeg(image, crop_size, size)

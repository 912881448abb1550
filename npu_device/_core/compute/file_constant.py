"""A constant whose value is in a file."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core.compute import refused

_DTYPES = (
    tf.float32, tf.float16, tf.int8, tf.int16, tf.uint16, tf.uint8, tf.int32, tf.int64, tf.uint32,
    tf.uint64, tf.bool, tf.float64,
)  # fmt: skip


def file_constant(
    shape: Sequence[int],
    dtype: Any,
    file_path: Optional[str] = None,
    file_id: Optional[str] = None,
    name: Optional[str] = None,
) -> tf.Tensor:
    """Reads a tensor from a file of its elements, in row-major order and the host's byte order.

    Args:
        shape: the tensor's shape.
        dtype: its dtype.
        file_path: the file. It is read when the op runs.
        file_id: names a file in the configuration of the NPU's graph compiler; not there on CPU.
        name: a name for the result.

    Returns:
        The tensor.

    Raises:
        NotImplementedError: only file_id is given.
        ValueError: neither is given, or a size is below 0, or the file has another size.
        TypeError: there is no such dtype.
        FileNotFoundError: there is no such file.

    Source of the contract: CANN TF Adapter API, experimental.file_constant.
    """
    dtype = tf.as_dtype(dtype)
    if dtype not in _DTYPES:
        names = ", ".join(one.name for one in _DTYPES)
        raise TypeError(f"file_constant: dtype must be one of {names}, not {dtype.name}")
    sizes = [int(size) for size in shape]
    if any(size < 0 for size in sizes):
        raise ValueError(f"file_constant: shape must have no size below 0, got {sizes}")
    if not file_path:
        if file_id:
            raise refused.error("file_constant with file_id")
        raise ValueError("file_constant: file_path is required")
    wanted = dtype.size
    for size in sizes:
        wanted *= size
    found = os.path.getsize(file_path)
    if found != wanted:
        raise ValueError(
            f"file_constant: {file_path} has {found} bytes, but {dtype.name} {sizes} takes {wanted}"
        )
    with tf.name_scope(name, "file_constant"):
        contents = tf.io.read_file(file_path)
        if dtype == tf.bool:
            return tf.reshape(tf.cast(tf.io.decode_raw(contents, tf.uint8), tf.bool), sizes)
        if dtype in (tf.uint32, tf.uint64):
            signed = tf.int32 if dtype == tf.uint32 else tf.int64
            return tf.reshape(tf.bitcast(tf.io.decode_raw(contents, signed), dtype), sizes)
        return tf.reshape(tf.io.decode_raw(contents, dtype), sizes)

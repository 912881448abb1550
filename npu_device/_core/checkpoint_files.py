"""One rank's checkpoint in the hands of all: where it lies, or a copy where it cannot be seen."""

from __future__ import annotations

import hashlib
import os
from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from npu_device._core import job_values, runtime

_INDEX = ".index"


def share(prefix: Optional[str], make_folder: Callable[[], str]) -> Optional[str]:
    """Lets every rank of the job read rank 0's checkpoint. All ranks call.

    Args:
        prefix: path of the checkpoint, without what its files' names end in; None for none. Looked
            at on rank 0 only.
        make_folder: returns a folder of this rank alone, for a copy. A copy that is in it goes.

    Returns:
        The path of the checkpoint on this rank: rank 0's own if the file of this path here is the
        same, else that of a copy; None if rank 0 has none.

    Raises:
        tf.errors.OpError: a file cannot be read or written, or a rank has gone.
    """
    writer = runtime.rank() == 0
    shared = job_values.from_rank(_describe(prefix) if writer else None)
    if shared is None:
        return None
    visible = writer or _describe(shared["prefix"]) == shared
    if not job_values.any_rank(not visible):
        return str(shared["prefix"])
    folder = ""
    if not visible:
        folder = make_folder()
        for name in tf.gfile.ListDirectory(folder):
            tf.gfile.Remove(os.path.join(folder, name))
    for name in shared["files"]:
        data = _read(os.path.join(os.path.dirname(shared["prefix"]), name)) if writer else None
        received = job_values.bytes_from_rank(data)
        if not visible:
            with tf.gfile.GFile(os.path.join(folder, name), "wb") as file:
                file.write(received)
    if visible:
        return str(shared["prefix"])
    return os.path.join(folder, os.path.basename(shared["prefix"]))


def _describe(prefix: Optional[str]) -> Optional[Any]:
    """Returns what tells a checkpoint from another, as JSON gives it back; None if it is not here.

    Its index has the checksums of all values, and stands for the whole.
    """
    if prefix is None or not tf.gfile.Exists(prefix + _INDEX):
        return None
    prefix = prefix if "://" in prefix else os.path.abspath(prefix)
    return {
        "prefix": prefix,
        "index": hashlib.sha256(_read(prefix + _INDEX)).hexdigest(),
        "files": sorted(os.path.basename(path) for path in tf.gfile.Glob(_escaped(prefix) + ".*")),
    }


def _escaped(path: str) -> str:
    return "".join("\\" + letter if letter in "*?[]\\" else letter for letter in path)


def _read(path: str) -> bytes:
    with tf.gfile.GFile(path, "rb") as file:
        return bytes(file.read())

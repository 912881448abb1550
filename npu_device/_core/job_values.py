"""Python values that all ranks of the job take from one of them, outside of any graph of a script.

Every rank calls, in the same order. In a world of one rank nothing is sent.
"""

from __future__ import annotations

import json
import threading
from typing import Any, Optional, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from npu_device._core import collectives, runtime

# Large values go in pieces, so that no rank needs a second copy of all of it.
_PIECE = 64 * 1024 * 1024


class _Exchange:
    """A graph of its own with the ops for one root, and the session that runs them."""

    def __init__(self, root: int) -> None:
        graph = tf.Graph()
        with graph.as_default():
            with tf.name_scope("npu_bridge_job_value"):
                self._length = tf.placeholder(tf.int64, [], name="length")
                self._bytes = tf.placeholder(tf.uint8, [None], name="bytes")
                names = (f"broadcast_length_of_{root}", f"broadcast_bytes_of_{root}")
                self._everyones_length = _broadcast(self._length, root, names[0])
                self._everyones_bytes = _broadcast(self._bytes, root, names[1])
                self._largest = collectives.all_reduce(
                    self._length, "max", name=f"largest_length_beside_{root}"
                )
        self._session = tf.Session(graph=graph)

    def length(self, mine: int) -> int:
        return int(self._session.run(self._everyones_length, {self._length: mine}))

    def piece(self, mine: Any) -> Any:
        return self._session.run(self._everyones_bytes, {self._bytes: mine})

    def largest(self, mine: int) -> int:
        return int(self._session.run(self._largest, {self._length: mine}))


_lock = threading.Lock()
_exchanges: dict[int, _Exchange] = {}


def from_rank(value: Any, root: int = 0) -> Any:
    """Returns the value that one rank passes, on every rank.

    Args:
        value: what JSON can hold; looked at on the root only.
        root: world rank whose value it is.

    Returns:
        The root's value, as JSON gives it back.

    Raises:
        tf.errors.OpError: a rank has gone, or calls something else.
    """
    if runtime.size() == 1:
        return value
    mine = None
    if runtime.rank() == root:
        mine = json.dumps(value).encode("utf-8")
    return json.loads(bytes_from_rank(mine, root).decode("utf-8"))


def bytes_from_rank(value: Optional[bytes], root: int = 0) -> bytes:
    """Returns the bytes that one rank passes, on every rank.

    Args:
        value: the bytes; looked at on the root only.
        root: world rank whose bytes they are.

    Returns:
        The root's bytes.

    Raises:
        tf.errors.OpError: a rank has gone, or calls something else.
    """
    mine = b"" if value is None else value
    if runtime.size() == 1:
        return mine
    is_root = runtime.rank() == root
    with _lock:
        exchange = _exchange(root)
        length = exchange.length(len(mine) if is_root else 0)
        pieces = []
        for start, end in _pieces(length):
            data = np.frombuffer(mine[start:end], np.uint8) if is_root else None
            if data is None:
                data = np.zeros([end - start], np.uint8)
            pieces.append(exchange.piece(data).tobytes())
    return mine if is_root else b"".join(pieces)


def any_rank(value: bool) -> bool:
    """Returns whether the value is true on any rank, on every rank.

    Args:
        value: this rank's.
    """
    if runtime.size() == 1:
        return bool(value)
    with _lock:
        return bool(_exchange(0).largest(int(value)))


def _exchange(root: int) -> _Exchange:
    if root not in _exchanges:
        _exchanges[root] = _Exchange(root)
    return _exchanges[root]


def _pieces(length: int) -> list[Tuple[int, int]]:
    return [(start, min(start + _PIECE, length)) for start in range(0, length, _PIECE)]


def _broadcast(tensor: Any, root: int, name: str) -> Any:
    return collectives.broadcast([tensor], root, 0, -1, collectives.WORLD_GROUP, name)[0]

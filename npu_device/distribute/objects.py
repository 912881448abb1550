"""Python values that ranks give each other. Not in the original.

Only for ranks that trust each other: values travel as pickles, and unpickling a value from a rank
that means harm runs that rank's code.
"""

from __future__ import annotations

import pickle
import threading
from typing import Any, Dict, List, Tuple

import numpy as np
import tensorflow.compat.v1 as tf

from npu_device._core import collectives, groups, op_arguments
from npu_device._core.op_arguments import Node

__all__ = ["MAX_OBJECT_BYTES", "allgather_object", "broadcast_object"]

#: The largest pickle that is sent.
MAX_OBJECT_BYTES = 1024 * 1024 * 1024

_VALUE, _REFUSAL = b"v", b"r"


def broadcast_object(value: Any, root_rank: int = 0, group: str = "hccl_world_group") -> Any:
    """Returns one rank's Python value on all ranks of a group. Not in the original.

    All ranks of the group call it, in the same order as other functions of this module, and not
    inside of a tf.function. For trusted ranks only: the value is unpickled.

    Args:
        value: what pickle can hold, at most MAX_OBJECT_BYTES; looked at on the root only.
        root_rank: whose value it is, a rank of the group.
        group: name of the group.

    Returns:
        On the root `value` itself, elsewhere an equal one.

    Raises:
        TypeError: the value cannot be pickled; on every rank.
        ValueError: its pickle is too large, on every rank; or the group has no such rank.
    """
    root_rank = op_arguments.integer(root_rank, Node("broadcast_object"), "root_rank", 0)
    ranks = groups.rank_size(group)
    if root_rank >= ranks:
        raise ValueError(
            f"broadcast_object: root_rank is {root_rank}, allowed is 0 to {ranks - 1} in group "
            f"{group!r}."
        )
    if ranks == 1:
        return value
    is_root = groups.rank_id(group) == root_rank
    mine = _packed(value, "broadcast_object", group) if is_root else b""
    received = _gathered(mine, group)[root_rank]
    found = _unpacked(received)
    return value if is_root else found


def allgather_object(value: Any, group: str = "hccl_world_group") -> List[Any]:
    """Returns the Python values of all ranks of a group, on all of them. Not in the original.

    All ranks of the group call it, in the same order as other functions of this module, and not
    inside of a tf.function. For trusted ranks only: the values are unpickled.

    Args:
        value: what pickle can hold, at most MAX_OBJECT_BYTES. Each rank may pass another type.
        group: name of the group.

    Returns:
        The values in rank order; this rank's own is `value` itself.

    Raises:
        TypeError: a rank's value cannot be pickled; on every rank, naming it.
        ValueError: a rank's pickle is too large; on every rank, naming it.
    """
    if groups.rank_size(group) == 1:
        return [value]
    own = groups.rank_id(group)
    received = _gathered(_packed(value, "allgather_object", group), group)
    return [value if rank == own else _unpacked(one) for rank, one in _checked(received)]


def _checked(received: List[bytes]) -> List[Tuple[int, bytes]]:
    for one in received:
        if one[:1] == _REFUSAL:
            _unpacked(one)
    return list(enumerate(received))


def _packed(value: Any, function: str, group: str) -> bytes:
    """Returns what to send: the pickle, or why there is none."""
    rank = groups.rank_id(group)
    try:
        data = pickle.dumps(value, protocol=4)
    except Exception as error:  # pickle lets through whatever an object's own methods raise
        text = f"{function}: the value of rank {rank} cannot be pickled: {error}"
        return _REFUSAL + pickle.dumps((TypeError, text))
    if len(data) > MAX_OBJECT_BYTES:
        text = (
            f"{function}: the value of rank {rank} has {len(data)} bytes as a pickle, allowed are "
            f"{MAX_OBJECT_BYTES}. Send arrays with npu_device.distribute's collectives."
        )
        return _REFUSAL + pickle.dumps((ValueError, text))
    return _VALUE + data


def _unpacked(data: bytes) -> Any:
    content = pickle.loads(data[1:])
    if data[:1] == _REFUSAL:
        kind, text = content
        raise kind(text)
    return content


class _Exchange:
    """A graph of its own, which works eagerly as well as beside a TensorFlow 1 graph."""

    def __init__(self, group: str, ranks: int) -> None:
        graph = tf.Graph()
        with graph.as_default(), tf.name_scope("npu_device_objects"):
            self._bytes = tf.placeholder(tf.uint8, [None], name="bytes")
            counts = collectives.all_gather(
                tf.reshape(tf.size(self._bytes, out_type=tf.int64), [1]),
                ranks,
                group=group,
                name="lengths",
            )
            everyone = tf.ones_like(counts)
            self._lengths = counts
            self._joined = collectives.all_to_all_v(
                self._bytes,
                tf.size(self._bytes, out_type=tf.int64) * everyone,
                tf.zeros_like(counts),
                counts,
                tf.cumsum(counts, exclusive=True),
                group=group,
                name="values",
            )
        self._session = tf.Session(graph=graph)

    def run(self, mine: bytes) -> Tuple[Any, Any]:
        data = {self._bytes: np.frombuffer(mine, np.uint8)}
        lengths, joined = self._session.run([self._lengths, self._joined], data)
        return lengths, joined


_lock = threading.Lock()
_exchanges: Dict[Tuple[str, Tuple[int, ...]], _Exchange] = {}


def _gathered(mine: bytes, group: str) -> List[bytes]:
    # With its members: a group of the same name may be made anew with others.
    key = (group, groups.world_ranks(group))
    with _lock:
        if key not in _exchanges:
            _exchanges[key] = _Exchange(group, len(key[1]))
        lengths, joined = _exchanges[key].run(mine)
    ends = np.cumsum(lengths)
    return [joined[end - length : end].tobytes() for length, end in zip(lengths, ends)]

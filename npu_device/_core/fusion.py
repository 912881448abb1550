"""What is merged into one exchange: settings for the graph passes, and what they did.

The passes of the native ops ask `settings` when TensorFlow compiles a graph with collectives, and
tell `record` what they merged in it and why they left the rest alone.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import tempfile
import threading
from typing import Any

from npu_device._core import environment, runtime

# A program that traces a function at every step makes a graph at every step.
MOST_GRAPHS = 1000


@dataclasses.dataclass(frozen=True)
class Segment:
    """Collectives that became one exchange.

    Attributes:
        op: name of the op that stands for them.
        key: what they have in common: op type, group, fusion_id, dtype and what belongs to the op.
        bytes: of all their inputs together.
        members: their names, in the order in which they are exchanged.
    """

    op: str
    key: str
    bytes: int
    members: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Alone:
    """A collective that was left alone.

    Attributes:
        name: the op's name.
        op_type: such as HcomAllReduce.
        reason: why it is not part of a segment.
    """

    name: str
    op_type: str
    reason: str


@dataclasses.dataclass(frozen=True)
class Graph:
    """What was merged in one graph that TensorFlow compiled.

    Attributes:
        name: the function's name; empty for a session's graph, and with TensorFlow before 2.15.
        segments: in graph order.
        alone: the collectives that are in no segment.
    """

    name: str
    segments: tuple[Segment, ...]
    alone: tuple[Alone, ...]


class FusionReport:
    """The graphs with collectives that this process has compiled, oldest first.

    `print(report)` shows a table of them; `to_json` is the same for programs.

    Attributes:
        graphs: a tuple of `Graph`, the last 1000 of them.
    """

    def __init__(self, graphs: tuple[Graph, ...]) -> None:
        self.graphs = graphs

    def to_dict(self) -> dict[str, Any]:
        """Returns the report as dicts and lists: {"graphs": [{"name", "segments", "alone"}]}."""
        return {"graphs": [dataclasses.asdict(graph) for graph in self.graphs]}

    def to_json(self) -> str:
        """Returns `to_dict()` as JSON."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def __str__(self) -> str:
        if not self.graphs:
            return "No graph with collectives has been compiled yet.\n"
        return "\n".join(_text(graph) for graph in self.graphs)


_lock = threading.Lock()
_graphs: collections.deque[Graph] = collections.deque(maxlen=MOST_GRAPHS)


def report() -> FusionReport:
    """Returns which collectives were merged in the graphs compiled so far, and why others not.

    TensorFlow compiles a graph at the first Session.run with these fetches, or the first call of a
    tf.function with these shapes. Eager ops are no graph. NPU_BRIDGE_FUSION_REPORT names a file
    that is kept up to date with the report of rank 0, or of each rank where the name contains
    {rank}; as JSON where it ends in .json.

    Returns:
        A FusionReport: print it, or take its `graphs`, `to_dict()` or `to_json()`.

    Example:
        >>> print(npu_device.fusion_report())
        graph of a session or function: 3 collectives in 1 exchanges, 1 alone
          exchange  HcomAllReduce group hccl_world_group fusion_id 0 float32 sum
                    3 members, 4.0 KiB: HcomAllReduce HcomAllReduce_1 HcomAllReduce_2
          alone     HcomAllReduce HcomAllReduce_3: fusion is 0

    Source of the contract: the rules of fusion on the op pages of the TF Adapter API.
    """
    with _lock:
        return FusionReport(tuple(_graphs))


def settings() -> dict[str, Any]:
    """Returns what the graph passes need to know, as the environment is now.

    Raises:
        ValueError: a variable's value is not allowed.
    """
    return {
        "enabled": bool(environment.value("NPU_BRIDGE_FUSION")),
        "segment_bytes": environment.value("FUSION_TENSOR_SIZE"),
        "split_strategies": runtime.current().split_strategies.to_native(),
    }


def record(graph: dict[str, Any]) -> None:
    """Takes what a graph pass did, and brings the file of NPU_BRIDGE_FUSION_REPORT up to date.

    Args:
        graph: see csrc/bindings/fusion_hooks.h.
    """
    made = Graph(
        graph["graph"],
        tuple(
            Segment(one["op"], one["key"], one["bytes"], tuple(one["members"]))
            for one in graph["segments"]
        ),
        tuple(Alone(**one) for one in graph["alone"]),
    )
    with _lock:
        _graphs.append(made)
        path = environment.value("NPU_BRIDGE_FUSION_REPORT")
        if path:
            _write(path, FusionReport(tuple(_graphs)))


def _write(path: str, whole: FusionReport) -> None:
    process = runtime.current()
    if process.description().rank is None and not process.started():
        return  # the ranks get their numbers when they meet; the next graph writes this one too
    rank = process.rank()
    if "{rank}" in path:
        path = path.replace("{rank}", str(rank))
    elif rank != 0:
        return
    text = whole.to_json() if path.endswith(".json") else str(whole)
    # Whoever reads it while it is written sees the one before.
    folder = os.path.dirname(os.path.abspath(path))
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=os.path.basename(path))
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.remove(temporary)
        raise


def _text(graph: Graph) -> str:
    name = f"graph {graph.name}" if graph.name else "graph of a session or function"
    merged = sum(len(segment.members) for segment in graph.segments)
    lines = [
        f"{name}: {merged} collectives in {len(graph.segments)} exchanges, {len(graph.alone)} alone"
    ]
    for segment in graph.segments:
        lines.append(f"  exchange  {segment.key}")
        size = _size(segment.bytes)
        lines.append(
            f"            {len(segment.members)} members, {size}: {' '.join(segment.members)}"
        )
    lines += [f"  alone     {one.op_type} {one.name}: {one.reason}" for one in graph.alone]
    return "\n".join(lines) + "\n"


def _size(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:g} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"

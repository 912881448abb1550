"""What each rank runs for test_fusion.py's random graphs: fused and unfused give the same values.

fusion_graphs.py session|function COUNT. Hypothesis draws the graphs, the same on all ranks. In
sessions each rank creates the nodes in an order of its own; in a function the order of creation is
part of the program, since TensorFlow runs its stateful ops in that order.
"""

import os
import random
import sys

import hypothesis
import hypothesis.strategies as st
import numpy as np
import tensorflow.compat.v1 as tf

import npu_device
from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

LENGTH = 12  # of every tensor; 2 and 3 ranks divide it
KINDS = ["allreduce", "allgather", "broadcast", "reduce", "reduce_scatter", "all_to_all_v_c", "max"]


@st.composite
def graphs(draw):
    """Draws a list of nodes: (kind, inputs, control inputs, fusion, fusion_id, root, bits)."""
    nodes = []
    for place in range(draw(st.integers(4, 24))):
        earlier = st.integers(0, place - 1)
        inputs = [draw(earlier)] if place else []
        kind = (
            draw(st.sampled_from([*KINDS, *KINDS, "add", "scale", "cast", "cond"]))
            if place
            else "input"
        )
        if kind == "add":
            inputs.append(draw(earlier))
        control = draw(st.lists(earlier, max_size=2, unique=True)) if place else []
        fusion = draw(st.sampled_from([2, 2, 2, 0, 1])) if kind == "allreduce" else 2
        nodes.append(
            {
                "kind": kind,
                "inputs": inputs,
                "control": control,
                "fusion": fusion,
                "fusion_id": -1 if fusion == 1 else draw(st.integers(0, 1)),
                "root": draw(st.integers(0, 1)),
            }
        )
    return nodes


class Builder:
    def __init__(self, nodes, start, rank, size):
        self.nodes = nodes
        self.start = start
        self.rank = rank
        self.size = size
        self.made = {}

    def make(self, place):
        node = self.nodes[place]
        inputs = [self.made[i] for i in node["inputs"]]
        control = [self.made[i].op for i in node["control"]]
        with tf.control_dependencies(control):
            self.made[place] = self.value(node, inputs, "node_%d" % place)

    def value(self, node, inputs, name):
        kind, size = node["kind"], self.size
        how = {"fusion": node["fusion"], "fusion_id": node["fusion_id"]}
        if kind == "input":
            return tf.identity(self.start, name=name)
        x = inputs[0]
        # A scope each, so that no name depends on the order of creation.
        with tf.name_scope(name):
            if kind == "add":
                return tf.cast(x, tf.int32) + tf.cast(inputs[1], tf.int32)
            if kind == "scale":
                # Where this rank's factor equals another constant, TensorFlow makes one of them. Not
                # 1, which it takes out: then the ranks' programs depend on different things.
                factor = self.rank + 2 if node["root"] else 2
                return x * tf.constant(factor, x.dtype)
            if kind == "cast":
                return tf.cast(x, tf.float32 if x.dtype == tf.int32 else tf.int32)
            if kind == "cond":
                # Both ranks take the same branch; the collective in it is fused with no other.
                total = lambda: hccl_ops.allreduce(x, "sum", **how)  # noqa: E731
                return tf.cond(
                    tf.reduce_any(tf.equal(tf.cast(self.start, tf.int32), -1)), lambda: x, total
                )
            if kind == "allreduce":
                return hccl_ops.allreduce(x, "sum", **how)
            if kind == "max":
                return hccl_ops.allreduce(x, "max", **how)
            if kind == "allgather":
                return hccl_ops.allgather(x, size, **how)[:LENGTH]
            if kind == "broadcast":
                return hccl_ops.broadcast([x], node["root"], **how)[0]
            if kind == "reduce":
                return hccl_ops.reduce(x, "sum", node["root"], **how)
            if kind == "reduce_scatter":
                return tf.tile(hccl_ops.reduce_scatter(x, "sum", size, **how), [size])
            matrix = np.full((size, size), LENGTH // size, np.int64)
            return hccl_ops.all_to_all_v_c(x, matrix, self.rank, **how)

    def make_all(self, order):
        for place in order:
            self.make(place)
        return [self.made[place] for place in range(len(self.nodes))]


def own_order(nodes, rank):
    """Returns an order in which each node comes after those that it needs, this rank's own."""
    shuffled = random.Random(rank)
    left, order = set(range(len(nodes))), []
    while left:
        ready = [
            i
            for i in sorted(left)
            if not left.intersection(nodes[i]["inputs"] + nodes[i]["control"])
        ]
        order.append(shuffled.choice(ready))
        left.remove(order[-1])
    return order


def run_session(nodes, rank, size, seed):
    with tf.Graph().as_default(), tf.Session() as session:
        start = tf.placeholder(tf.int32, [LENGTH])
        made = Builder(nodes, start, rank, size).make_all(own_order(nodes, rank))
        # What nobody fetches is not run, on any rank.
        fetches = made[len(made) // 2 :]
        return session.run(fetches, {start: first_values(rank)})


def run_function(nodes, rank, size, seed):
    @tf.function
    def whole(start):
        return Builder(nodes, start, rank, size).make_all(range(len(nodes)))

    return [y.numpy() for y in whole(tf.constant(first_values(rank)))]


def first_values(rank):
    return np.arange(LENGTH, dtype=np.int32) % 5 + rank


def main():
    mode, count = sys.argv[1], int(sys.argv[2])
    rank, size = get_rank_id(), get_rank_size()
    if mode == "session":
        tf.disable_eager_execution()
        run = run_session
    else:
        tf.enable_eager_execution()
        run = run_function
    seen = {"graphs": 0, "segments": 0}

    # No shrinking: ranks that do not fail alike would part, and wait for each other.
    @hypothesis.settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(graphs())
    def check(nodes):
        seen["graphs"] += 1
        os.environ["NPU_BRIDGE_FUSION"] = "1"
        fused = run(nodes, rank, size, seen["graphs"])
        latest = npu_device.fusion_report().graphs
        seen["segments"] += len(latest[-1].segments) if latest else 0
        os.environ["NPU_BRIDGE_FUSION"] = "0"
        plain = run(nodes, rank, size, seen["graphs"])
        for a, b in zip(fused, plain):
            assert a.tobytes() == b.tobytes(), nodes

    check()
    print("compared %(graphs)d graphs with %(segments)d segments" % seen)
    assert seen["segments"] > count // 4, seen


if __name__ == "__main__":
    main()

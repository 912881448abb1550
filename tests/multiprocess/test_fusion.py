"""Collectives of one fusion_id run as one exchange, and nothing else changes."""

from __future__ import annotations

import json
import os

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

_HERE = os.path.dirname(__file__)
_REPORT = """
import npu_device

def segments():
    return [list(segment.members) for segment in npu_device.fusion_report().graphs[-1].segments]

def alone():
    return {one.name: one.reason for one in npu_device.fusion_report().graphs[-1].alone}
"""
SHORT_LIMITS = {
    "NPU_BRIDGE_MISMATCH_TIMEOUT": "2",
    "HCCL_EXEC_TIMEOUT": "20",
}


def graph(body):
    return scripts.graph(_REPORT) + scripts.body(body)


def eager(body):
    return scripts.eager(_REPORT) + scripts.body(body)


def run(ranks, script, **options):
    job = run_ranks(ranks, script, limit=180, **options)
    job.expect_success()
    return job


@pytest.mark.parametrize("mode", ["session", "function"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_results_are_those_of_unfused_ops_bit_for_bit(ranks, mode, record_property):
    path = os.path.join(_HERE, "fusion_values.py")
    job = run_ranks(ranks, path=path, arguments=[mode], limit=180)
    job.expect_success()
    record_property("size", job.outputs[0].splitlines()[-1])


@pytest.mark.parametrize(("mode", "count"), [("session", 40), ("function", 15)])
@pytest.mark.parametrize("ranks", [2, 3])
def test_random_graphs_give_the_values_of_unfused_ones(ranks, mode, count, record_property):
    path = os.path.join(_HERE, "fusion_graphs.py")
    job = run_ranks(ranks, path=path, arguments=[mode, count], limit=400)
    job.expect_success()
    record_property("size", job.outputs[0].splitlines()[-1])


def test_only_what_is_fetched_is_fused_and_members_can_be_fetched_by_name():
    script = graph(
        """
        x = tf.placeholder(tf.float32, [2])
        for i in range(5):
            hccl_ops.allreduce(x + i, "sum", fusion=2, fusion_id=0)
        feed = {x: [rank, 1.0]}
        with tf.Session() as session:
            total = size * (size - 1) / 2
            got = session.run(["HcomAllReduce_3:0", "HcomAllReduce_1:0"], feed)
            assert got[0].tolist() == [total + 3 * size, 4 * size], got
            assert got[1].tolist() == [total + size, 2 * size], got
            assert segments() == [["HcomAllReduce_1", "HcomAllReduce_3"]], segments()
            assert session.run("HcomAllReduce:0", feed).tolist() == [total, size]
            assert segments() == [] and "no other op" in alone()["HcomAllReduce"]
        """
    )
    run(2, script)


def test_one_session_fuses_each_set_of_fetches_for_itself():
    script = graph(
        """
        sums = [
            hccl_ops.allreduce(tf.fill([2], float(i)), "sum", fusion=2, fusion_id=1)
            for i in range(6)
        ]
        roots = [
            hccl_ops.broadcast([tf.fill([3], float(i + rank))], 0, fusion=2, fusion_id=2)[0]
            for i in range(6)
        ]
        with tf.Session() as session:
            for chosen in ([0, 1, 2, 3, 4, 5], [0, 1], [0, 1, 2], [0, 2, 5], [0], [0, 1], [5, 0]):
                values, copies = session.run(
                    [[sums[i] for i in chosen], [roots[i] for i in chosen]]
                )
                assert [value[0] for value in values] == [i * size for i in chosen], values
                assert [value[0] for value in copies] == [float(i) for i in chosen], copies
        """
    )
    run(2, script)


def test_shapes_that_only_the_script_knows_are_enough():
    script = graph(
        """
        known = [tf.placeholder(tf.float32, [3, 2]) for _ in range(2)]
        unknown = tf.placeholder(tf.float32, [None, 2])
        ops = [hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=0) for x in known + [unknown]]
        feed = {x: np.ones([3, 2], np.float32) for x in known + [unknown]}
        with tf.Session() as session:
            for value in session.run(ops, feed):
                assert (value == size).all()
        assert segments() == [["HcomAllReduce", "HcomAllReduce_1"]], segments()
        assert "shape is not fully known" in alone()["HcomAllReduce_2"], alone()
        """
    )
    run(2, script)


def test_functions_in_functions_conditions_and_loops():
    script = eager(
        """
        def two(x):
            return (hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=0),
                    hccl_ops.allreduce(2 * x, "sum", fusion=2, fusion_id=0))

        @tf.function
        def inner(x):
            a, b = two(x)
            return a + b

        @tf.function
        def outer(x, yes):
            first = inner(x)
            second = tf.cond(yes, lambda: sum(two(x)), lambda: x)
            _, third = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + sum(two(x))),
                                     [0, tf.zeros([2])])
            return first, second, third

        x = tf.constant([rank + 1.0, 1.0])
        total = 3 * np.array([sum(range(1, size + 1)), size], np.float32)
        for yes in (True, False):
            first, second, third = outer(x, tf.constant(yes))
            assert first.numpy().tolist() == total.tolist()
            assert second.numpy().tolist() == (total if yes else x.numpy()).tolist()
            assert third.numpy().tolist() == (3 * total).tolist()
        # inner, the branch and the loop's body: two members each, none with another's.
        merged = [len(s.members) for g in npu_device.fusion_report().graphs for s in g.segments]
        assert merged == [2, 2, 2], str(npu_device.fusion_report())
        """
    )
    run(2, script)


def test_eager_lists_are_one_exchange():
    script = eager(
        """
        import npu_device as npu
        before = npu_device.fusion_report().graphs
        tensors = [tf.constant([float(rank + i)] * (i + 1)) for i in range(6)]
        for _ in range(2):
            sums = npu.distribute.all_reduce(tensors, "sum", fusion=2, fusion_id=0)
            for i, value in enumerate(sums):
                assert value.numpy().tolist() == [sum(range(size)) + i * size] * (i + 1)
        graphs = npu_device.fusion_report().graphs
        assert len(graphs) == 1, str(npu_device.fusion_report())
        assert [len(segment.members) for segment in graphs[0].segments] == [6]

        means = npu.distribute.all_reduce((tf.constant([rank]), None, tf.constant([1.0])), "mean",
                                          fusion=2, fusion_id=0)
        assert isinstance(means, tuple) and means[1] is None
        assert means[0].numpy().tolist() == [sum(range(size)) // size]

        with tf.GradientTape() as tape:
            tape.watch(tensors)
            loss = tf.add_n([tf.reduce_sum(t) for t in npu.distribute.all_reduce(
                tensors, "sum", fusion=2, fusion_id=0)])
        for gradient in tape.gradient(loss, tensors):
            assert (gradient.numpy() == size).all()
        # The forward pass and the gradient.
        assert [len(s.members) for g in npu_device.fusion_report().graphs[2:]
                for s in g.segments] == [6, 6], str(npu_device.fusion_report())
        """
    )
    run(2, script)


def test_gradients_of_a_fused_set_are_fused():
    script = graph(
        """
        xs = [tf.placeholder(tf.float32, [i + 1]) for i in range(4)]
        loss = tf.add_n([tf.reduce_sum(hccl_ops.allreduce(x * x, "sum", fusion=2, fusion_id=7))
                         for x in xs])
        gradients = tf.gradients(loss, xs)
        with tf.Session() as session:
            feed = {x: np.full(x.shape, rank + 1.0, np.float32) for x in xs}
            for value in session.run(gradients, feed):
                assert (value == 2 * size * (rank + 1)).all(), value
        assert [len(members) for members in segments()] == [4], segments()
        """
    )
    run(2, script)


def test_a_fused_set_is_one_request():
    script = graph(
        """
        from npu_device._core import library
        from npu_bridge.estimator import npu_ops

        def requests():
            lines = dict(line.split("=") for line in library.native().describe().splitlines())
            return int(lines["ops_submitted"])

        variables = [tf.constant([float(rank), i]) for i in range(200)]
        ops = [hccl_ops.broadcast([v], 1, fusion=2, fusion_id=0)[0] for v in variables]
        with tf.Session() as session:
            session.run(npu_ops.initialize_system())
            before = requests()
            for i, value in enumerate(session.run(ops)):
                assert value.tolist() == [1.0, i]
            assert requests() - before == 1, (before, requests())
        """
    )
    run(2, script)


def test_dtypes_roots_and_groups_are_not_mixed():
    script = graph(
        """
        create_group("pair", 2, [0, 1])
        ops = [
            hccl_ops.allreduce(tf.constant([rank], dtype), "sum", fusion=2, fusion_id=0)
            for dtype in (tf.float16, tf.float32, tf.int32) for _ in range(2)
        ]
        ops += [hccl_ops.broadcast([tf.constant([rank])], root)[0] for root in (0, 1, 0, 1)]
        ops += [hccl_ops.broadcast([tf.constant([rank])], 0, group="pair")[0] for _ in range(2)]
        with tf.Session() as session:
            values = [v.tolist() for v in session.run(ops)]
        assert values == [[1]] * 6 + [[0], [1], [0], [1]] + [[0], [0]], values
        assert sorted(map(len, segments())) == [2] * 6, segments()
        """
    )
    run(2, script)


def test_the_limit_of_bytes_and_the_switch():
    script = graph(
        """
        ops = [hccl_ops.allreduce(tf.fill([n], 1.0), "sum", fusion=2, fusion_id=0)
               for n in (2, 2, 2, 5)]
        with tf.Session() as session:
            assert [v[0] for v in session.run(ops)] == [size] * 4
        if os.environ.get("NPU_BRIDGE_FUSION") == "0":
            assert segments() == [] and set(alone().values()) == {"NPU_BRIDGE_FUSION is 0"}
        else:
            assert segments() == [["HcomAllReduce", "HcomAllReduce_1"]], segments()
            assert "FUSION_TENSOR_SIZE" in alone()["HcomAllReduce_3"], alone()
        """
    )
    run(2, script, environment={"FUSION_TENSOR_SIZE": "16"})
    run(2, script, environment={"FUSION_TENSOR_SIZE": "16", "NPU_BRIDGE_FUSION": "0"})


SPLIT = """
from hccl.split.api import set_split_strategy_by_idx, set_split_strategy_by_size

def exchange(count):
    with tf.Graph().as_default(), tf.Session() as session:
        gradients = [hccl_ops.allreduce(tf.fill([25], 1.0), "sum", fusion=1)
                     for _ in range(count)]
        assert all((v == size).all() for v in session.run(gradients))
    return [len(members) for members in segments()]
"""


def test_gradients_are_cut_by_the_split_strategy():
    script = graph(SPLIT) + scripts.body(
        """
        assert exchange(100) == [96, 4], segments()
        set_split_strategy_by_idx([3, 9, 19])
        assert exchange(20) == [4, 6, 10], segments()
        assert exchange(22) == [4, 6, 10, 2], segments()
        set_split_strategy_by_size([60, 20, 20])
        assert exchange(10) == [6, 2, 2], segments()
        """
    )
    run(2, script)


def test_an_index_beyond_the_gradients_is_an_error():
    script = graph(SPLIT) + scripts.body(
        """
        set_split_strategy_by_idx([3, 9])
        exchange(8)
        """
    )
    job = run_ranks(2, script, limit=60)
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError", "has the index 9, but the graph has 8")


def test_a_rank_that_fetches_fewer_is_told_which():
    script = graph(
        """
        ops = []
        for i in range(4):
            with tf.name_scope("gradient_%d" % i):
                ops.append(hccl_ops.allreduce(tf.zeros([i + 1]), "sum", fusion=2, fusion_id=0))
        with tf.Session() as session:
            session.run(ops if rank == 0 else ops[:2] + ops[3:])
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError")
        job.expect_error(rank, "rank 1 passed 3 fused ops without 'gradient_2/HcomAllReduce'")


def test_shapes_that_differ_are_told_with_the_name_of_the_member():
    script = graph(
        """
        ops = []
        for i in range(4):
            with tf.name_scope("gradient_%d" % i):
                x = tf.zeros([4 if rank == 1 and i == 2 else 3])
                ops.append(hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=0))
        with tf.Session() as session:
            session.run(ops)
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_error(rank, "float32 [4] for 'gradient_2/HcomAllReduce'")


def test_a_rank_that_needs_something_between_members_is_told_to_take_them_apart():
    script = eager(
        """
        @tf.function
        def step(x):
            a = hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=0)
            if rank == 0:
                x = x + hccl_ops.receive([2], tf.float32, 3, 1)
            else:
                hccl_ops.send(a, 3, 0)
            return a, hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=0)

        step(tf.constant([1.0, 2.0]))
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_failure(rank)
        job.expect_error(rank, "fusion=0")


def test_wrong_values_of_fusion_are_errors_that_name_the_op():
    script = graph(
        """
        good = hccl_ops.allreduce(tf.constant([1.0]), "sum", fusion=2, fusion_id=0)
        definition = tf.get_default_graph().as_graph_def()
        for node in definition.node:
            if node.op == "HcomAllReduce":
                node.attr["fusion_id"].i = -5
        with tf.Graph().as_default(), tf.Session() as session:
            tf.import_graph_def(definition, name="")
            session.run("HcomAllReduce:0")
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError")
        job.expect_error(rank, "fusion is 2 and fusion_id is -5")


def test_the_report_is_written_to_the_file_that_is_asked_for(tmp_path):
    script = graph(
        """
        ops = [hccl_ops.allreduce(tf.constant([1.0]), "sum", fusion=2, fusion_id=0)
               for _ in range(3)]
        with tf.Session() as session:
            session.run(ops)
        print(npu_device.fusion_report())
        """
    )
    as_json, as_text = str(tmp_path / "report_{rank}.json"), str(tmp_path / "report.txt")
    run(2, script, environment={"NPU_BRIDGE_FUSION_REPORT": as_json})
    job = run(2, script, environment={"NPU_BRIDGE_FUSION_REPORT": as_text})
    assert sorted(os.listdir(str(tmp_path))) == ["report.txt", "report_0.json", "report_1.json"]
    with open(as_json.format(rank=1), encoding="utf-8") as file:
        (graph_report,) = json.load(file)["graphs"]
    (segment,) = graph_report["segments"]
    assert segment["members"] == ["HcomAllReduce", "HcomAllReduce_1", "HcomAllReduce_2"]
    assert segment["bytes"] == 12
    with open(as_text, encoding="utf-8") as file:
        text = file.read()
    assert "3 members, 12 bytes: HcomAllReduce HcomAllReduce_1 HcomAllReduce_2" in text
    assert text in job.stdout[0]


@pytest.mark.parametrize("hook", ["settings", "record"])
def test_an_interrupt_while_a_graph_is_compiled_is_not_lost(hook):
    script = graph(
        f"""
        import signal
        from npu_device._core import fusion, library

        def interrupted(*arguments):
            os.kill(os.getpid(), signal.SIGINT)
            return getattr(fusion, "{hook}")(*arguments)

        hooks = {{"settings": fusion.settings, "record": fusion.record, "{hook}": interrupted}}
        library.native().set_fusion_hooks(hooks["settings"], hooks["record"])
        total = hccl_ops.allreduce(tf.constant([1.0]), "sum")
        with tf.Session() as session:
            try:
                session.run(total)
            except (KeyboardInterrupt, RuntimeError) as error:
                # The latter from TensorFlow's bindings, where the interrupt comes while they make
                # an exception of their own.
                assert "KeyboardInterrupt" in repr(error), error
                say("interrupted")
            else:
                raise AssertionError("the interrupt was lost")
            library.native().set_fusion_hooks(fusion.settings, fusion.record)
            assert session.run(total).tolist() == [1.0]
        """
    )
    job = run(1, script)
    assert "interrupted" in job.stdout[0]

"""Ranks that issue different collectives, or the same ones under different control flow."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

# Small enough that a test which waits for a limit stays short; the rules do not depend on them.
SHORT_LIMITS = {"HCCL_EXEC_TIMEOUT": "20", "NPU_BRIDGE_MISMATCH_TIMEOUT": "3"}


def test_an_extra_collective_on_one_rank_is_named_on_all_ranks():
    script = scripts.graph(
        """
        vector = tf.placeholder(tf.float32, [10])
        total = hccl_ops.allreduce(vector, "sum")
        with tf.name_scope("have_data"):
            extra = hccl_ops.allreduce(tf.constant(1.0), "sum")
        with tf.Session() as session:
            for step in range(60):
                session.run(total, {vector: np.ones([10], np.float32)})
                if rank == 3 and step == 57:
                    session.run(extra)
        """
    )
    job = run_ranks(4, script, limit=90, environment=SHORT_LIMITS)
    for rank in range(4):
        job.expect_error(rank, "have_data")
        job.expect_error(rank, "ranks 0,1,2 wait")


def test_names_that_differ_only_in_an_outer_scope_fail_with_both_names():
    script = scripts.graph(
        """
        import contextlib
        scope = tf.name_scope("tower") if rank == 1 else contextlib.suppress()
        with scope:
            with tf.name_scope("loss"):
                total = hccl_ops.allreduce(tf.constant([1.0]), "sum")
        with tf.Session() as session:
            session.run(total)
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_error(rank, "tower/loss")
        job.expect_error(rank, "outer scope")


def test_a_broadcast_on_one_rank_against_an_allreduce_on_the_other():
    script = scripts.graph(
        """
        with tf.Session() as session:
            if rank == 0:
                session.run(hccl_ops.broadcast([tf.constant([1.0])], 0))
            session.run(hccl_ops.allreduce(tf.constant([1.0]), "sum"))
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_error(rank, "HcomBroadcast")
        job.expect_error(rank, "HcomAllReduce")


def test_a_collective_in_a_branch_that_one_rank_does_not_take():
    script = scripts.graph(
        """
        value = tf.constant([1.0, 2.0])
        counts = tf.constant([1, 1], tf.int64)
        places = tf.constant([0, 1], tf.int64)
        take = tf.placeholder(tf.bool, [])
        result = tf.cond(
            take,
            lambda: hccl_ops.all_to_all_v(value, counts, places, counts, places),
            lambda: value,
        )
        with tf.Session() as session:
            session.run(hccl_ops.allreduce(tf.constant(1.0), "sum"))
            session.run(result, {take: rank == 0})
        say("finished")
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    job.expect_error(0, "HcomAllToAllV")
    job.expect_error(0, "rank 1")


def test_a_step_that_one_rank_skipped_is_a_desync():
    script = scripts.eager(
        """
        @tf.function
        def step(value, finite):
            return tf.cond(finite, lambda: hccl_ops.allreduce(value, "sum"), lambda: value)

        for number in range(10):
            step(tf.ones([4]), tf.constant(not (rank == 1 and number == 3)))
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_error(rank, "step")
        job.expect_error(rank, "InternalError")


def test_a_shape_that_changes_on_one_rank_in_a_late_step():
    script = scripts.graph(
        """
        value = tf.placeholder(tf.float32, [32, None])
        total = hccl_ops.allreduce(value, "sum")
        with tf.Session() as session:
            for step in range(60):
                columns = 8 if rank == 0 or step < 40 else 9
                session.run(total, {value: np.ones([32, columns], np.float32)})
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_error(rank, "float32 [32,8]")
        job.expect_error(rank, "float32 [32,9]")
        job.expect_error(rank, "HcomAllReduce")


def test_a_slow_rank_is_waited_for():
    script = scripts.graph(
        """
        import time
        total = hccl_ops.allreduce(tf.constant([1.0]), "sum")
        with tf.Session() as session:
            for step in range(3):
                if rank == 0 and step == 1:
                    time.sleep(6)  # the slowness is this test's input
                say(session.run(total)[0])
        """
    )
    limits = dict(SHORT_LIMITS, NPU_BRIDGE_STALL_WARN="2")
    job = run_ranks(2, script, limit=60, environment=limits)
    job.expect_success()
    assert job.outputs[1].count("warning: HcomAllReduce") == 1, job.report()


def test_a_gradient_that_one_rank_lacks_is_not_paired_with_another():
    script = scripts.eager(
        """
        import npu_device as npu
        gradients = [tf.ones([2]), tf.ones([2]) * 2, tf.ones([2]) * 4]
        if rank == 1:
            gradients[1] = None
        say(npu.distribute.all_reduce(gradients, reduction="sum"))
        """
    )
    job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
    for rank in range(2):
        job.expect_failure(rank)


def test_hundreds_of_ops_of_one_graph_may_start_in_any_order():
    script = scripts.graph(
        """
        random = np.random.RandomState(rank)
        inputs = [tf.constant(np.full([1 + i % 50], i + rank, np.float32)) for i in range(300)]
        outputs = {}
        with tf.Session() as session:
            for i, value in enumerate(inputs):
                outputs[i] = hccl_ops.allreduce(value, "sum", fusion=0)
            for step in range(3):
                order = random.permutation(300)
                for i, result in zip(order, session.run([outputs[i] for i in order])):
                    assert (result == sum(i + r for r in range(size))).all(), (i, result)
        """
    )
    run_ranks(4, script, limit=240, fresh=True).expect_success()


def test_parallel_loops_pair_by_iteration():
    script = scripts.graph(
        """
        def body(i, total):
            share = hccl_ops.allreduce(tf.cast(i, tf.float32) * (rank + 1), "sum", fusion=0)
            return i + 1, total + share

        loops = [
            tf.while_loop(lambda i, t: i < 20, body, [0, 0.0], parallel_iterations=8)
            for _ in range(3)
        ]
        with tf.Session() as session:
            for _, total in session.run(loops):
                assert total == 190 * sum(range(1, size + 1)), total
        """
    )
    run_ranks(3, script, limit=90).expect_success()


THREADS = """
    import threading

    def error_of(call, value):
        try:
            call(value)
        except tf.errors.InvalidArgumentError as error:
            return str(error)
        return "none"

    def run(call, send, receive):
        call(0.0)
        if rank == 1:
            receive()  # not before rank 0 has called twice
            print("the other rank:", error_of(call, 1.0))
            return
        errors = []
        threads = [
            threading.Thread(target=lambda value=value: errors.append(error_of(call, value)))
            for value in (1.0, 2.0)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print("both:", all("as two threads may do" in error for error in errors), errors)
        send()
"""


def test_an_op_that_two_threads_call_at_once_is_refused():
    in_graph = scripts.graph(
        THREADS
        + """
    value = tf.placeholder(tf.float32, [])
    total = hccl_ops.allreduce(value, "sum", fusion=0)
    message = hccl_ops.send(tf.constant(1), 1, 1) if rank == 0 else hccl_ops.receive([], tf.int32, 1, 0)
    session = tf.Session()
    run(
        lambda x: session.run(total, {value: x}),
        lambda: session.run(message),
        lambda: session.run(message),
    )
    """
    )
    eagerly = scripts.eager(
        THREADS
        + """
    run(
        lambda x: hccl_ops.allreduce(tf.constant(x), "sum"),
        lambda: hccl_ops.send(tf.constant(1), 1, 1),
        lambda: hccl_ops.receive([], tf.int32, 1, 0),
    )
    """
    )
    for script in (in_graph, eagerly):
        job = run_ranks(2, script, limit=60, environment=SHORT_LIMITS)
        job.expect_success()
        assert "both: True" in job.stdout[0], job.outputs
        assert "rank 0 started it again" in job.stdout[1], job.outputs


def test_ranks_may_fetch_the_same_ops_in_one_run_or_in_several():
    script = scripts.graph(
        """
        import threading
        value = tf.placeholder_with_default(1.0, [])
        one = hccl_ops.allreduce(value * 1.0, "sum", fusion=0)
        two = hccl_ops.allreduce(value * 2.0, "sum", fusion=0)
        session = tf.Session()
        for step in range(3):
            if rank == 0:
                values = session.run([one, two])
            else:
                values = [session.run(two), session.run(one)][::-1]
            assert values == [2.0, 4.0], values

        errors = []

        def work(op, factor):
            try:
                for i in range(50):
                    assert session.run(op, {value: i}) == 2 * factor * i
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=pair) for pair in ((one, 1), (two, 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        """
    )
    run_ranks(2, script, limit=60, environment=SHORT_LIMITS).expect_success()

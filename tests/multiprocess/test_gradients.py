"""Gradients of the collectives: every op, in every way of running, first and second order."""

from __future__ import annotations

import os

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

RANK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gradient_ranks.py")


@pytest.mark.parametrize("mode", ["session", "function", "eager"])
@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_every_op(ranks, mode):
    """With weights that differ by rank, so that a factor of ranks or a wrong rank shows."""
    job = run_ranks(ranks, path=RANK, arguments=[mode], limit=240)
    job.expect_success()
    for output in job.outputs:
        assert "cases: 33" in output, job.report()


def test_known_numbers():
    """Small ones, worked out by hand, with the loss summed over both ranks."""
    script = scripts.graph(
        """
        x = tf.constant([1.0, 2.0]) * (rank + 1)
        weight = 10.0 ** rank
        results = {
            "allreduce": hccl_ops.allreduce(x, "sum"),
            "allgather": hccl_ops.allgather(x, 2),
            "reduce_scatter": hccl_ops.reduce_scatter(x, "sum", 2),
            "broadcast": hccl_ops.broadcast([x], 1)[0],
            "reduce": hccl_ops.reduce(x, "sum", 0),
            "all_to_all_v": hccl_ops.all_to_all_v(x, [1, 1], [0, 1], [1, 1], [0, 1]),
            "all_to_all_v_c": hccl_ops.all_to_all_v_c(x, [[1, 1], [1, 1]], rank),
        }
        names = sorted(results)
        gradients = [tf.gradients(weight * results[name], x)[0] for name in names]
        with tf.Session() as session:
            found = dict(zip(names, [g.tolist() for g in session.run(gradients)]))
        by_rank = [
            # Rank 0 weighs its results with 1, rank 1 with 10.
            {"allreduce": [11, 11], "allgather": [11, 11], "reduce_scatter": [1, 10],
             "broadcast": [0, 0], "reduce": [1, 1], "all_to_all_v": [1, 10],
             "all_to_all_v_c": [1, 10]},
            {"allreduce": [11, 11], "allgather": [11, 11], "reduce_scatter": [1, 10],
             "broadcast": [11, 11], "reduce": [11, 11], "all_to_all_v": [1, 10],
             "all_to_all_v_c": [1, 10]},
        ]
        assert found == by_rank[rank], found
        """
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("mode", [scripts.graph, scripts.eager])
def test_extrema_are_shared_by_those_that_hold_them(mode):
    """Three ranks: one holder, two, three, NaN on one, NaN on two."""
    script = mode(
        """
        nan = float("nan")
        x = np.array([[1, 5, 2, 1, nan], [3, 5, 2, nan, 4], [2, 1, 2, 3, nan]], np.float32)[rank]
        x = tf.constant(x)
        weight = tf.constant([1, 1, 1, 1, 1], tf.float32) * (rank + 1)  # 6 in all

        def gradient(call):
            if not tf.executing_eagerly():
                with tf.Session() as session:
                    return session.run(tf.gradients(weight * call(x), x)[0])
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(weight * call(x))
            return tape.gradient(loss, x).numpy()

        highest = gradient(lambda x: hccl_ops.allreduce(x, "max", fusion=0))
        assert highest.tolist() == [[0, 3, 2, 0, 3], [6, 3, 2, 6, 0], [0, 0, 2, 0, 3]][rank], highest
        lowest = gradient(lambda x: hccl_ops.allreduce(x, "min", fusion=0))
        assert lowest.tolist() == [[6, 0, 2, 0, 3], [0, 0, 2, 6, 0], [0, 6, 2, 0, 3]][rank], lowest
        """
    )
    run_ranks(3, script, limit=180).expect_success()


def test_gradients_stay_in_the_group_of_the_op():
    """Two of four ranks form a group; the others build nothing more and end at once."""
    script = scripts.graph(
        """
        from npu_bridge.estimator import npu_ops
        with tf.Session() as session:  # a job starts when all its ranks have
            session.run(npu_ops.initialize_system())
        if rank in (1, 3):
            create_group("pair", 2, [3, 1])
            x = tf.constant([2.0])
            loss = (rank + 1) * hccl_ops.allreduce(x, "sum", group="pair")
            rows = hccl_ops.allgather(x * x, 2, group="pair")  # rank 3's row comes first
            first = tf.gradients(loss, x)[0]
            second = tf.gradients(rows * tf.constant([1.0, 10.0]) * (rank + 1), x)[0]
            root = tf.gradients((rank + 1) * hccl_ops.broadcast([x], 0, group="pair")[0], x)[0]
            with tf.Session() as session:
                found = [g.tolist() for g in session.run([first, second, root])]
            assert found == [[6], [6 * 4 * (1 if rank == 3 else 10)], [6 if rank == 3 else 0]], found
        """
    )
    run_ranks(4, script, limit=180).expect_success()


@pytest.mark.parametrize("mode", [scripts.graph, scripts.eager])
def test_sparse_gradients_of_a_result(mode):
    """tf.gather makes the gradient of its input an IndexedSlices."""
    script = mode(
        """
        x = tf.constant([[1.0], [2.0]])
        calls = {
            "allgather": lambda x: tf.gather(hccl_ops.allgather(x, 2), [0, 2, 2]),
            "allreduce": lambda x: tf.gather(hccl_ops.allreduce(x, "sum"), [1, 1]),
            "broadcast": lambda x: tf.gather(hccl_ops.broadcast([x], 0)[0], [1, 1]),
            "all_to_all_v": lambda x: tf.gather(
                hccl_ops.all_to_all_v(x, [1, 1], [0, 1], [1, 1], [0, 1]), [1, 1]),
        }
        wanted = {
            "allgather": [[[2], [0]], [[4], [0]]],
            "allreduce": [[[0], [4]], [[0], [4]]],
            "broadcast": [[[0], [4]], [[0], [0]]],
            "all_to_all_v": [[[0], [0]], [[2], [2]]],
        }
        for name, call in sorted(calls.items()):
            if tf.executing_eagerly():
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    loss = tf.reduce_sum(call(x))
                found = tape.gradient(loss, x).numpy()
            else:
                with tf.Session() as session:
                    found = session.run(tf.gradients(call(x), x)[0])
            assert found.tolist() == wanted[name][rank], (name, found)
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_integers_have_no_gradient():
    script = scripts.graph(
        """
        x = tf.constant([1.0, 2.0])
        whole = tf.cast(x, tf.int32)
        for result in (hccl_ops.allreduce(whole, "sum"), hccl_ops.allgather(whole, 2),
                       hccl_ops.broadcast([whole], 0)[0]):
            assert tf.gradients(tf.cast(result, tf.float32), x) == [None]
        mixed = hccl_ops.broadcast([x, whole], 0)
        total = tf.reduce_sum(mixed[0]) + tf.cast(tf.reduce_sum(mixed[1]), tf.float32)
        with tf.Session() as session:
            found = session.run(tf.gradients(total, x)[0]).tolist()
        assert found == ([2, 2] if rank == 0 else [0, 0]), found
        """
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    """The product of the others is multiplied in float32: 300 * 300 does not fit float16."""
    script = scripts.graph(
        """
        x = tf.cast(tf.constant([300.0, 2.0]) if rank < 2 else tf.constant([1 / 512, 4.0]), tf.%s)
        y = hccl_ops.allreduce(x, "prod", fusion=0)
        g = tf.gradients(y, x, tf.cast(tf.constant([1 / 512, 1.0]), tf.%s))[0]
        assert g.dtype == x.dtype
        with tf.Session() as session:
            found = session.run(tf.cast(g, tf.float32)).tolist()
        if rank < 2:
            assert abs(found[0] - 3 * 300 / 512 ** 2) < 1e-4, found
            assert found[1] == 3 * 8, found
        else:
            assert abs(found[0] - 3 * 90000 / 512) < 4, found
            assert found[1] == 3 * 4, found
        """
        % (dtype, dtype)
    )
    run_ranks(3, script, limit=180).expect_success()


def test_ops_of_a_loaded_graph_can_be_differentiated():
    script = scripts.graph(
        """
        with tf.Graph().as_default() as graph:
            x = tf.placeholder(tf.float32, [2], name="x")
            hccl_ops.gen_hccl_ops.hcom_all_reduce(
                input=x, reduction="sum", group="hccl_world_group", fusion=0, fusion_id=-1, name="y")
            saved = graph.as_graph_def()
        x = tf.constant([1.0, 2.0])
        y, = tf.import_graph_def(saved, {"x": x}, ["y:0"])
        with tf.Session() as session:
            assert session.run(tf.gradients(y, x)[0]).tolist() == [2, 2]
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_a_script_may_override_gradients():
    script = scripts.graph(
        """
        @tf.RegisterGradient("Fifty")
        def fifty(op, dy):
            return tf.fill(tf.shape(op.inputs[0]), 50.0)

        @tf.RegisterGradient("DropOutDoMask")
        def scripts_own(op, dy):
            return dy

        x = tf.constant([1.0])
        with tf.get_default_graph().gradient_override_map({"HcomAllReduce": "Fifty"}):
            y = hccl_ops.allreduce(x, "sum")
        import npu_device.distribute
        with tf.Session() as session:
            assert session.run(tf.gradients(y, x)[0]).tolist() == [50]
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_what_has_no_gradient_says_so():
    script = scripts.graph(
        """
        cache = tf.get_variable("cache", [4], use_resource=False)
        addresses, offsets = np.zeros([1, 3], np.uint64), np.zeros([1], np.uint64)
        read = hccl_ops.remote_ref_read(addresses, cache, offsets)
        try:
            tf.gradients(read, cache)
        except LookupError as error:
            assert "HcomRemoteRefRead" in str(error) and "no gradient" in str(error), error
        else:
            raise SystemExit("differentiated")
        """
    )
    run_ranks(1, script, limit=180).expect_success()


def test_ranks_that_have_called_different_numbers_of_ops_before():
    """Names of gradient ops come from the forward ops, not from the order of a tape."""
    script = scripts.eager(
        """
        weights = [tf.Variable(tf.fill([2], float(i))) for i in range(12)]
        for _ in range(37 * rank):  # a tape orders by numbers that count every op it has seen
            with tf.GradientTape() as tape:
                idle = weights[0] * 2.0
            tape.gradient(idle, weights[0])

        @tf.function
        def step():
            with tf.GradientTape() as tape:
                losses = [hccl_ops.allreduce((i + 1) * w, "sum", fusion=0) * float(rank + 1)
                          for i, w in enumerate(weights)]
            return tape.gradient(losses, weights)

        for i, g in enumerate(step()):
            assert g.numpy().tolist() == [3.0 * (i + 1)] * 2, (i, g)
        """
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("twice", ["two tapes", "one persistent tape"])
def test_two_losses_through_one_collective(twice):
    script = scripts.eager(
        """
        x = tf.Variable([1.0, 2.0])

        @tf.function
        def step():
            with tf.GradientTape(persistent=True) as tape, tf.GradientTape() as other:
                y = hccl_ops.allreduce(x, "sum")
                first, second = tf.reduce_sum(y), tf.reduce_sum(3.0 * y)
            return tape.gradient(first, x), (other if %r == "two tapes" else tape).gradient(second, x)

        for _ in range(3):
            first, second = step()
            assert first.numpy().tolist() == [2, 2] and second.numpy().tolist() == [6, 6]
        """
        % twice
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("mode", [scripts.graph, scripts.eager])
def test_through_control_flow_and_functions(mode):
    """Gradients of a collective in a loop, in a branch and in a function called by another."""
    script = mode(
        """
        def body(x):
            def half(i, a):
                return i + 1, hccl_ops.allreduce(a, "sum", fusion=0) / size
            looped = tf.while_loop(lambda i, a: i < 3, half, [0, x])[1]
            chosen = tf.cond(tf.reduce_sum(x) > 0, lambda: hccl_ops.allreduce(looped, "sum"),
                             lambda: looped)
            return tf.reduce_sum(chosen * chosen)

        wanted = [2 * 2 * 2 * v for v in (3.0, 5.0)]  # sum over both ranks, (2 * mean) ** 2
        value = np.array([[2.0, 4.0], [4.0, 6.0]][rank], np.float32)
        if tf.executing_eagerly():
            inner = tf.function(body)

            @tf.function
            def outer(x):
                with tf.GradientTape() as tape:
                    tape.watch(x)
                    loss = inner(x)
                return tape.gradient(loss, x)
            found = [outer(tf.constant(value)).numpy() for _ in range(2)]
        else:
            x = tf.placeholder(tf.float32, [2])
            gradient = tf.gradients(body(x), x)[0]
            with tf.Session() as session:
                found = [session.run(gradient, {x: value}) for _ in range(2)]
        for g in found:
            assert np.allclose(g, wanted), (g, wanted)
        """
    )
    run_ranks(2, script, limit=180).expect_success()

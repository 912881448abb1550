"""Ranks that create their ops in different orders, and NPU_BRIDGE_CHECK_NAMES, which finds them."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

CHECK = {"NPU_BRIDGE_CHECK_NAMES": "1", "HCCL_EXEC_TIMEOUT": "20"}
MODES = pytest.mark.parametrize("mode", [scripts.graph, scripts.eager], ids=["graph", "eager"])

# The gradients of four variables of one shape: 1, 2, 3, 4 on rank 0, ten times as much on rank 1.
REVERSED = """
variables = [tf.get_variable(name, initializer=tf.zeros([2])) for name in ("a", "b", "c", "d")]
loss = tf.add_n([tf.reduce_sum(v * ((i + 1) * 10.0 ** rank)) for i, v in enumerate(variables)])
gradients = tf.gradients(loss, variables)
if rank == 1:
    gradients.reverse()
say("first:", gradients[0].name)
reduced = [hccl_ops.allreduce(g, "sum") for g in gradients]
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    values = [value.tolist() for value in session.run(reduced)]
"""


def test_reversed_gradients_are_swapped_without_the_check():
    """What the check is for: ops of equal name are paired, whatever their tensors are."""
    script = scripts.graph(REVERSED + "assert values == [[n, n] for n in (41, 32, 23, 14)], values")
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.core
def test_reversed_gradients_are_told_with_both_names():
    job = run_ranks(2, scripts.graph(REVERSED), limit=180, environment=CHECK)
    names = [job.wait_for_line(rank, "first:").split()[-1] for rank in range(2)]
    assert names[0] != names[1]
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError")
        # Ops start in any order: which of the four tells is open, but not who passed what to it.
        for own in range(2):
            job.expect_exception(rank, "InvalidArgumentError", rf"rank {own} passed tensor 'grad")
        job.expect_error(rank, "NPU_BRIDGE_CHECK_NAMES=1 asks for tensors of the same names")
        job.expect_error(rank, "in the same order on every rank")


def test_the_names_are_those_of_the_op_that_is_told():
    script = scripts.graph(
        """
        a, b = tf.ones([2], name="a"), tf.ones([2], name="b")
        total = hccl_ops.allreduce(a if rank == 0 else b, "sum")
        with tf.Session() as session:
            session.run(total)
        """
    )
    job = run_ranks(2, script, limit=180, environment=CHECK)
    for rank in range(2):
        job.expect_error(
            rank,
            "HcomAllReduce 'HcomAllReduce' in group hccl_world_group: rank 0 passed tensor 'a:0', "
            "rank 1 passed tensor 'b:0'. NPU_BRIDGE_CHECK_NAMES=1",
        )


@pytest.mark.parametrize("setting", ["for all", "by the script", "on one rank"])
def test_a_script_may_set_it_and_a_rank_without_it_is_not_compared(setting):
    script = scripts.graph(
        """
        if %r == "by the script":
            os.environ["NPU_BRIDGE_CHECK_NAMES"] = "1"
        value = tf.ones([2], name="value_of_%%d" %% rank)
        with tf.Session() as session:
            session.run(hccl_ops.allreduce(value, "sum"))
        """
        % setting
    )
    job = run_ranks(
        2,
        script,
        limit=180,
        environment=CHECK if setting == "for all" else {},
        rank_environment={1: CHECK} if setting == "on one rank" else {},
    )
    if setting == "on one rank":
        job.expect_success()
        return
    for rank in range(2):
        job.expect_error(rank, "'value_of_0:0'")
        job.expect_error(rank, "'value_of_1:0'")


def test_ops_in_scopes_of_their_own_may_be_made_in_any_order():
    script = scripts.graph(
        """
        values = {name: tf.fill([2], value + rank, name=name)
                  for name, value in (("a", 1.0), ("b", 2.0), ("c", 3.0))}
        reduced = {}
        for name in ("abc" if rank == 0 else "bca"):
            with tf.name_scope(name + "_sum"):
                reduced[name] = hccl_ops.allreduce(values[name], "sum")
        with tf.Session() as session:
            found = session.run(reduced)
        assert {n: v.tolist() for n, v in found.items()} == {"a": [3, 3], "b": [5, 5], "c": [7, 7]}
        """
    )
    run_ranks(2, script, limit=180, environment=CHECK).expect_success()


@pytest.mark.core
@MODES
def test_every_op_passes_where_ranks_agree(mode):
    script = mode(
        """
        import npu_device as npu

        def run(values):
            if tf.executing_eagerly():
                return tf.nest.map_structure(lambda t: t.numpy().tolist(), values)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return tf.nest.map_structure(lambda t: t.tolist(), session.run(values))

        x = tf.Variable([1.0, 2.0], name="x")
        for value in (x, x * 1.0, np.array([1.0, 2.0], np.float32), [1.0, 2.0]):
            assert run(hccl_ops.allreduce(value, "sum")) == [2, 4]
            assert run(hccl_ops.allgather(value, 2)) == [1, 2, 1, 2]
            assert run(hccl_ops.broadcast([value, value], 1)) == [[1, 2], [1, 2]]
            assert run(hccl_ops.reduce(value, "sum", 0)) == ([2, 4] if rank == 0 else [1, 2])
            assert run(hccl_ops.reduce_scatter(value, "sum", 2)) == [2 + 2 * rank]
            assert run(hccl_ops.all_to_all_v(value, [1, 1], [0, 1], [1, 1], [0, 1])) == [1 + rank] * 2
            assert run(hccl_ops.all_to_all_v_c(value, [[1, 1], [1, 1]], rank)) == [1 + rank] * 2
            assert run(npu.distribute.all_reduce([value, None, value], "mean")[::2]) == [[1, 2]] * 2
        sparse = tf.IndexedSlices(x * 2.0, tf.constant([rank, 5]), tf.constant([6]))
        assert run(npu.distribute.all_reduce([sparse], "sum")[0].values) == [2, 4, 2, 4]
        # Two ends of a message have names of their own.
        if rank == 0:
            sent = hccl_ops.send(tf.identity(x, name="only_here"), 3, 1)
            if sent is not None:
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    session.run(sent)
        else:
            assert run(hccl_ops.receive([2], tf.float32, 3, 0)) == [1, 2]
        """
    )
    run_ranks(2, script, limit=240, environment=CHECK).expect_success()


def test_functions_traced_in_another_number_on_each_rank():
    """The counters in names of functions are TensorFlow's, and tell nothing."""
    script = scripts.eager(
        """
        w = tf.Variable([1.0, 2.0], name="w")

        @tf.function
        def step(x):
            with tf.GradientTape() as tape:
                y = tf.cond(x > 0.0, lambda: hccl_ops.allreduce(w * 2.0, "sum"), lambda: w * 1.0)
                y = tf.while_loop(lambda i, _: i < 2,
                                  lambda i, t: (i + 1, hccl_ops.allreduce(t, "max")), (0, y))[1]
                z = hccl_ops.allreduce(w, "prod")
                loss = tf.reduce_sum(y * z) + tf.reduce_sum(tf.sin(z)) + tf.reduce_sum(y)
            return hccl_ops.allreduce(tape.gradient(loss, w), "sum")

        @tf.function
        def idle(x):
            return tf.cond(x > 0.0, lambda: x, lambda: 2.0 * x)

        for i in range(5 * rank):
            idle(tf.ones([i + 1])[0])
            with tf.GradientTape() as tape:
                y = w * 2.0
            tape.gradient(y, w)
        first = step(tf.constant(1.0)).numpy()
        assert (step(tf.constant(1.0)).numpy() == first).all()
        say(first.tolist())
        """
    )
    job = run_ranks(2, script, limit=240, environment=CHECK)
    job.expect_success()
    assert job.outputs[0].splitlines()[-1] == job.outputs[1].splitlines()[-1]


def test_losses_of_other_names_have_gradients_that_pass():
    """A gradient op is named after its forward op, so that it cannot be another's."""
    script = scripts.graph(
        """
        w = tf.get_variable("w", initializer=[1.0, 2.0])
        total = hccl_ops.allreduce(w, "sum")
        loss = tf.multiply(total, 3.0, name="loss_of_%d" % rank)
        gradient = tf.gradients(loss, w)[0]
        assert ("loss_of_%d" % rank) in gradient.op.inputs[0].name, gradient.op.inputs[0]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run(gradient).tolist() == [6, 6]
        """
    )
    run_ranks(2, script, limit=180, environment=CHECK).expect_success()


def test_a_swap_inside_a_function_names_the_function():
    script = scripts.eager(
        """
        @tf.function
        def step(a, b):
            if rank == 1:
                a, b = b, a
            return hccl_ops.allreduce(a, "sum"), hccl_ops.allreduce(b, "sum")

        step(tf.ones([2]), tf.zeros([2]))
        """
    )
    job = run_ranks(2, script, limit=180, environment=CHECK)
    for rank in range(2):
        job.expect_error(rank, "'step/a:0'")
        job.expect_error(rank, "'step/b:0'")


def test_a_swap_of_sparse_gradients():
    script = scripts.eager(
        """
        import npu_device as npu

        @tf.function
        def step():
            slices = [tf.IndexedSlices(tf.ones([1, 2], name=name), tf.constant([0]),
                                       tf.constant([4, 2])) for name in ("first", "second")]
            return npu.distribute.all_reduce(slices[::-1] if rank == 1 else slices)[0].values

        step()
        """
    )
    job = run_ranks(2, script, limit=180, environment=CHECK)
    for rank in range(2):
        job.expect_error(rank, "tensor 'step/first:0'")
        job.expect_error(rank, "tensor 'step/second:0'")


@pytest.mark.core
@MODES
def test_a_broadcast_of_variables_in_another_order(mode):
    script = mode(
        """
        import npu_device as npu

        variables = [tf.Variable(tf.fill([2], 10.0 * i + rank), name=name)
                     for i, name in enumerate(("kernel", "bias", "scale"))]

        def broadcast(variables):
            result = npu.distribute.broadcast(variables, 0)
            if not tf.executing_eagerly():
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    session.run(result)
                    return [v.tolist() for v in session.run(variables)]
            return [v.numpy().tolist() for v in variables]

        for _ in range(2):
            assert broadcast(variables) == [[0, 0], [10, 10], [20, 20]]
        if rank == 1:
            variables[0], variables[2] = variables[2], variables[0]
        broadcast(variables)
        """
    )
    job = run_ranks(2, script, limit=180, environment=CHECK)
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError")
        job.expect_error(
            rank, "in group hccl_world_group: rank 0 passed tensor 'kernel:0' for tensor 0 of 3, "
        )
        job.expect_error(rank, "rank 1 passed tensor 'scale:0' for tensor 0 of 3.")


def test_eager_ops_with_names_keep_their_gradients_and_groups():
    script = scripts.eager(
        """
        create_group("pair", 2, [1, 0])
        w = tf.Variable([1.0, 2.0], name="w")
        for group in ("hccl_world_group", "pair"):
            with tf.GradientTape() as tape:
                y = hccl_ops.allreduce(w, "sum", group=group)
                z = hccl_ops.broadcast([w], 0, group=group)[0]
                loss = tf.reduce_sum(y + z)
            is_root = rank == (0 if group == "hccl_world_group" else 1)
            assert tape.gradient(loss, w).numpy().tolist() == [4.0 if is_root else 2.0] * 2
        """
    )
    run_ranks(2, script, limit=180, environment=CHECK).expect_success()


def test_a_wrong_value_says_what_is_allowed():
    script = scripts.graph('hccl_ops.allreduce(tf.ones([2]), "sum")')
    job = run_ranks(1, script, limit=180, environment={"NPU_BRIDGE_CHECK_NAMES": "yes"})
    job.expect_exception(0, "ValueError", "NPU_BRIDGE_CHECK_NAMES is 'yes', allowed is")

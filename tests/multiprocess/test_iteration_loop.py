"""Several iterations inside one Session.run, on one rank and with collectives between ranks."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

# A model with what real ones have: an input pipeline, random numbers, a recurrent loop that is
# differentiated, a condition, gradients that are reduced and fused, a collective inside a loop.
TRAINING = """
    from npu_device._core import iteration_loop

    def build(use_resource):
        tf.set_random_seed(7)
        batches = np.arange(240, dtype=np.float32).reshape(60, 4) / 100 + rank
        dataset = tf.data.Dataset.from_tensor_slices(batches)
        batch = tf.data.make_one_shot_iterator(dataset).get_next()
        rate = tf.placeholder(tf.float32, [], name="rate")
        with tf.variable_scope("model", use_resource=use_resource):
            weight = tf.get_variable("weight", initializer=tf.constant([[0.5, -0.5]] * 4))
            bias = tf.get_variable("bias", initializer=tf.zeros([2]))
        state = tf.matmul(batch[None, :], weight) + bias
        _, state = tf.while_loop(
            lambda i, s: i < 3, lambda i, s: (i + 1, tf.tanh(s * 1.5 + bias)), [0, state]
        )
        noise = tf.random_uniform([2], seed=3)
        loss = tf.reduce_mean(tf.square(state - 0.1)) + 0.01 * tf.reduce_mean(noise * state)
        loss = tf.cond(loss > 0.2, lambda: loss * 1.5, lambda: loss)
        gradients = tf.gradients(loss, [weight, bias])
        reduced = [hccl_ops.allreduce(g, "sum", fusion=2, fusion_id=1) / size for g in gradients]
        _, rounds = tf.while_loop(
            lambda i, s: i < 2,
            lambda i, s: (i + 1, s + hccl_ops.allreduce(loss, "sum", fusion=0)),
            [0, 0.0],
        )
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.MomentumOptimizer(rate, 0.9)
        train = optimizer.apply_gradients(zip(reduced, [weight, bias]), global_step=step)
        looped = iteration_loop.create(train)
        names = dict(loss=loss, noise=noise, rounds=rounds, batch=batch)
        return train, looped, names, [weight, bias, step, *optimizer.variables()], rate

    def session_of(graph):
        with graph.as_default():
            initializers = [tf.global_variables_initializer(), tf.local_variables_initializer()]
        session = tf.Session(graph=graph)
        session.run(initializers)
        return session

    def train(use_resource, steps, iterations):
        with tf.Graph().as_default() as graph:
            train, looped, names, variables, rate = build(use_resource)
        with session_of(graph) as session:
            if iterations is not None:
                iteration_loop.load(session, iterations)
            for _ in range(steps):
                op = train if iterations is None else looped
                fetched = session.run({"op": op, **names}, {rate: 0.05})
            return fetched, session.run(variables)
"""


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_iterations_in_one_step_equal_steps_of_one_iteration(ranks):
    script = scripts.graph(
        TRAINING
        + """
    for use_resource in (False, True):
        # The values fetched in the last of 12 steps are those of the last iteration.
        expected_fetched, expected = train(use_resource, steps=12, iterations=None)
        assert expected[2] == 12
        for steps, iterations in ((12, 1), (4, 3), (1, 12)):
            fetched, values = train(use_resource, steps, iterations)
            for name in ("loss", "noise", "rounds", "batch"):
                np.testing.assert_array_equal(fetched[name], expected_fetched[name], err_msg=name)
            for value, wanted in zip(values, expected):
                np.testing.assert_array_equal(value, wanted)
    print("equal in every form")
    """
    )
    job = run_ranks(ranks, script, limit=120)
    job.expect_success()
    for rank in range(ranks):
        assert "equal in every form" in job.stdout[rank]


def test_the_iterations_of_a_step_share_what_is_merged():
    script = scripts.graph(
        TRAINING
        + """
    import npu_bridge
    train(True, steps=2, iterations=4)
    report = npu_bridge.fusion_report()
    graphs = [graph for graph in report.graphs if graph.segments]
    assert [len(segment.members) for graph in graphs for segment in graph.segments] == [2], report
    print("merged")
    """
    )
    job = run_ranks(2, script, limit=60)
    job.expect_success()


def test_the_end_of_the_data_inside_a_step_ends_it():
    script = scripts.graph(
        TRAINING
        + """
    with tf.Graph().as_default() as graph:
        _, looped, _, variables, rate = build(True)
    with session_of(graph) as session:
        iteration_loop.load(session, 25)
        session.run(looped, {rate: 0.05})
        session.run(looped, {rate: 0.05})
        try:
            session.run(looped, {rate: 0.05})
        except tf.errors.OutOfRangeError:
            print("end of data after step", session.run(variables[2]))
    """
    )
    job = run_ranks(1, script, limit=60)
    job.expect_success()
    assert "end of data after step 60" in job.stdout[0]


def test_ranks_that_run_different_numbers_of_iterations_are_told():
    script = scripts.graph(
        TRAINING
        + """
    train(True, steps=1, iterations=3 if rank == 0 else 2)
    """
    )
    job = run_ranks(2, script, limit=60, environment={"NPU_BRIDGE_MISMATCH_TIMEOUT": "2"})
    job.expect_error(0, "HcomAllReduce")


def test_what_cannot_be_repeated_is_refused():
    script = scripts.graph(
        """
    from npu_device._core import iteration_loop

    def error_of(function, *arguments):
        try:
            function(*arguments)
        except (TypeError, ValueError, tf.errors.OpError) as error:
            return f"{type(error).__name__}: {error}"
        return "none"

    session = tf.Session()
    print("no op:", error_of(iteration_loop.create, []))
    print("a number:", error_of(iteration_loop.create, 3))
    print("no loop:", error_of(iteration_loop.load, session, 3))
    counter = tf.get_variable("counter", initializer=0)
    looped = iteration_loop.create([counter.assign_add(1), counter.assign_add(0)])
    assert iteration_loop.create(counter.assign_add(1)).inputs[0] is looped.inputs[0]
    for bad in (0, -1, 2.5, True, 2**31):
        print("bad count:", error_of(iteration_loop.load, session, bad))
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    iteration_loop.load(session, np.int64(4))
    session.run(looped)
    assert session.run(counter) == 4, session.run(counter)
    resource = tf.data.make_one_shot_iterator(tf.data.Dataset.range(3))._iterator_resource
    print("a resource:", error_of(session.run, [looped, resource]))
    assert session.run(counter) == 4
    """
    )
    job = run_ranks(1, script, limit=60)
    job.expect_success()
    output = job.stdout[0]
    assert "no op: ValueError: iterations per loop: expected an op to train with" in output
    assert "a number: TypeError: iterations per loop: expected an operation" in output
    assert "no loop: ValueError: iterations per loop: the session's graph has no op" in output
    assert output.count("bad count: ValueError: iterations_per_loop must be from 1 to") == 3
    assert output.count("bad count: TypeError: iterations_per_loop must be an integer") == 2

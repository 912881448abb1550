"""Loss scaling on several ranks: all skip a step that overflows on one, and stay alike."""

from __future__ import annotations

import textwrap

import pytest

from tests.harness import run_ranks
from tests.multiprocess import training_script

# Rank 1 alone multiplies its loss by infinity in some steps.
LOOP = """
def scaled(make_optimizer, bad_steps, steps, resource=True, ranks=(rank,), watch=None, bad_rank=1):
    ranks = list(ranks)
    with tf.Graph().as_default() as graph:
        variables = make_variables(resource)
        placeholders = {r: feeds(r) for r in ranks}
        factor = tf.placeholder(tf.float32, [])
        loss = tf.add_n([loss_of(variables, placeholders[r]) for r in ranks]) / len(ranks)
        step = tf.train.get_or_create_global_step()
        manager, optimizer = make_optimizer()
        update = optimizer.minimize(loss * factor, global_step=step, var_list=variables)
        factor_now = tf.convert_to_tensor(manager.get_loss_scale()) if manager else tf.constant(1.0)
        history, seen = [], []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number in range(steps):
                bad = number in bad_steps and (bad_rank in ranks)
                feed = {factor: np.inf if bad else 1.0}
                for r in ranks:
                    feed.update(fed(placeholders[r], number % STEPS, r))
                session.run(update, feed)
                history.append(session.run(variables))
                seen.append((float(session.run(factor_now)), int(session.run(step))))
            if watch is not None:
                watch(optimizer, graph)
    return history, seen
"""


def equal_digests(ranks, body, at_least=1, **options):
    script = training_script.graph(LOOP + textwrap.dedent(body))
    job = run_ranks(ranks, script, limit=240, **options)
    training_script.expect_equal_digests(job, at_least)
    return job


@pytest.mark.core
def test_an_overflow_on_one_rank_skips_the_step_on_all():
    """Ten steps of which rank 1 overflows in the third."""
    equal_digests(
        2,
        """
        def manager():
            return ExponentialUpdateLossScaleManager(
                2.0**10, incr_every_n_steps=3, decr_every_n_nan_or_inf=1, decr_ratio=0.5)

        def outside():
            m = manager()
            opt = NPUDistributedOptimizer(tf.train.AdamOptimizer(0.1))
            return m, NPULossScaleOptimizer(opt, m, is_distributed=True)

        def wrapped():
            m = manager()
            opt = npu_distributed_optimizer_wrapper(tf.train.AdamOptimizer(0.1))
            return m, NPULossScaleOptimizer(opt, m, is_distributed=True)

        def together():
            m = manager()
            return m, NPUOptimizer(tf.train.AdamOptimizer(0.1), m, is_distributed=True,
                                   is_loss_scale=True)

        def sharded():
            m = manager()
            opt = NPUDistributedOptimizer(tf.train.AdamOptimizer(0.1), True)
            return m, NPULossScaleOptimizer(opt, m, is_distributed=True)

        def alone():
            m = manager()
            return m, NPULossScaleOptimizer(tf.train.AdamOptimizer(0.1), m)

        def once(optimizer, graph):
            assert kinds(graph).count("HcomAllToAllV") == 2, kinds(graph)
            assert optimizer.get_name().startswith("NPU"), optimizer.get_name()
            assert set(optimizer.get_slot_names()) == {"m", "v"}
            assert len(optimizer.variables()) == 8

        # Two steps, a skipped one, three that make it grow, three more, and one.
        factors = [1024] * 2 + [512] * 3 + [1024] * 3 + [2048] * 2
        steps = [1, 2, 2, 3, 4, 5, 6, 7, 8, 9]
        expected, seen = scaled(alone, {2}, 10, ranks=range(size))
        assert seen == list(zip(factors, steps)), seen
        for way, resource in ((outside, True), (wrapped, True), (together, False), (sharded, False)):
            if not resource:
                tf.disable_control_flow_v2()  # which has no ref variables
            history, seen = scaled(way, {2}, 10, resource, watch=None if way is sharded else once)
            assert seen == list(zip(factors, steps)), (way.__name__, seen)
            close(history, expected)
            assert all((a == b).all() for a, b in zip(history[1], history[2]))
            assert not all((a == b).all() for a, b in zip(history[2], history[3]))
            digest(way.__name__, history)
        """,
        at_least=4,
    )


def test_without_reduction_of_gradients_the_flag_alone_keeps_ranks_together():
    """Each rank trains for itself, but none applies a step that another skips."""
    job = run_ranks(
        2,
        training_script.graph(
            LOOP
            + textwrap.dedent(
                """
                def local(distributed):
                    m = FixedLossScaleManager(8)
                    return m, NPULossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), m,
                                                    is_distributed=distributed)

                history, seen = scaled(lambda: local(True), {1}, 3)
                assert [s for _, s in seen] == [1, 1, 2], seen
                history, seen = scaled(lambda: local(False), {1}, 3)
                assert [s for _, s in seen] == ([1, 2, 3] if rank == 0 else [1, 1, 2]), seen

                def unchecked():
                    m = FixedLossScaleManager(8, enable_overflow_check=False)
                    return m, NPULossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), m, True)

                history, seen = scaled(unchecked, {1}, 3)
                assert [s for _, s in seen] == [1, 2, 3], seen
                assert np.isnan(history[-1][1]).any() == (rank == 1), history[-1]
                """
            )
        ),
        limit=240,
    )
    job.expect_success()


def test_training_in_float16_equals_one_process():
    """Small gradients that float16 loses without the factor."""
    equal_digests(
        2,
        """
        def half(distribute, ranks, factor):
            with tf.Graph().as_default():
                kernel = tf.get_variable("kernel", initializer=tf.ones([3, 1]))
                places = [tf.placeholder(tf.float32, [None, 3]) for _ in ranks]
                losses = [tf.reduce_mean(tf.cast(tf.matmul(tf.cast(x, tf.float16),
                                         tf.cast(kernel, tf.float16)), tf.float32) * 2.0**-27)
                          for x in places]
                m = FixedLossScaleManager(factor)
                opt = NPULossScaleOptimizer(distribute(tf.train.GradientDescentOptimizer(2.0**24)),
                                            m, is_distributed=True)
                update = opt.minimize(tf.add_n(losses) / len(ranks))
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    history = []
                    for number in range(3):
                        session.run(update, {p: X[number, r] for p, r in zip(places, ranks)})
                        history.append([session.run(kernel)])
            return history

        lost = half(NPUDistributedOptimizer, [rank], 1)
        assert (lost[-1][0] == 1).all(), lost
        found = half(NPUDistributedOptimizer, [rank], 2**14)
        assert (np.abs(found[-1][0] - 1) > 0.01).all(), found
        close(found, half(lambda opt: opt, list(range(size)), 2**14), rtol=2e-3)
        digest("half", found)
        """,
    )


def test_a_sparse_variable_that_is_not_reduced_is_scaled_right():
    job = run_ranks(
        2,
        training_script.graph(
            """
            shared = tf.get_variable("shared", initializer=tf.ones([2]))
            own = tf.get_variable("own", initializer=tf.ones([4, 2]))
            loss = tf.reduce_sum(shared * (1.0 + rank)) + tf.reduce_sum(
                tf.nn.embedding_lookup(own, [rank, rank])) * (1.0 + rank)
            m = FixedLossScaleManager(64)
            inner = tf.train.GradientDescentOptimizer(0.5)
            both = NPULossScaleOptimizer(inner, m, is_distributed=True)
            pairs = both.compute_gradients(loss, [shared, own])
            assert isinstance(pairs[1][0], tf.IndexedSlices), pairs
            pairs = [(allreduce(pairs[0][0]), shared), pairs[1]]
            update = both.apply_gradients(pairs)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(update)
                assert session.run(shared).tolist() == [0.25, 0.25], session.run(shared)
                expected = np.ones([4, 2])
                expected[rank] -= 0.5 * 2 * (1 + rank)
                assert session.run(own).tolist() == expected.tolist(), session.run(own)
            """
        ),
        limit=180,
    )
    job.expect_success()

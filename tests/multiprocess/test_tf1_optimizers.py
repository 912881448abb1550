"""Optimizers of TensorFlow 1 on several ranks do what one process does with all the data."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts, training_script

core_with_2 = [pytest.param(2, marks=pytest.mark.core)]


def equal_digests(ranks, body, at_least=1, **options):
    job = run_ranks(ranks, training_script.graph(body), limit=240, **options)
    training_script.expect_equal_digests(job, at_least)
    return job


@pytest.mark.parametrize("ranks", [*core_with_2, 4])
def test_training_equals_one_process_on_the_joined_data(ranks):
    equal_digests(
        ranks,
        """
        inner = {
            "sgd": lambda: tf.train.GradientDescentOptimizer(0.2),
            "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
            "adam": lambda: tf.train.AdamOptimizer(0.1),
        }
        ways = {
            "distributed": NPUDistributedOptimizer,
            "wrapped": npu_distributed_optimizer_wrapper,
            "npu": lambda opt: NPUOptimizer(opt, is_distributed=True),
            "tailing": lambda opt: NPUOptimizer(opt, is_distributed=True, is_tailing_optimization=True),
            "twice": lambda opt: NPUDistributedOptimizer(npu_distributed_optimizer_wrapper(opt)),
        }

        def reduced_once(optimizer, graph, variables, session):
            assert kinds(graph).count("HcomAllReduce") == 2, kinds(graph)
            assert kinds(graph).count("HcomAllToAllV") == 2, kinds(graph)

        cases = [("sgd", True), ("momentum", False), ("adam", True)] if size == 2 else [("adam", False)]
        for name, resource in cases:
            expected = train(inner[name], range(size), resource)
            for way in ways if name == "momentum" else ["distributed"]:
                found = train(lambda: ways[way](inner[name]()), [rank], resource,
                              checks=reduced_once, minimize=way == "wrapped")
                close(found, expected)
                digest(name + way, found)
        """,
        at_least=1 if ranks == 4 else 7,
    )


@pytest.mark.parametrize("ranks", [*core_with_2, 3])
def test_weight_update_sharding_equals_training_without(ranks):
    equal_digests(
        ranks,
        """
        def everything(optimizer, graph, variables, session):
            assert kinds(graph).count("HcomReduce") == 2, kinds(graph)
            assert kinds(graph).count("HcomBroadcast") == size, kinds(graph)
            names = optimizer.get_slot_names()
            slots = [optimizer.get_slot(v, n) for n in names for v in variables[:3]]
            assert len(slots) == len(names) * 3 and None not in slots
            kept.append([names, [v.name for v in optimizer.variables()],
                         session.run(slots + optimizer.variables())])

        for resource, inner in ((False, lambda: tf.train.AdamOptimizer(0.1)),
                                (True, lambda: tf.train.MomentumOptimizer(0.1, 0.9))):
                kept = []
                def unsharded(optimizer, graph, variables, session):
                    names = optimizer.get_slot_names()
                    slots = [optimizer.get_slot(v, n) for n in names for v in variables[:3]]
                    kept.append([names, [v.name for v in optimizer.variables()],
                                 session.run(slots + optimizer.variables())])
                expected = train(lambda: NPUDistributedOptimizer(inner()), [rank], resource,
                                 checks=unsharded)
                found = train(lambda: NPUDistributedOptimizer(inner(), True), [rank], resource,
                              checks=everything)
                close(found, expected)
                digest("weights", found)
                assert kept[0][:2] == kept[1][:2], kept
                close([kept[0][2]], [kept[1][2]])
                digest("slots", kept[1][2])
        with tf.Graph().as_default():
            v = tf.get_variable("v", initializer=1.0)
            try:
                NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.1), True).minimize(v * v)
            except ValueError as error:
                assert "1 such variables and %d ranks" % size in str(error), error
            else:
                raise AssertionError("fewer variables than ranks")
        """,
        at_least=4,
    )


def test_slots_and_names_are_those_of_the_optimizer_inside():
    equal_digests(
        2,
        """
        def slots(optimizer, graph, variables, session):
            assert optimizer.get_slot_names() == ["momentum"]
            assert optimizer.get_slot(variables[1], "momentum").shape == [3, 1]
            assert len(optimizer.variables()) == 3
            assert optimizer.get_name().endswith("MomentumOptimizer"), optimizer.get_name()
            names = [op.name for op in graph.get_operations() if op.type == "HcomAllReduce"]
            assert all("dense/kernel" in n or "dense/bias" in n for n in names), names

        inner = lambda: tf.train.MomentumOptimizer(0.1, 0.9)
        for way in (NPUDistributedOptimizer, lambda opt: NPUOptimizer(opt, is_distributed=True)):
            digest("momentum", train(lambda: way(inner()), [rank], checks=slots))
        wrapped = inner()
        assert npu_distributed_optimizer_wrapper(wrapped) is wrapped
        assert npu_distributed_optimizer_wrapper(wrapped) is wrapped
        assert isinstance(wrapped, tf.train.MomentumOptimizer)
        assert type(wrapped).__name__ == "MomentumOptimizer"
        try:
            npu_distributed_optimizer_wrapper(3)
        except TypeError as error:
            assert "got 3" in str(error)
        else:
            raise AssertionError("3 is no optimizer")
        """,
        at_least=2,
    )


def test_one_rank_is_the_identity():
    equal_digests(
        1,
        """
        def nothing(optimizer, graph, variables, session):
            assert kinds(graph) == []

        inner = lambda: tf.train.AdamOptimizer(0.1)
        expected = train(inner, [0])
        for way in (NPUDistributedOptimizer, npu_distributed_optimizer_wrapper,
                    lambda opt: NPUDistributedOptimizer(opt, is_weight_update_sharding=True),
                    lambda opt: NPUOptimizer(opt, is_distributed=True)):
            found = train(lambda: way(inner()), [0], checks=nothing)
            assert all((a == b).all() for f, e in zip(found, expected) for a, b in zip(f, e))
        digest("one", expected)
        """,
    )


@pytest.mark.core
def test_plain_reductions():
    equal_digests(
        2,
        """
        mine = tf.constant([[1.0 + rank, 2.0]])
        slices = tf.IndexedSlices(tf.ones([2 + rank, 2]), tf.range(2 + rank), tf.constant([4, 2]))
        results = {
            "sum": allreduce(mine, average=False),
            "mean": allreduce(mine),
            "variable": allreduce(tf.get_variable("v", initializer=float(rank))),
            "slices": tf.convert_to_tensor(allreduce(slices)),
            # Where most rows are used: as many bytes as the variable has, whatever ranks send.
            "dense": allreduce(tf.convert_to_tensor(slices)),
            "slices_sum": tf.convert_to_tensor(allreduce(slices, False)),
            "several": npu_allreduce([mine, None, slices], "sum")[0],
            "max": npu_allreduce(mine, "max"),
            "fused": npu_allreduce([mine, 2 * mine], fusion=2, fusion_id=3)[1],
            "reduced_slices": tf.convert_to_tensor(reduce(slices, 1)),
        }
        assert npu_allreduce((mine, None))[1] is None
        to_root = reduce(mine, 1), reduce(mine, 1, average=False, fusion=2, fusion_id=5)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found, to_root = session.run([results, to_root])
        assert found["sum"].tolist() == found["several"].tolist() == [[3, 4]], found
        assert found["mean"].tolist() == [[1.5, 2]] and found["fused"].tolist() == [[3, 4]], found
        assert found["variable"] == 0.5 and found["max"].tolist() == [[2, 2]], found
        assert found["slices"].tolist() == found["reduced_slices"].tolist(), found
        assert found["slices"].tolist() == [[1, 1], [1, 1], [0.5, 0.5], [0, 0]], found
        assert found["dense"].tolist() == found["slices"].tolist(), found
        assert found["slices_sum"].tolist() == [[2, 2], [2, 2], [1, 1], [0, 0]], found
        own = mine_value = [[1.0 + rank, 2.0]]
        assert to_root[0].tolist() == ([[1.5, 2]] if rank == 1 else own), to_root
        assert to_root[1].tolist() == ([[3, 4]] if rank == 1 else own), to_root
        digest("values", [found[key] for key in sorted(found)])
        """,
    )


def test_gradients_that_the_script_computes():
    """tf.gradients with npu_allreduce; clipping by the common norm; three batches added up."""
    equal_digests(
        2,
        """
        def steps(ranks, way):
            with tf.Graph().as_default():
                variables = make_variables(True)
                places = [[feeds(r) for r in ranks] for _ in range(3)]
                total = None
                for batch in places:
                    loss = tf.add_n([loss_of(variables, p) for p in batch]) / len(batch)
                    gradients = tf.gradients(loss, variables)
                    assert gradients[3] is None
                    parts = [[g] for g in gradients] if total is None else [
                        t + [g] for t, g in zip(total, gradients)]
                    total = parts
                # Sparse ones of several batches stay sparse: their rows are joined.
                summed = []
                for parts in total:
                    if parts[0] is None:
                        summed.append(None)
                    elif isinstance(parts[0], tf.IndexedSlices):
                        summed.append(tf.IndexedSlices(
                            tf.concat([p.values for p in parts], 0) / 3,
                            tf.concat([p.indices for p in parts], 0), parts[0].dense_shape))
                    else:
                        summed.append(tf.add_n(parts) / 3)
                if len(ranks) < size:
                    summed = npu_allreduce(summed)
                if way == "clipped":
                    summed, _ = tf.clip_by_global_norm(summed, 0.05)
                optimizer = tf.train.AdagradOptimizer(0.2)
                if len(ranks) < size:
                    optimizer = NPUDistributedOptimizer(optimizer)
                update = optimizer.apply_gradients(zip(summed, variables))
                reductions = kinds(tf.get_default_graph()).count("HcomAllReduce")
                assert reductions == (2 if len(ranks) < size else 0), reductions
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    history = []
                    for _ in range(2):
                        feed = {}
                        for number, batch in enumerate(places):
                            for r, p in zip(ranks, batch):
                                feed.update(fed(p, number, r))
                        session.run(update, feed)
                        history.append(session.run(variables))
            return history

        for way in ("accumulated", "clipped"):
            found = steps([rank], way)
            close(found, steps(list(range(size)), way))
            digest(way, found)
        """,
        at_least=2,
    )


def test_two_optimizers_in_one_step():
    equal_digests(
        2,
        """
        def gan(distribute, ranks):
            with tf.Graph().as_default():
                with tf.variable_scope("generator"):
                    g = make_variables(True)
                with tf.variable_scope("discriminator"):
                    d = make_variables(True)
                places = [feeds(r) for r in ranks]
                def losses(p):
                    one, other = loss_of(g, p), loss_of(d, p)
                    return one * tf.stop_gradient(other), other - 0.1 * tf.stop_gradient(one)
                g_loss, d_loss = [tf.add_n(list(l)) / len(ranks) for l in zip(*map(losses, places))]
                updates = [distribute(tf.train.AdamOptimizer(0.05)).minimize(loss, var_list=v)
                           for loss, v in ((g_loss, g[:3]), (d_loss, d[:3]))]
                history = []
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    for number in range(3):
                        feed = {}
                        for r, p in zip(ranks, places):
                            feed.update(fed(p, number, r))
                        session.run(updates, feed)
                        history.append(session.run(g + d))
                return history

        found = gan(NPUDistributedOptimizer, [rank])
        close(found, gan(lambda opt: opt, list(range(size))))
        close(gan(npu_distributed_optimizer_wrapper, [rank]), found)
        digest("gan", found)
        """,
    )


def test_repeated_rows_travel_once():
    equal_digests(
        2,
        """
        table = tf.get_variable("table", initializer=tf.ones([5, 2]))
        rows = tf.nn.embedding_lookup(table, [1, 3] * 500)
        optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(0.5))
        (gradient, _), = optimizer.compute_gradients(tf.reduce_sum(rows) * (1.0 + rank))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = session.run(gradient)
            assert found.indices.tolist() == [1, 3, 1, 3], found
            assert found.values[:, 0].tolist() == [250, 250, 500, 500], found
        digest("rows", found.values)
        """,
    )


def test_clipping_by_norm_counts_rows_as_one_process_does():
    equal_digests(
        2,
        """
        def loss_of(table, r):
            ids = tf.placeholder_with_default([1, 1, 2, r], [None])
            return tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids)) * (1.0 + r))

        def clipped(pairs):
            gradients, _ = tf.clip_by_global_norm([g for g, _ in pairs], 0.01)
            return tf.convert_to_tensor(gradients[0])

        table = tf.get_variable("table", initializer=tf.ones([9, 2]))
        plain = tf.train.GradientDescentOptimizer(0.5)
        joined = tf.add_n([loss_of(table, r) for r in range(size)]) / size
        together = NPUDistributedOptimizer(plain).compute_gradients(loss_of(table, rank))
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            alone, found = session.run(
                [clipped(plain.compute_gradients(joined)), clipped(together)]
            )
            np.testing.assert_allclose(found, alone, rtol=1e-6)
        digest("clipped", found)
        """,
    )


def test_eager_training_equals_one_process():
    """Optimizers of tf.train where TensorFlow runs ops as it meets them."""
    job = run_ranks(
        2,
        scripts.eager(
            """
            from npu_bridge.estimator.npu.npu_loss_scale_manager import *
            from npu_bridge.estimator.npu.npu_loss_scale_optimizer import *
            from npu_bridge.estimator.npu.npu_optimizer import *

            def run(optimizer, ranks, bad_step=None):
                kernel = tf.Variable([[1.0], [2.0]], name="kernel")
                table = tf.Variable(np.ones([4, 2], np.float32), name="table")
                bias = tf.Variable([1.0, 2.0], name="bias")
                step = tf.train.get_or_create_global_step()
                step.assign(0)
                for number in range(4):
                    def loss():
                        losses = [tf.reduce_sum(kernel * kernel) * (r + 1.0) + tf.reduce_sum(bias * bias)
                                  + tf.reduce_sum(tf.nn.embedding_lookup(table, [r, 1, 1][:3 - r]) ** 2)
                                  for r in ranks]
                        overflows = number == bad_step and 1 in ranks
                        return tf.add_n(losses) / len(ranks) * (np.inf if overflows else 1.0)
                    pairs = optimizer.compute_gradients(loss, [kernel, table, bias])
                    optimizer.apply_gradients(pairs, global_step=step)
                return [v.numpy() for v in (kernel, table, bias, step)]

            def close(found, expected):
                for one, other in zip(found, expected):
                    np.testing.assert_allclose(one, other, 1e-5, 1e-6)

            adam = lambda: tf.train.AdamOptimizer(0.1)
            expected = run(adam(), range(size))
            for optimizer in (NPUDistributedOptimizer(adam()), NPUDistributedOptimizer(adam(), True),
                              npu_distributed_optimizer_wrapper(adam()),
                              NPUOptimizer(adam(), is_distributed=True)):
                close(run(optimizer, [rank]), expected)

            def scaled(inner):
                manager = ExponentialUpdateLossScaleManager(64, 2)
                return NPULossScaleOptimizer(inner, manager, is_distributed=True)

            expected = run(scaled(adam()), range(size), bad_step=2)
            found = run(scaled(NPUDistributedOptimizer(adam())), [rank], bad_step=2)
            assert expected[-1] == found[-1] == 3, (expected, found)
            close(found, expected)
            """
        ),
        limit=240,
    )
    job.expect_success()

"""Hooks of MonitoredTrainingSession on ranks: broadcast, checkpoints, shutdown."""

from __future__ import annotations

import os

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

_MODEL = """
from npu_bridge.npu_init import *
from npu_bridge.estimator.npu.npu_hook import NPUShutDownHook, broadcast_global_variables
from npu_bridge.estimator.npu.npu_saver import NPUSaver


def model(resource):
    '''A train op, and variables of many kinds, which begin with other values on each rank.'''
    step = tf.train.get_or_create_global_step()
    rate = tf.get_variable("rate", initializer=0.1 * (rank + 1), trainable=False)
    w = tf.get_variable("w", initializer=tf.constant([1.0, 2.0]) * (rank + 1), use_resource=resource)
    half = tf.get_variable("half", initializer=tf.constant([rank + 0.5], tf.float16), use_resource=resource)
    flag = tf.get_variable("flag", initializer=tf.constant([rank == 0]), trainable=False)
    parts = tf.get_variable("parts", [4, 1], initializer=tf.constant_initializer(rank + 1.0),
                            partitioner=tf.fixed_size_partitioner(2))
    mean = tf.get_variable("mean", initializer=float(rank), trainable=False, use_resource=resource)
    loss = tf.reduce_sum(w * w) + tf.reduce_sum(tf.convert_to_tensor(parts))
    optimizer = tf.train.MomentumOptimizer(rate, 0.9)
    pairs = optimizer.compute_gradients(loss, [w])
    train = optimizer.apply_gradients([(hccl_ops.allreduce(g, "sum") / size, v) for g, v in pairs],
                                      global_step=step)
    return train, loss


def values(session):
    variables = tf.global_variables()
    return dict(zip([v.op.name for v in variables], session.run(variables)))


def rows_of_all_ranks(found):
    '''The values of all ranks, one rank in a row.'''
    with tf.Graph().as_default(), tf.Session() as session:
        flat = np.concatenate([np.ravel(found[name]).astype(np.float64) for name in sorted(found)])
        return session.run(hccl_ops.allgather(flat[None], size))
"""


def script(body):
    return scripts.graph(_MODEL + scripts.body(body))


@pytest.mark.core
def test_the_broadcast_hook_gives_all_ranks_the_variables_of_the_root(tmp_path):
    """Only one rank has a checkpoint; slots, statistics, rate and step are its own everywhere."""
    body = """
    class Look(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            seen.update(values(session))
            seen_local.append(session.run(local))

    for resource, root in ((False, 0), (True, 1)):
        folder = os.path.join(%r, "of_%%d_%%s" %% (rank, resource))
        if rank == root:
            # A run of the root alone, with gradients of its own.
            with tf.Graph().as_default():
                step = tf.train.get_or_create_global_step()
                trained = {"rate": 0.25, "w": [5.0, 6.0], "w/Momentum": [0.5, 0.25], "half": [7.5],
                           "mean": 3.0, "global_step": 41}
                for name, value in trained.items():
                    if name != "global_step":
                        tf.get_variable(name, initializer=tf.constant(
                            value, tf.float16 if name == "half" else tf.float32))
                tf.get_variable("flag", initializer=[True])
                tf.get_variable("parts", initializer=tf.constant(9.0, shape=[4, 1]))
                with tf.Session() as session:
                    session.run([tf.global_variables_initializer()])
                    session.run(step.assign(41))
                    os.makedirs(folder)
                    tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"), 41)
        seen, seen_local = {}, []
        with tf.Graph().as_default():
            train, loss = model(resource)
            local = tf.get_variable("local", initializer=float(rank), trainable=False,
                                    collections=[tf.GraphKeys.LOCAL_VARIABLES])
            tf.get_variable("text", initializer="rank %%d" %% rank, trainable=False,
                            collections=[tf.GraphKeys.LOCAL_VARIABLES, "texts"])
            hooks = [NPUBroadcastGlobalVariablesHook(root, rank), Look(),
                     tf.train.StopAtStepHook(num_steps=3)]
            scaffold = tf.train.Scaffold()
            # A rank writes nothing without a folder; only the root has one.
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=folder if rank == root else None, scaffold=scaffold, hooks=hooks,
                    save_checkpoint_secs=None, save_summaries_steps=None,
                    log_step_count_steps=None) as session:
                count = 0
                while not session.should_stop():
                    session.run(train)
                    count += 1
                assert count == 3, count
        assert seen["global_step"] == 41 and seen["rate"] == 0.25 and seen["mean"] == 3, seen
        assert seen["w"].tolist() == [5, 6] and seen["w/Momentum"].tolist() == [0.5, 0.25]
        assert seen["half"].tolist() == [7.5] and seen["flag"].tolist() == [True]
        assert seen["parts/part_0"].tolist() == [[9], [9]] == seen["parts/part_1"].tolist()
        assert seen_local == [rank]
        rows = rows_of_all_ranks(seen)
        assert (rows == rows[0]).all()
    """
    run_ranks(2, script(body % str(tmp_path)), limit=180).expect_success()


def test_a_hook_on_a_graph_that_is_finalized_and_a_hook_that_is_used_again():
    run_ranks(
        2,
        script(
            """
            hook = NPUBroadcastGlobalVariablesHook(0, rank)
            for graph in (tf.Graph(), tf.Graph()):
                with graph.as_default():
                    train, loss = model(True)
                    for hooks in ([hook], [hook], npu_hooks_append()):
                        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                            rows = rows_of_all_ranks(values(session))
                            assert (rows == rows[0]).all(), rows
                            session.run(train)
                            rows = rows_of_all_ranks(values(session))
                            assert (rows == rows[0]).all(), rows
                    graph.finalize()
                    NPUBroadcastGlobalVariablesHook(0).begin()
                    kinds = [op.type for op in graph.get_operations()]
                    assert kinds.count("HcomBroadcast") == 1
            # Without a hook: a Supervisor finalizes the graph, so that the op comes before it.
            with tf.Graph().as_default():
                train, loss = model(False)
                broadcast = broadcast_global_variables(1)
                supervisor = tf.train.Supervisor(logdir=None)
                with supervisor.managed_session() as session:
                    session.run(broadcast)
                    assert session.run("w:0").tolist() == [2, 4]
            """
        ),
        limit=180,
    ).expect_success()


def test_a_hook_that_only_one_rank_has_is_an_error_on_both():
    job = run_ranks(
        2,
        script(
            """
            train, loss = model(True)
            hooks = [NPUBroadcastGlobalVariablesHook(0, rank)] if rank == 0 else []
            with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                session.run(train)
            """
        ),
        environment={"NPU_BRIDGE_MISMATCH_TIMEOUT": "2"},
        limit=120,
    )
    for rank in range(2):
        job.expect_error(rank, "HcomBroadcast")
        job.expect_error(rank, "HcomAllReduce")


def test_variables_that_are_not_initialized_yet_are_an_error_on_both():
    job = run_ranks(
        2,
        script(
            """
            train, loss = model(True)
            broadcast = broadcast_global_variables(0)
            initialize_system = npu_ops.initialize_system()
            with tf.Session() as session:
                session.run(initialize_system)
                if rank == 0:
                    session.run(tf.global_variables_initializer())
                session.run(broadcast)
            """
        ),
        limit=120,
    )
    job.expect_exception(1, "FailedPreconditionError", "initialized")
    job.expect_failure(0)
    job.expect_error(0, "rank 1")


def test_rank_0_alone_writes_checkpoints_and_brings_divided_weights_together(tmp_path):
    """Each weight is up to date on one rank only; what is saved has the latest of all."""
    folder = str(tmp_path / "checkpoints")
    job = run_ranks(
        2,
        script(
            f"""
            step = tf.train.get_or_create_global_step()
            weights = [tf.get_variable("w%d" % i, initializer=tf.zeros([3]), use_resource=i % 2 == 0)
                       for i in range(4)]
            util.add_grads_and_vars([(tf.ones([3], name="g%d" % i), w)
                                     for i, w in enumerate(weights)], size)
            mine = [w for w in weights if util.get_gid_by_weight(w) == rank]
            assert len(mine) == 2
            train = tf.group(step.assign_add(1), *[w.assign_add(tf.ones([3])) for w in mine])

            class Listener(tf.train.CheckpointSaverListener):
                saved = []
                def after_save(self, session, global_step):
                    self.saved.append((int(global_step), len(session.run(weights))))
                    return global_step >= 6

            tf.add_to_collection(tf.GraphKeys.SAVERS, NPUSaver(defer_build=True, sharded=True))
            hook = NPUCheckpointSaverHook({folder!r}, save_steps=3, listeners=[Listener()])
            with tf.train.MonitoredTrainingSession(
                    hooks=[NPUBroadcastGlobalVariablesHook(0, rank), hook]) as session:
                while not session.should_stop():
                    session.run(train)
                    found = os.path.exists(os.path.join({folder!r}, "checkpoint"))
            assert [step for step, _ in Listener.saved] == [0, 3, 6], Listener.saved
            if rank == 0:
                for number in (3, 6):
                    path = os.path.join({folder!r}, "model.ckpt-%d" % number)
                    saved = [tf.train.load_variable(path, "w%d" % i) for i in range(4)]
                    assert (np.array(saved) == number).all(), saved

            # The saver by itself, which all ranks call, each with a path of its own.
            with tf.Graph().as_default():
                a = tf.get_variable("a", initializer=tf.fill([2], float(rank)))
                b = tf.get_variable("b", initializer=tf.fill([2], float(rank)))
                util.add_grads_and_vars([(tf.ones([2]), a), (tf.ones([2]), b)], size)
                saver = NPUSaver()
                with tf.Session() as session:
                    session.run(tf.global_variables_initializer())
                    path = saver.save(session, os.path.join({str(tmp_path)!r}, "own_%d" % rank))
                    assert tf.train.load_variable(path, "a").tolist() == [0, 0]
                    assert tf.train.load_variable(path, "b").tolist() == [1, 1]
                    session.run(tf.global_variables_initializer())
                    saver.restore(session, path)
                    assert session.run([a, b])[1].tolist() == [1, 1]
            """
        ),
        limit=180,
    )
    job.expect_success()
    names = os.listdir(folder)
    assert len([name for name in names if name.startswith("events")]) == 1, names
    assert "model.ckpt-6.index" in names


def test_the_shutdown_hook_leaves_the_job_and_a_later_session_meets_again():
    run_ranks(
        2,
        script(
            """
            from npu_device._core import runtime
            train, loss = model(True)
            for _ in range(2):
                hooks = [NPUBroadcastGlobalVariablesHook(0, rank), NPUShutDownHook()]
                with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
                    session.run(train)
                    assert runtime.current().started()
                    tf.get_default_graph()._unsafe_unfinalize()
                assert not runtime.current().started()
            """
        ),
        limit=180,
    ).expect_success()

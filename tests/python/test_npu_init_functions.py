"""The functions of npu_init, and hooks, on one rank of one."""

from __future__ import annotations

import textwrap

import pytest
import tensorflow.compat.v1 as tf

from npu_bridge import npu_init
from tests.harness import run_ranks

pytestmark = pytest.mark.core


def off(config):
    rewrite = config.graph_options.rewrite_options
    return (
        config.allow_soft_placement,
        rewrite.remapping == npu_init.RewriterConfig.OFF,
        config.graph_options.optimizer_options.global_jit_level == tf.OptimizerOptions.OFF,
        [one.name for one in rewrite.custom_optimizers],
    )


def test_npu_config_proto():
    for given in (None, "no configuration", tf.ConfigProto(log_device_placement=True)):
        made = npu_init.npu_config_proto(given)
        assert off(made) == (True, True, True, ["NpuOptimizer"]) and not made.log_device_placement
        assert made.graph_options.rewrite_options.memory_optimization == npu_init.RewriterConfig.OFF
        if isinstance(given, tf.ConfigProto):
            assert made is given
        made.graph_options.rewrite_options.custom_optimizers[0].parameter_map["a"].i = 5
        again = npu_init.npu_config_proto(made)
        assert again is made and off(again)[3] == ["NpuOptimizer"]
        optimizer = again.graph_options.rewrite_options.custom_optimizers[0]
        assert optimizer.parameter_map["a"].i == 5


def test_graph_and_optimizer_options():
    on = tf.OptimizerOptions(global_jit_level=tf.OptimizerOptions.ON_1)
    assert npu_init.npu_optimizer_options(on) is on
    assert on.global_jit_level == tf.OptimizerOptions.OFF
    graph = tf.GraphOptions(
        optimizer_options=tf.OptimizerOptions(global_jit_level=tf.OptimizerOptions.ON_2)
    )
    assert npu_init.npu_graph_options(graph) is graph
    assert graph.optimizer_options.global_jit_level == tf.OptimizerOptions.OFF
    for make in (npu_init.npu_graph_options, npu_init.npu_optimizer_options):
        assert make() == make("x")
    assert npu_init.npu_optimizer_options().global_jit_level == tf.OptimizerOptions.OFF


def test_run_configs(has_estimator):
    if not has_estimator:
        pytest.skip("this TensorFlow has no tf.estimator")
    given = tf.estimator.RunConfig(
        "m", session_config=tf.ConfigProto(intra_op_parallelism_threads=2)
    )
    assert npu_init.npu_run_config_init(given) is given
    assert off(given.session_config)[3] == ["NpuOptimizer"]
    assert given.session_config.intra_op_parallelism_threads == 2
    for other in (None, "x", tf.estimator.RunConfig()):
        assert off(npu_init.npu_run_config_init(other).session_config)[3] == ["NpuOptimizer"]
    ours = npu_init.NPURunConfig(iterations_per_loop=3)
    assert npu_init.npu_run_config_init(ours).iterations_per_loop == 3


def test_hooks_are_added(become):
    become(RANK_SIZE="2", RANK_ID="1")
    empty = npu_init.NpuEmptyHook()
    hooks = [empty]
    assert npu_init.npu_hooks_append(hooks) is hooks and hooks[0] is empty
    assert isinstance(hooks[1], npu_init.NPUBroadcastGlobalVariablesHook)
    assert (hooks[1]._root_rank, hooks[1]._index) == (0, 1)
    assert [type(one) for one in npu_init.npu_hooks_append((empty,))] == [type(h) for h in hooks]
    assert len(npu_init.npu_hooks_append()) == len(npu_init.npu_hooks_append(None)) == 1


def test_ranks_without_init_resource(become, table_file, two_servers):
    npu_init.util.global_dict_init()
    become(RANK_SIZE="4", RANK_ID="3", RANK_TABLE_FILE=table_file(two_servers))
    assert npu_init.get_npu_rank_id() == 3 and npu_init.get_npu_rank_size() == 4
    assert npu_init.get_npu_local_rank_id() == 1 and npu_init.get_npu_local_rank_size() == 2


def test_a_broadcast_hook_needs_a_rank(become):
    become()
    with tf.Graph().as_default():
        npu_init.NPUBroadcastGlobalVariablesHook().begin()  # nothing to do alone
    become(RANK_SIZE="2", RANK_ID="1")
    for root in (None, 2, -1, "0", True):
        with pytest.raises(ValueError, match="allowed is an int from 0 to 1"):
            npu_init.NPUBroadcastGlobalVariablesHook(root, 1).begin()


def test_what_hooks_refuse():
    with pytest.raises(ValueError, match="step and loss are both None"):
        npu_init.TellMeStepOrLossHook(total_step=5)
    with pytest.raises(TypeError, match="output_fn is 5"):
        npu_init.NPUOutputTensorHook({}, output_fn=5)
    with pytest.raises(TypeError, match="allowed with dependencies is a dict"):
        npu_init.NPUOutputTensorHook(["x:0"], dependencies=[], output_fn=print)
    with pytest.raises(ValueError, match="output_every_n_steps is -1"):
        npu_init.NPUOutputTensorHook(None, output_every_n_steps=-1)
    for loops, error in ((None, TypeError), (0, ValueError)):
        with pytest.raises(error, match="iterations_per_loop"):
            npu_init.SetIterationsVarHook(loops).begin()


def test_in_sessions():
    """Everything that needs a session, in a process of its own."""
    script = """
    import threading
    import numpy as np
    import tensorflow.compat.v1 as tf
    from npu_bridge.npu_init import *
    from npu_bridge.estimator.npu.npu_hook import (
        NPUInfeedOutfeedSessionHook, NPULogOutfeedSessionHook, NPUShutDownHook)
    import npu_bridge
    tf.disable_eager_execution()

    sess, shutdown = init_resource(config=tf.ConfigProto(intra_op_parallelism_threads=1))
    assert (get_npu_rank_id(), get_npu_rank_size()) == (0, 1)
    assert (get_npu_local_rank_id(), get_npu_local_rank_size()) == (0, 1)
    assert util.get_value("npu_rank_size") == 1
    shutdown_resource(sess, shutdown)
    close_session(sess)
    try:
        sess.run(shutdown)
        raise AssertionError("the session is open")
    except RuntimeError as error:
        assert "closed" in str(error)

    # Hooks around five steps.
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        value = tf.placeholder_with_default(2.0, [])
        loss = tf.cast(step, tf.float32) * value
        order = []
        before = tf.py_func(lambda: order.append("before") or np.int32(0), [], tf.int32)
        calls, logged = [], []
        with tf.control_dependencies([loss]):
            train = step.assign_add(1)
        queue = tf.FIFOQueue(10, tf.int32)
        taken, done = [], threading.Event()
        def take(number):
            taken.append(int(number))
            if len(taken) == 3:
                done.set()
            return number
        dequeue = tf.py_func(take, [queue.dequeue()], tf.int32)
        fill = tf.group(*[queue.enqueue(i) for i in range(3)])
        hooks = npu_hooks_append([
            NPUOutputTensorHook({"loss": value * 3.0}, before, calls.append, 2),
            NPUOutputTensorHook(["Cast:0"], output_fn=logged.append),
            NPUOutputTensorHook(None, output_every_n_steps=2, output_fn=calls.append),
            TellMeStepOrLossHook(step, 5, loss, 0.5),
            NPUInfeedOutfeedSessionHook([dequeue], "queue"),
            NPULogOutfeedSessionHook(None),
            NpuEmptyHook(),
        ])
        assert os.environ["STEP_NOW"] == "0" and os.environ["LOSS_NOW"] == "0.0"
        assert os.environ["TOTAL_STEP"] == "5" and os.environ["TARGET_LOSS"] == "0.5"
        with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
            for _ in range(5):
                session.run(train)
            session.run(fill)
            assert done.wait(60)
        assert [len(c) for c in calls if c] == [2, 2, 2] and calls[0][0] == {"loss": 6.0}, calls
        assert len(order) == 6
        # The third without tensors has nothing to give but its call.
        assert calls.count([]) == 3, calls
        assert [len(c) for c in logged] == [6] and list(logged[0][0]) == ["Cast:0"]
        assert float(os.environ["LOSS_NOW"]) in (8.0, 10.0) and int(os.environ["STEP_NOW"]) >= 4
        assert sorted(taken) == [0, 1, 2]

    if hasattr(tf.keras.backend, "set_session"):
        session = set_keras_session_npu_config(tf.ConfigProto(intra_op_parallelism_threads=1))
        assert tf.keras.backend.get_session() is session
        graph = tf.get_default_graph()
        npu_clear_session()
        assert tf.keras.backend.get_session() is not session
        assert tf.get_default_graph() is not graph
    else:
        for call in (set_keras_session_npu_config, npu_clear_session):
            try:
                call()
                raise AssertionError(call)
            except RuntimeError as error:
                assert "Keras 3" in str(error) and "1.15 to 2.15" in str(error)
    assert npu_bridge.npu_close is npu_plugin.npu_close
    assert "npu_estimator" in dir(npu_bridge) and npu_bridge.npu_estimator.NPUEstimator is NPUEstimator
    npu_plugin.npu_close()

    # Devices that are not there, in sessions of all kinds.
    own = tf.ConfigProto(intra_op_parallelism_threads=1)
    for make in (tf.Session, tf.InteractiveSession, lambda: tf.Session(config=own),
                 lambda: tf.Session("", tf.get_default_graph(), own)):
        with tf.Graph().as_default():
            with tf.device("/device:GPU:0"):
                three = tf.Variable(1.0) + 2.0
            session = make()
            session.run(tf.global_variables_initializer())
            assert session.run(three) == 3
            session.close()
    assert not own.allow_soft_placement

    # A dataset is each rank's part, as many replicas as ranks.
    strategy = npu_strategy.NPUStrategy()
    assert strategy.num_replicas_in_sync == 1
    try:
        npu_strategy.NPUStrategy("/gpu:0")
        raise AssertionError("/gpu:0")
    except ValueError as error:
        assert "/cpu:0" in str(error)
    print("done")
    """
    job = run_ranks(1, textwrap.dedent(script), limit=180)
    job.expect_success()
    assert "done" in job.outputs[0]


def test_a_strategy_gives_each_rank_its_part():
    script = """
    import tensorflow.compat.v1 as tf
    from npu_bridge.npu_init import *
    tf.disable_eager_execution()
    rank = get_rank_id()
    strategy = npu_strategy.NPUStrategy()
    assert strategy.num_replicas_in_sync == 2
    with strategy.scope():
        v = tf.get_variable("v", initializer=float(rank))
        assert tf.distribute.get_strategy() is strategy
    dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(7))
    item = tf.data.make_one_shot_iterator(dataset).get_next()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = [int(session.run(item)) for _ in range(3)]
        assert found == [rank, rank + 2, rank + 4], found
        assert session.run(v) == rank
        session.run(hccl_ops.allreduce(v, "sum"))
    """
    run_ranks(2, textwrap.dedent(script), limit=180).expect_success()

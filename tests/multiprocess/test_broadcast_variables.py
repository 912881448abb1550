"""Variables given to a broadcast hold the root's values afterwards, without an assign."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

KINDS = ["False", "True"]  # use_resource


@pytest.mark.parametrize("resource", KINDS)
@pytest.mark.parametrize(("ranks", "root"), [(2, 0), (3, 2)])
def test_running_the_result_changes_the_variables(ranks, root, resource):
    script = scripts.graph(
        """
        def variable(name, value):
            return tf.get_variable(name, initializer=value + tf.cast(rank, value.dtype),
                                   use_resource=%s)

        variable("float", tf.constant([1.0, 2.0]))
        variable("scalar", tf.constant(3))
        variable("half", tf.constant([[4.0]], tf.float16))
        variable("empty", tf.zeros([0, 2]))
        flag = tf.get_variable("flag", initializer=tf.constant([rank == %d, True]), use_resource=%s)
        # Made before the variables are initialized.
        result = hccl_ops.broadcast(tf.global_variables(), %d)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            returned = session.run(result)
            values = session.run(tf.global_variables())
        for found in (returned, values):
            assert found[0].tolist() == [1 + %d, 2 + %d], found
            assert found[1] == 3 + %d and found[2].tolist() == [[4 + %d]], found
            assert found[3].shape == (0, 2) and found[4].tolist() == [True, True], found
        """
        % ((resource, root, resource) + (root,) * 5)
    )
    run_ranks(ranks, script, limit=180).expect_success()


@pytest.mark.parametrize("resource", KINDS)
def test_running_one_of_the_results_changes_all_of_them(resource):
    script = scripts.graph(
        """
        variables = [tf.get_variable("v%%d" %% i, initializer=float(10 * i + rank), use_resource=%s)
                     for i in range(3)]
        result = hccl_ops.broadcast(variables, 0)
        for way in (result[1], result[2].op, tf.group(*result)):
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                session.run(way)
                assert session.run(variables) == [0, 10, 20]
        """
        % resource
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("resource", KINDS)
def test_an_assign_by_the_script_does_no_harm(resource):
    script = scripts.graph(
        """
        variables = [tf.get_variable("v%%d" %% i, initializer=[float(rank), 2.0], use_resource=%s)
                     for i in range(4)]
        root_values = hccl_ops.broadcast(variables, 1)
        assigned = tf.group(*[tf.assign(v, value) for v, value in zip(variables, root_values)])
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(assigned)
            assert all(v.tolist() == [1, 2] for v in session.run(variables))
            # They are the script's own again: what one rank writes stays there.
            session.run(tf.assign_add(variables[0], [float(rank), 0.0]))
            assert session.run(variables[0]).tolist() == [1 + rank, 2]
        """
        % resource
    )
    run_ranks(2, script, limit=180).expect_success()


def test_variables_and_tensors_in_one_list():
    script = scripts.graph(
        """
        ref = tf.get_variable("ref", initializer=float(rank), use_resource=False)
        resource = tf.get_variable("resource", initializer=float(rank), use_resource=True)
        parts = tf.get_variable("parts", [4, 2], initializer=tf.constant_initializer(rank),
                                partitioner=tf.fixed_size_partitioner(2))
        tensor = tf.constant(float(rank)) * 5
        result = hccl_ops.broadcast((ref, tensor, resource, np.float32(rank), parts, ref.op.outputs[0]), 1)
        assert isinstance(result, tuple)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            values = session.run(result)
            assert [float(np.mean(v)) for v in values] == [1, 5, 1, 1, 1, 1], values
            assert session.run([ref, resource]) == [1, 1]
            assert (session.run(tf.convert_to_tensor(parts)) == 1).all()
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_thousands_of_variables_in_one_op():
    script = scripts.graph(
        """
        variables = [tf.get_variable("v%d" % i, initializer=float(rank), use_resource=i % 2 == 0)
                     for i in range(3000)]
        result = hccl_ops.broadcast(variables, 1)
        kinds = [op.type for op in tf.get_default_graph().get_operations()]
        assert kinds.count("HcomBroadcast") == 1
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(result)
            assert set(session.run(variables)) == {1.0}
        """
    )
    run_ranks(2, script, limit=240).expect_success()


def test_in_a_group():
    script = scripts.graph(
        """
        v = tf.get_variable("v", initializer=float(rank), use_resource=rank != 0)
        if rank != 1:
            create_group("outer", 2, [2, 0])
            result = hccl_ops.broadcast([v], 0, group="outer")
        else:
            result = v.read_value()
        from npu_bridge.estimator import npu_ops
        with tf.Session() as session:
            session.run(npu_ops.initialize_system())  # a job starts when all its ranks have
            session.run(tf.global_variables_initializer())
            session.run(result)
            assert session.run(v) == (1 if rank == 1 else 2)
        """
    )
    run_ranks(3, script, limit=180).expect_success()


@pytest.mark.parametrize("way", ["eager", "function"])
def test_distribute_broadcast(way):
    script = scripts.eager(
        """
        import npu_device as npu
        way = %r
        one = tf.Variable([float(rank), 1.0])
        several = [tf.Variable(rank + i) for i in range(3)]

        def broadcast(values, root):
            call = lambda: npu.distribute.broadcast(values, root_rank=root)
            return tf.function(call)() if way == "function" else call()

        result = broadcast(one, 1)
        assert one.numpy().tolist() == [1, 1] and result.numpy().tolist() == [1, 1]
        result = broadcast(several, 1)
        assert [v.numpy() for v in several] == [1, 2, 3]
        assert [int(t) for t in result] == [1, 2, 3]
        for v in several:
            v.assign_add(rank)
        broadcast(tuple(several[:2]), 1)
        assert [v.numpy() for v in several] == [2, 3, 3 + rank]
        plain = broadcast(tf.constant(float(rank)), 1)
        assert float(plain) == 1.0
        assert [float(t) for t in broadcast([np.float32(rank), 2.0 * rank], 1)] == [1, 2]
        """
        % way
    )
    run_ranks(2, script, limit=180).expect_success()


def test_a_function_that_broadcasts_in_every_call():
    script = scripts.eager(
        """
        import npu_device as npu
        v = tf.Variable(float(rank))

        @tf.function
        def step():
            v.assign_add(float(rank + 1))
            npu.distribute.broadcast([v], root_rank=0)

        for expected in range(1, 6):
            step()
            assert v.numpy() == expected, v
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_variables_of_a_keras_model_and_its_optimizer():
    """Keras 2 and Keras 3 variables, among them those that are not trained."""
    script = scripts.eager(
        """
        import npu_device as npu
        from tensorflow import keras
        if tf.__version__ < "2":
            raise SystemExit(0)
        keras.utils.set_random_seed(rank) if hasattr(keras.utils, "set_random_seed") else (
            tf.random.set_random_seed(rank))
        model = keras.Sequential([keras.layers.Dense(4, input_shape=(3,)),
                                  keras.layers.BatchNormalization(), keras.layers.Dense(1)])
        model.compile(keras.optimizers.Adam(), "mse")
        x = np.random.RandomState(rank).rand(16, 3).astype(np.float32)
        model.fit(x, x[:, :1], epochs=1, verbose=0)

        def values(variables):
            return [np.asarray(v) for v in variables]

        def optimizer_variables():
            found = model.optimizer.variables
            return list(found() if callable(found) else found)

        def everyones(variables):
            return [npu.distribute.all_reduce(tf.constant(v), how).numpy() for v in
                    values(variables) if v.dtype == np.float32 for how in ("min", "max")]

        before = everyones(model.trainable_variables)
        assert not all((a == b).all() for a, b in zip(before[::2], before[1::2]))
        for variables in (model.trainable_variables, model.non_trainable_variables,
                          optimizer_variables()):
            root = [npu.distribute.broadcast(tf.constant(v), 1).numpy() for v in values(variables)]
            npu.distribute.broadcast(variables, root_rank=1)
            assert all((a == b).all() for a, b in zip(root, values(variables)))
            after = everyones(variables)
            assert all((a == b).all() for a, b in zip(after[::2], after[1::2]))
        """
    )
    run_ranks(2, script, limit=240).expect_success()


def test_a_variable_whose_shape_differs_is_an_error_on_both_ranks():
    script = scripts.graph(
        """
        v = tf.get_variable("v", initializer=tf.zeros([2 + rank]))
        result = hccl_ops.broadcast([v], 0)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(result)
        """
    )
    job = run_ranks(2, script, limit=180)
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError", r"float32 \[2\][\s\S]*float32 \[3\]")

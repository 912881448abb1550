"""NPUEstimator on ranks: trains as one process does, and rank 0 alone writes."""

from __future__ import annotations

import os

import numpy as np
import pytest

from tests.harness import run_ranks
from tests.multiprocess.estimator_model import script

# 20 steps of float32: a sum over two halves of a batch differs from that of the whole by rounding.
_TOLERANCE = 1e-5


@pytest.fixture(scope="module", autouse=True)
def _needs_estimator(has_estimator):
    if not has_estimator:
        pytest.skip("this TensorFlow has no tf.estimator")


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The weights of one process on whole batches, at global steps 10 and 20."""
    folder = str(tmp_path_factory.mktemp("alone"))
    job = run_ranks(
        1,
        script(
            f"""
            estimator = make({folder!r})
            for step in (10, 20):
                estimator.train(shard, steps=10)
                np.savez(os.path.join({folder!r}, "weights%d.npz" % step), **weights(estimator))
            metrics = estimator.evaluate(everything)
            assert metrics["global_step"] == 20, metrics
            looped = make(os.path.join({folder!r}, "looped"), iterations_per_loop=4)
            looped.train(shard, steps=10)
            expected = np.load(os.path.join({folder!r}, "weights10.npz"))
            for name, value in weights(looped).items():
                np.testing.assert_allclose(value, expected[name], atol={_TOLERANCE})
            """
        ),
        limit=180,
    )
    job.expect_success()
    return {step: dict(np.load(os.path.join(folder, f"weights{step}.npz"))) for step in (10, 20)}


def assert_close(folder, expected):
    values = dict(np.load(os.path.join(folder, "weights.npz")))
    assert sorted(values) == sorted(expected)
    for name, value in values.items():
        np.testing.assert_allclose(value, expected[name], atol=_TOLERANCE, err_msg=name)


@pytest.mark.core
def test_two_ranks_train_evaluate_predict_and_export_as_one_process(tmp_path, alone):
    model_dir = str(tmp_path / "model")
    job = run_ranks(
        2,
        script(
            f"""
            model_dir = {model_dir!r}
            estimator = make(model_dir, save_summary_steps=5)
            assert estimator.train(shard, steps=10) is estimator
            assert estimator.train(shard, max_steps=20) is estimator
            # Nothing is left to do, on any rank.
            estimator.train(shard, max_steps=20)
            values = weights(estimator)
            assert values["global_step"] == 20 and same_on_all_ranks(values)
            assert estimator.latest_checkpoint() == os.path.join(model_dir, "model.ckpt-20")
            assert estimator.model_dir == model_dir
            if rank == 0:
                np.savez(os.path.join({str(tmp_path)!r}, "weights.npz"), **values)
            metrics = estimator.evaluate(everything)
            assert metrics["global_step"] == 20
            assert same_on_all_ranks({{name: np.float32(v) for name, v in metrics.items()}})
            rows = list(estimator.predict(everything))
            assert len(rows) == ROWS
            assert same_on_all_ranks({{"rows": np.array([row["value"] for row in rows])}})
            hidden = np.tanh(FEATURES @ values["hidden"]) @ values["output"]
            np.testing.assert_allclose([row["value"] for row in rows], hidden, atol=1e-5)
            if rank == 1:  # one rank may do this by itself
                estimator.evaluate(everything, name="again")

            def serving():
                x = tf.placeholder(tf.float32, [None, 6], name="x")
                return tf.estimator.export.TensorServingInputReceiver(x, x)
            exported = estimator.export_saved_model(os.path.join(model_dir, "export"), serving)
            exported = exported.decode() if isinstance(exported, bytes) else exported
            assert os.path.isdir(os.path.join(exported, "variables"))
            assert exported.startswith(model_dir) == (rank == 0), exported
            """
        ),
        limit=240,
    )
    job.expect_success()
    assert_close(str(tmp_path), alone[20])
    names = sorted(os.listdir(model_dir))
    assert "model.ckpt-20.index" in names and "checkpoint" in names
    assert "eval" in names and "eval_again" not in names
    assert len(os.listdir(os.path.join(model_dir, "export"))) == 1
    # One process has written: it takes one file of events for all sessions.
    assert len([name for name in names if name.startswith("events")]) == 1, names
    assert job.left_files == []


def test_only_rank_0_has_the_checkpoint_and_the_folders_differ(tmp_path, alone):
    """Ranks that see nothing of rank 0's folder go on from its checkpoint, and use it afterwards."""
    job = run_ranks(
        2,
        script(
            f"""
            from tensorflow.python.training import training_util
            model_dir = os.path.join({str(tmp_path)!r}, "of_rank_%d" % rank)

            def hide():
                '''What only rank 0 sees: another rank's path of the same name does not exist.'''
                from npu_device._core import checkpoint_files, job_values
                job_values._PIECE = 100  # bytes: a copy arrives in many pieces
                describe = checkpoint_files._describe
                checkpoint_files._describe = lambda prefix: describe(prefix) if rank == 0 else None
            hide()
            make(model_dir).train(shard, steps=10)
            assert bool(found(model_dir)) == (rank == 0)

            seen = []
            class Look(tf.train.SessionRunHook):
                def after_create_session(self, session, coord):
                    names = tf.global_variables()
                    seen.append(dict(zip([v.op.name for v in names], session.run(names))))
            estimator = make(model_dir)
            estimator.train(shard, hooks=[Look()], max_steps=20)
            assert seen[0]["global_step"] == 10
            # Slots of the optimizer and all else is rank 0's before the first step.
            assert "hidden/Momentum" in seen[0] and np.any(seen[0]["hidden/Momentum"])
            assert same_on_all_ranks(seen[0])
            estimator.train(shard, max_steps=20)  # skipped, and agreed on
            values = weights(estimator)
            assert values["global_step"] == 20 and same_on_all_ranks(values)
            latest = estimator.latest_checkpoint()
            assert latest.startswith({str(tmp_path)!r}) == (rank == 0)
            assert same_on_all_ranks({{"loss": estimator.evaluate(everything)["loss"]}})
            assert bool(found(model_dir)) == (rank == 0)
            if rank == 0:
                np.savez(os.path.join({str(tmp_path)!r}, "weights.npz"), **values)
            """
        ),
        limit=240,
    )
    job.expect_success()
    assert_close(str(tmp_path), alone[20])
    assert job.left_files == []


@pytest.mark.parametrize("clock", ["save_checkpoints_steps", "save_checkpoints_secs"])
def test_train_and_evaluate(tmp_path, clock):
    """All ranks evaluate the same checkpoints at the same times, rank 0's clock deciding."""
    model_dir = str(tmp_path / "model")
    job = run_ranks(
        2,
        script(
            f"""
            import time
            model_dir = {model_dir!r}
            calls = []

            def evaluation():
                calls.append(tf.train.latest_checkpoint(model_dir))
                return everything()

            options = {{"{clock}": 5}} if "{clock}" == "save_checkpoints_steps" else {{
                "{clock}": 1, "save_checkpoints_steps": None}}
            estimator = make(model_dir, **options)

            class Slow(tf.train.SessionRunHook):
                # Clocks differ: this is what rank 1 must not go by.
                def after_run(self, run_context, run_values):
                    if "{clock}" == "save_checkpoints_secs" and rank == 1:
                        time.sleep(0.15)

            def serving():
                x = tf.placeholder(tf.float32, [None, 6], name="x")
                return tf.estimator.export.TensorServingInputReceiver(x, x)

            metrics, exports = tf.estimator.train_and_evaluate(
                estimator,
                tf.estimator.TrainSpec(shard, max_steps=20, hooks=[Slow()]),
                tf.estimator.EvalSpec(
                    evaluation, throttle_secs=0, steps=None,
                    exporters=tf.estimator.FinalExporter("final", serving)))
            assert metrics["global_step"] == 20, metrics
            assert same_on_all_ranks({{k: np.float32(v) for k, v in metrics.items()}})
            assert calls[-1] == os.path.join(model_dir, "model.ckpt-20")
            assert same_on_all_ranks({{"calls": np.int32(len(calls))}}), calls
            say("evaluations", len(calls), "exported", bool(exports[0]))
            """
        ),
        limit=240,
    )
    job.expect_success()
    if clock == "save_checkpoints_steps":
        assert all("evaluations 4 exported True" in output for output in job.outputs), job.report()
    assert len(os.listdir(os.path.join(model_dir, "export", "final"))) == 1
    assert job.left_files == []


def test_several_steps_in_a_run(tmp_path):
    """20 steps in runs of 8 end at step 20, with what 20 runs of one step give."""
    job = run_ranks(
        2,
        script(
            f"""
            runs, losses = [], []

            class Count(tf.train.SessionRunHook):
                def before_run(self, run_context):
                    loss = tf.get_collection(tf.GraphKeys.LOSSES)[0]
                    return tf.train.SessionRunArgs(loss)

                def after_run(self, run_context, run_values):
                    step = run_context.session.run(tf.train.get_global_step())
                    runs.append(int(step))
                    losses.append(float(run_values.results))

            # Of a run of one step each, whose 8th, 16th and 20th loss these must be.
            single = make({str(tmp_path / "single")!r}, params={{"hooks": [Count()]}})
            single.train(shard, steps=20)
            assert runs == list(range(1, 21)), runs
            singles = losses
            runs, losses = [], []

            estimator = make({str(tmp_path / "model")!r}, params={{"hooks": [Count()]}},
                             iterations_per_loop=8, save_checkpoints_steps=8)
            estimator.train(shard, max_steps=20)
            assert runs == [8, 16, 20], runs
            np.testing.assert_allclose(losses, [singles[i - 1] for i in runs], atol={_TOLERANCE})
            values = weights(estimator)
            assert values["global_step"] == 20 and same_on_all_ranks(values)
            for name, value in weights(single).items():
                np.testing.assert_allclose(values[name], value, atol={_TOLERANCE}, err_msg=name)
            """
        ),
        limit=240,
    )
    job.expect_success()


def test_host_calls_warm_starts_strategies_and_ranks_left_alone(tmp_path):
    job = run_ranks(
        2,
        script(
            f"""
            folder = {str(tmp_path)!r}
            written = []

            def host(step, loss):
                def write(step, loss):
                    written.append((int(step), float(loss)))
                    return np.int32(0)
                return tf.py_func(write, [step, loss], tf.int32)

            def with_host_call(features, labels, mode, params):
                spec = model_fn(features, labels, mode, {{}})
                tensors = [tf.train.get_global_step() + 0, spec.loss]
                return NPUEstimatorSpec(mode, spec.predictions, spec.loss, spec.train_op,
                                        host_call=(host, tensors))

            config = NPURunConfig(model_dir=os.path.join(folder, "host"))
            NPUEstimator(with_host_call, config=config).train(shard, steps=4)
            assert len(written) == (4 if rank == 0 else 0), written

            # Rank 0 starts from the checkpoint; what others would start from does not count.
            first = os.path.join(folder, "host", "model.ckpt-4")
            seen = []
            class Look(tf.train.SessionRunHook):
                def after_create_session(self, session, coord):
                    seen.append(session.run([v for v in tf.trainable_variables()]))
            warm = make(os.path.join(folder, "warm"),
                        warm_start_from=first if rank == 0 else os.path.join(folder, "no", "ckpt"))
            warm.train(shard, hooks=[Look()], steps=1)
            expected = [tf.train.load_variable(first, name) for name in ("hidden", "output")]
            assert all(np.array_equal(a, b) for a, b in zip(seen[0], expected))

            # A strategy around the model, and a summary that all ranks must compute.
            def with_summary(features, labels, mode, params):
                spec = model_fn(features, labels, mode, {{}})
                tf.summary.scalar("mean_loss", hccl_ops.allreduce(spec.loss, "sum"))
                return spec

            config = NPURunConfig(model_dir=os.path.join(folder, "strategy"), save_summary_steps=1,
                                  train_distribute=npu_strategy.NPUStrategy())
            estimator = NPUEstimator(with_summary, config=config)
            estimator.train(shard, steps=3)
            assert same_on_all_ranks(weights(estimator))
            assert estimator.latest_checkpoint().endswith("strategy/model.ckpt-3")

            # Without a checkpoint anywhere, and ranks that do not belong together.
            lonely = make(os.path.join(folder, "alone_%d" % rank), horovod_mode=True)
            lonely.train(shard, steps=2)
            assert "model.ckpt-2.index" in found(lonely.model_dir)
            """
        ),
        limit=240,
    )
    job.expect_success()
    assert job.left_files == []


def test_a_keras_model_trains_as_one_process(tmp_path):
    body = """
    import sys
    folder = sys.argv[1]
    K = tf.keras
    if rank:
        tf.set_random_seed(99)
    model = K.Sequential([K.layers.Dense(5, activation="tanh", input_shape=(6,), name="a"),
                          K.layers.Dense(1, name="b")])
    model.compile(optimizer=Averaging(0.05, 0.9), loss="mse")
    if rank == 0:
        start = np.random.RandomState(1)
        model.set_weights([start.randn(*w.shape).astype(np.float32) * 0.3 for w in model.get_weights()])
    estimator = keras_to_npu.model_to_npu_estimator(
        keras_model=model, model_dir=os.path.join(folder, "model%d" % size),
        config=NPURunConfig(save_checkpoints_steps=10))
    def input_fn():
        return shard().map(lambda x, y: ({"a_input": x}, y))
    estimator.train(input_fn, steps=20)
    values = weights(estimator)
    assert same_on_all_ranks({k: v for k, v in values.items() if v.dtype != object})
    kernels = {name.replace("/", "_"): values[name] for name in values if name.endswith("kernel")}
    assert len(kernels) == 2, sorted(values)
    if rank == 0:
        np.savez(os.path.join(folder, "keras%d.npz" % size), **kernels)
    """
    for ranks in (1, 2):
        job = run_ranks(ranks, script(body), arguments=[str(tmp_path)], limit=240)
        job.expect_success()
        assert job.left_files == []
    one, two = (dict(np.load(str(tmp_path / f"keras{ranks}.npz"))) for ranks in (1, 2))
    for name, value in one.items():
        np.testing.assert_allclose(two[name], value, atol=_TOLERANCE, err_msg=name)

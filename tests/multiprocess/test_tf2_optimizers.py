"""The wrapper of Keras optimizers: every optimizer and way to step, reduced once, under clear names."""

from __future__ import annotations

import copy
import logging
import os
import subprocess
import sys
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from tests.harness import run_ranks

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(MINOR < (2, 0), reason="for TensorFlow 2")


def run(ranks, function, *arguments, limit=300):
    job = run_ranks(ranks, function, limit=limit, arguments=arguments)
    job.expect_success()
    assert job.results[0] is not None
    assert all(one == job.results[0] for one in job.results), job.results
    return job


# Each optimizer of each Keras, with clipping, and with loss scaling around and inside.


def optimizers():
    keras = tf.keras
    makers = {
        "sgd": lambda wrap: wrap(keras.optimizers.SGD(0.1)),
        "momentum": lambda wrap: wrap(keras.optimizers.SGD(0.1, momentum=0.9)),
        "adam clipped": lambda wrap: wrap(keras.optimizers.Adam(0.01, clipnorm=0.05)),
        "global clip": lambda wrap: wrap(keras.optimizers.SGD(0.1, global_clipnorm=0.05)),
    }
    if (2, 11) <= MINOR < (2, 16):
        makers["legacy"] = lambda wrap: wrap(keras.optimizers.legacy.Adam(0.01, clipvalue=0.01))
    scaling = keras.mixed_precision.LossScaleOptimizer
    makers["scaling around"] = lambda wrap: wrap(scaling(keras.optimizers.SGD(0.1)))
    makers["scaling inside"] = lambda wrap: scaling(wrap(keras.optimizers.SGD(0.1)))
    if MINOR >= (2, 16):
        makers["accumulating"] = lambda wrap: wrap(
            keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)
        )
    return makers


def every_optimizer():
    import npu_device as npu
    from npu_device.distribute import hccl
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    reductions = count_reductions()
    found = {}
    for name, make in sorted(optimizers().items()):
        for way in ("fit", "loop"):
            if way == "loop" and name not in ("momentum", "adam clipped"):
                continue
            training.keras.backend.clear_session()
            together = training.started(data)
            optimizer = make(npu.distribute.npu_distributed_keras_optimizer_wrapper)
            assert hccl.npu_distributed_keras_optimizer_wrapper(optimizer) is optimizer
            del reductions[:]
            training.WAYS[way](together, optimizer, data, data.batches([rank], size))
            expected_names = ["dense/bias", "dense/kernel", "dense_1/bias", "dense_1/kernel"]
            traced = [one.partition("/HcomAllReduce/")[2] for one in reductions]
            traced = [one.replace("sequential/", "") for one in traced]  # the path, in Keras 3
            # Keras may trace its function twice, and a second op in one graph gets a number.
            counts = {traced.count(one) for one in traced if one}
            assert sorted(set(traced) - {""}) == expected_names, (name, way, reductions)
            assert len(counts) == 1, (name, way, reductions)
            if rank == 0:
                alone = training.started(data)
                optimizer = make(lambda same: same)
                training.WAYS[way](alone, optimizer, data, data.batches(range(size), size))
                # Adam divides by what may be nearly nothing.
                rtol, atol = (3e-4, 5e-5) if "adam" in name else (5e-5, 5e-6)
                found_here, expected = training.weights(together), training.weights(alone)
                training.expect_close(found_here, expected, rtol, atol, what=name)
            found[name, way] = training.digest(training.weights(together))
    return found


def count_reductions():
    """Returns a list that gets the name of each op that reduces, when a graph gets it."""
    from npu_device._core import library

    ops = library.ops()
    names = []
    original = ops.hcom_all_reduce

    def noting(*args, **kwargs):
        result = original(*args, **kwargs)
        if not tf.executing_eagerly():
            names.append(result.op.name)
        return result

    ops.hcom_all_reduce = noting
    return names


@pytest.mark.core
def test_every_optimizer_reduces_each_gradient_once_under_its_name():
    job = run(2, every_optimizer)
    assert len(job.results[0]) >= 8, job.results[0]


# Overflows, and Npu's own loss scaling.


def overflows(kinds):
    import npu_device as npu
    from npu_device.train.optimizer import npu_loss_scale_optimizer as ours
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    keras = training.keras
    mixed = keras.mixed_precision.LossScaleOptimizer
    legacy = (
        {}
        if not (2, 11) <= MINOR < (2, 16)
        else {
            "legacy inside": lambda: ours.NpuLossScaleOptimizer(
                wrap(keras.optimizers.legacy.SGD(0.1))
            )
        }
    )
    makers = {
        "keras around": lambda: wrap(mixed(keras.optimizers.SGD(0.1))),
        "keras inside": lambda: mixed(wrap(keras.optimizers.SGD(0.1))),
        "around": lambda: wrap(ours.NpuLossScaleOptimizer(keras.optimizers.SGD(0.1))),
        "inside": lambda: ours.NpuLossScaleOptimizer(wrap(keras.optimizers.SGD(0.1))),
        "fixed": lambda: ours.NpuLossScaleOptimizer(
            wrap(keras.optimizers.SGD(0.1)), dynamic=False, initial_scale=64
        ),
        "growing": lambda: ours.NpuLossScaleOptimizer(
            wrap(keras.optimizers.SGD(0.1)), initial_scale=64, dynamic_growth_steps=1
        ),
        "experimental": lambda: ours.NpuExperimentalLossScaleOptimizer(
            loss_scale=128, optimizer=wrap(keras.optimizers.SGD(0.1))
        ),
        "local": lambda: ours.NpuLossScaleOptimizer(keras.optimizers.SGD(0.1)),
        **legacy,
    }
    data = training.dense()
    data.x = data.x.copy()
    data.x[training.BATCH + training.BATCH - 1] = np.inf  # the last rank's, in the second batch
    found = {}
    for name in kinds or sorted(makers):
        if name not in makers:
            continue
        keras.backend.clear_session()
        model = training.started(data)
        optimizer = makers[name]()
        assert isinstance(optimizer, mixed)
        kept = Kept(optimizer, model)
        callback = keras.callbacks.LambdaCallback(on_batch_end=kept.note)
        training.fit(model, optimizer, data, data.batches([rank], size), [callback])
        first, second, third = kept.weights[:3]
        assert all((a == b).all() for a, b in zip(first, second)), name
        assert any((a != b).any() for a, b in zip(second, third)), name
        assert all(np.isfinite(a).all() for a in third), name
        if hasattr(optimizer, "last_step_finite"):
            assert kept.finite == [True, False, True, True], (name, kept.finite)
        found[name] = (kept.scales, name != "local" and training.digest(third))
    return found


class Kept:
    """What a model and its optimizer have after each batch."""

    def __init__(self, optimizer, model):
        self.optimizer = optimizer
        self.model = model
        self.weights, self.finite, self.scales = [], [], []

    def note(self, batch, logs):
        del batch, logs
        self.weights.append([np.array(w) for w in self.model.get_weights()])
        finite = getattr(self.optimizer, "last_step_finite", None)
        self.finite.append(finite is not None and bool(finite.numpy()))
        scale = getattr(self.optimizer, "dynamic_scale", None)
        self.scales.append(float(self.optimizer.loss_scale if scale is None else scale))


@pytest.mark.core
def test_an_overflow_on_one_rank_skips_the_step_on_all():
    found = run(2, overflows, []).results[0]
    assert found["fixed"][0] == [64] * 4
    assert found["experimental"][0] == [128] * 4
    assert found["growing"][0] == [128, 64, 128, 256]
    for name in ("keras around", "keras inside", "around", "inside", "local"):
        assert found[name][0] == [32768, 16384, 16384, 16384], (name, found)


def test_arguments_of_loss_scaling():
    from npu_device.train.optimizer import npu_loss_scale_optimizer as ours

    with pytest.raises(ValueError, match="initial_scale"):
        ours.NpuLossScaleOptimizer(tf.keras.optimizers.SGD(), dynamic=False)
    with pytest.raises(TypeError, match="'dynamic', a number"):
        ours.NpuExperimentalLossScaleOptimizer(tf.keras.optimizers.SGD(), "sometimes")
    with pytest.raises(ValueError, match="at least 1"):
        ours.NpuExperimentalLossScaleOptimizer(tf.keras.optimizers.SGD(), 0.5)


# Options, two optimizers, None, sparse gradients and errors.


def options():
    import npu_device as npu
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    keras = training.keras
    distribute = npu.distribute.distribute_optimizer
    table = tf.Variable(tf.ones([6, 2]), name="table")
    half = tf.Variable(tf.zeros([2], tf.float16), name="half")
    unused = tf.Variable(3.0, name="unused")
    if training.KERAS_3:
        table, half, unused = (
            keras.Variable(v.numpy(), dtype=v.dtype.name, name=v.name.split(":")[0])
            for v in (table, half, unused)
        )
    # Rank 0 has 3 rows with a repetition; rank 1 has 5, and none in the second step.
    ids = [[[1, 4, 1], [4, 4, 2, 5, 0]], [[3], []]]
    dense = np.ones([6, 2])
    for sparse_as_dense in (False, True):
        table.assign(np.ones([6, 2], np.float32))
        optimizer = distribute(keras.optimizers.SGD(1.0), sparse_as_dense=sparse_as_dense)
        dense = np.ones([6, 2])
        for step in ids:
            rows = tf.constant(step[rank], tf.int32)
            values = tf.ones([len(step[rank]), 2]) * (rank + 1)
            slices = tf.IndexedSlices(values, rows, tf.constant([6, 2]))
            optimizer.apply_gradients([(slices, table), (None, unused)])
            for r in range(size):
                np.subtract.at(dense, step[r], (r + 1) / size)
            np.testing.assert_allclose(np.array(table), dense, rtol=1e-6)
    # The sum of two times 40000 is not a float16; their mean is.
    for predivide in (False, True):
        half.assign(np.zeros([2], np.float16))
        optimizer = distribute(keras.optimizers.SGD(1.0), predivide=predivide)
        optimizer.apply_gradients([(tf.constant([40000, 8], tf.float16), half)])
        assert np.array(half).tolist() == ([-40000, -8] if predivide else [-np.inf, -8])
    # A sparse variable that is each rank's own is scaled like the others.
    scaling = NpuLossScaleOptimizer(keras.optimizers.SGD(1.0), dynamic=False, initial_scale=4)
    own = tf.Variable(np.ones([4, 1], np.float32))
    if training.KERAS_3:
        own = keras.Variable(np.ones([4, 1], np.float32))
    values = tf.constant([[4.0], [8.0]])
    scaled = [tf.IndexedSlices(values, tf.constant([rank, rank]), tf.constant([4, 1]))]
    if not training.KERAS_3:
        scaled = scaling.get_unscaled_gradients(scaled)
    scaling.apply_gradients(zip(scaled, [own]))
    assert np.array(own).ravel().tolist() == [-2.0 if r == rank else 1.0 for r in range(4)]
    total = distribute("sgd", "sum")
    assert abs(float(np.array(total.learning_rate)) - 0.01) < 1e-6
    with pytest.raises(ValueError, match="reduction='mean'"):
        distribute("sgd", "sum", predivide=True)
    with pytest.raises(ValueError, match="reduction must be one of"):
        distribute("sgd", "middle")
    with pytest.raises(TypeError, match="got 3"):
        distribute(3)
    return training.digest([np.array(table), np.array(half)])


def accumulation_of_keras_3():
    """Keras adds up the gradients of three steps, sparse ones as dense ones."""
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.embedding()

    def make(steps):
        return training.keras.optimizers.SGD(0.5, gradient_accumulation_steps=steps)

    model = training.started(data)
    optimizer = npu.distribute.distribute_optimizer(make(3), sparse_as_dense=True)
    batches = data.batches([rank], size, steps=3)
    training.fit(model, optimizer, data, batches)
    if rank == 0:
        alone = training.started(data)
        parts = zip(*data.batches(range(size), size, steps=3))
        joined = tuple(np.concatenate(part) for part in parts)
        training.fit(alone, make(None), data, [joined])
        training.expect_close(training.weights(model), training.weights(alone))
    return training.digest(training.weights(model))


@pytest.mark.skipif(MINOR < (2, 16), reason="Keras 2 does not accumulate gradients")
def test_accumulating_sparse_gradients_equals_one_larger_batch():
    run(2, accumulation_of_keras_3)


def two_optimizers():
    """A generator and a discriminator, one persistent tape, two wrapped optimizers in one step."""
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    keras = training.keras
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    data = training.dense()

    def train(wrap, ranks):
        keras.backend.clear_session()
        models = [training.started(data, seed=seed) for seed in (1, 2)]
        optimizers = [wrap(keras.optimizers.Adam(0.01)) for _ in models]

        @tf.function
        def step(x, y):
            with tf.GradientTape(persistent=True) as tape:
                one, other = (model(x) for model in models)
                losses = [data.loss(y, one + other), data.loss(y, one) - data.loss(y, other)]
            for loss, model, optimizer in zip(losses, models, optimizers):
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables))

        for x, y in data.batches(ranks, size):
            step(tf.constant(x), tf.constant(y))
        return training.weights(models[0]) + training.weights(models[1])

    found = train(wrap, [rank])
    if rank == 0:
        training.expect_close(found, train(lambda same: same, range(size)), rtol=2e-4)
    return training.digest(found)


def test_options_and_sparse_gradients_and_none():
    run(2, options)


def test_two_optimizers_in_one_step():
    run(2, two_optimizers)


def missing_gradient():
    import npu_device as npu
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer
    from tests.multiprocess import tf2_training as training

    rank, _ = training.ranks()
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    keras = training.keras
    scaling = keras.mixed_precision.LossScaleOptimizer
    found = []
    for make in (
        lambda: wrap(keras.optimizers.SGD(0.1)),
        lambda: wrap(scaling(keras.optimizers.SGD(0.1))),
        lambda: scaling(wrap(keras.optimizers.SGD(0.1))),
        lambda: NpuLossScaleOptimizer(wrap(keras.optimizers.SGD(0.1))),
    ):
        variables = [tf.Variable(1.0, name=name) for name in ("first", "second", "third")]
        if training.KERAS_3:
            variables = [keras.Variable(1.0, name=v.name.split(":")[0]) for v in variables]
        gradients = [tf.constant(1.0) for _ in variables]
        if rank == 1:
            gradients[1] = None
        try:
            make().apply_gradients(zip(gradients, variables))
        except Exception as error:
            found.append((type(error).__name__, str(error)))
    return found


@pytest.mark.core
def test_a_gradient_that_one_rank_lacks_is_named():
    found = run(2, missing_gradient).results[0]
    assert len(found) == 4, found
    for kind, text in found:
        assert kind == "ValueError", found
        assert "entry 1 ('second" in text, found
        assert "is None on rank 1 only" in text, found


# Ranks whose processes differ in what they made before.


def made_more_before():
    """Rank 1 has made a model more, so that Keras numbers its layers otherwise."""
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    data = training.dense()
    if rank == 1:
        training.started(data)
    digests = []
    for way in ("fit", "loop"):
        model = training.started(data, seed=rank)
        batches = data.batches([rank], size)
        if way == "fit":
            callbacks = npu.distribute.npu_callbacks_append([])
            training.fit(model, wrap("sgd"), data, batches, callbacks)
        else:
            npu.distribute.broadcast(model.trainable_variables)
            training.loop(model, wrap("sgd"), data, batches)
        digests.append(training.digest(training.weights(model)))
    assert digests[0] == digests[1]
    return digests


@pytest.mark.core
def test_a_rank_that_made_more_layers_trains_with_the_others_after_a_broadcast():
    run(2, made_more_before)


def restored(folder):
    """Rank 0 alone restores a checkpoint, which makes its slots in another order."""
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    optimizers = training.keras.optimizers
    makers = [optimizers.Adam]
    makers += [optimizers.legacy.Adam] if (2, 11) <= MINOR < (2, 16) else []
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    data = training.dense()
    batches = data.batches([rank], size)
    digests = []
    for number, make in enumerate(makers):
        through, model = training.started(data), training.started(data, seed=1)
        first, second = wrap(make(0.01)), wrap(make(0.5))
        training.fit(through, first, data, batches[:2])
        path = os.path.join(folder, f"{number}_of_{rank}")
        saved = tf.train.Checkpoint(model=through, optimizer=first).save(path)
        training.fit(through, first, data, batches[2:])
        if rank == 0:
            tf.train.Checkpoint(model=model, optimizer=second).restore(saved)
        callbacks = npu.distribute.npu_callbacks_append([])
        training.fit(model, second, data, batches[2:], callbacks)
        training.expect_close(training.weights(model), training.weights(through), rtol=1e-6)
        digests.append(training.digest(training.weights(model)))
    return digests


@pytest.mark.core
def test_a_checkpoint_that_rank_0_restored_is_where_all_go_on(tmp_path):
    run(2, restored, str(tmp_path))


def copied():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    model = training.started(data)
    optimizer = copy.deepcopy(wrap(training.keras.optimizers.SGD(0.1), "sum"))
    training.fit(model, optimizer, data, data.batches([rank], size))
    expected = training.started(data)
    original = wrap(training.keras.optimizers.SGD(0.1), "sum")
    training.fit(expected, original, data, data.batches([rank], size))
    digest = training.digest(training.weights(model))
    assert digest == training.digest(training.weights(expected))
    return digest


@pytest.mark.skipif(MINOR < (2, 16), reason="optimizers of Keras 2.11 to 2.15 cannot be copied")
def test_a_copy_of_an_optimizer_reduces_as_well():
    run(2, copied)


# Models that are saved, compiled by XLA, traced again and again.


def save_and_resume(folder):
    import npu_device as npu
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    keras = training.keras
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    data = training.dense()
    batches = data.batches([rank], size)
    through = training.started(data)
    training.fit(through, wrap(keras.optimizers.Adam(0.01)), data, batches)
    model = training.started(data)
    training.fit(model, wrap(keras.optimizers.Adam(0.01)), data, batches[:2])
    ending = ".h5" if MINOR < (2, 12) else ".keras"
    path = os.path.join(folder, f"model_{rank}{ending}")
    model.save(path)
    loaded = keras.models.load_model(path)
    optimizer = wrap(loaded.optimizer)
    training.fit(loaded, optimizer, data, batches[2:])
    training.expect_close(training.weights(loaded), training.weights(through), rtol=1e-6)
    scaled = training.started(data)
    scaling = NpuLossScaleOptimizer(keras.optimizers.Adam(0.01))
    training.loop(scaled, scaling, data, data.batches([0], 1)[:1])
    scaled.compile(scaling, data.loss)
    scaled.save(os.path.join(folder, f"scaled_{rank}{ending}"))
    return training.digest(training.weights(loaded))


@pytest.mark.core
def test_a_saved_model_loads_without_this_package_and_training_goes_on(tmp_path):
    run(2, save_and_resume, str(tmp_path))
    code = (
        "import sys, tensorflow as tf\n"
        "for name, kind in zip(sys.argv[1:], ('Adam', 'LossScaleOptimizer')):\n"
        "    model = tf.keras.models.load_model(name)\n"
        "    assert type(model.optimizer).__name__.startswith(kind), model.optimizer\n"
        "ours = [m for m in sys.modules if m.split('.')[0] in ('npu_bridge', 'npu_device')]\n"
        "assert not ours, ours\n"
    )
    paths = sorted(str(one) for one in tmp_path.iterdir() if "_1." not in one.name)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    subprocess.run(
        [sys.executable, "-c", code, *paths],
        check=True,
        env=environment,
        cwd=tempfile.gettempdir(),
        timeout=120,
    )


def compiled():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    texts = []

    @tf.function(jit_compile=True)
    def reduced(x):
        return npu.distribute.all_reduce(x * 2, "sum")

    try:
        reduced(tf.ones([3]))
    except ValueError as error:
        texts.append(str(error).strip().splitlines()[-1])
    data = training.dense()
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    notes = []
    logger = logging.getLogger("npu_bridge")
    handler = logging.Handler()
    handler.emit = lambda record: notes.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    for option in (True, "auto", "auto") if MINOR >= (2, 9) else ():
        model = training.started(data)
        batches = data.batches([rank], size)
        try:
            training.fit(model, wrap("sgd"), data, batches, jit_compile=option)
        except ValueError as error:
            assert option is True
            texts.append(str(error).strip().splitlines()[-1])
        else:
            assert option == "auto"
    told = [note for note in notes if "auto" in note]
    expected = rank == 0 and (2, 9) <= MINOR and not training.KERAS_3
    assert len(told) == expected, notes
    return texts


def test_xla_is_refused_in_one_sentence_and_auto_trains():
    texts = run(2, compiled).results[0]
    assert len(texts) == (2 if MINOR >= (2, 9) else 1), texts
    for text in texts:
        assert "XLA cannot compile exchanges between ranks. Use jit_compile=False" in text, texts

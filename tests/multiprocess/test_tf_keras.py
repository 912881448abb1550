"""tf-keras, which is Keras 2 beside any TensorFlow, as tf.keras and imported by its own name."""

from __future__ import annotations

import importlib.util

import pytest
import tensorflow as tf

from tests.harness import run_ranks
from tests.multiprocess.test_tf2_parity import parity

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(
        MINOR < (2, 15) or importlib.util.find_spec("tf_keras") is None,
        reason="tf-keras is not installed",
    ),
]


def run(function, *arguments, legacy):
    environment = {"TF_USE_LEGACY_KERAS": "1" if legacy else None}
    job = run_ranks(2, function, limit=300, arguments=arguments, environment=environment)
    job.expect_success()
    assert job.results[0] is not None
    assert all(one == job.results[0] for one in job.results), job.results
    return job.results[0]


def as_tf_keras(pairs):
    assert tf.keras.Model.__module__.startswith("tf_keras."), tf.keras.Model.__module__
    return parity(pairs), loss_scaling(tf.keras)


def loss_scaling(keras):
    import npu_device as npu
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer

    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    scaled = []
    for make in (
        lambda: NpuLossScaleOptimizer(wrap(keras.optimizers.SGD(0.1))),
        lambda: NpuLossScaleOptimizer(wrap(keras.optimizers.legacy.SGD(0.1))),
    ):
        scaled.append(trained(keras, make())[1])
    return scaled


def trained(keras, optimizer, *callbacks, **compile_options):
    """Returns the number of epochs and the weights after a fit from other weights on each rank."""
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    keras.backend.clear_session()
    init = keras.initializers.RandomNormal(stddev=0.1, seed=rank)
    layers = [keras.Input([64]), keras.layers.Dense(10, kernel_initializer=init)]
    model = keras.Sequential(layers)
    data = training.dense()
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss, **compile_options)
    x, y = data.batches([rank], size)[0]
    callbacks = npu.distribute.npu_callbacks_append([]) + list(callbacks)
    history = model.fit(x, y, batch_size=len(x), epochs=6, verbose=0, callbacks=callbacks)
    return len(history.epoch), training.digest(training.weights(model))


def test_tf_keras_as_tf_keras_trains_as_one_process():
    run(as_tf_keras, [("convolution", "fit")], legacy=True)


def imported(folder):
    import tf_keras

    import npu_device as npu
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer

    distribute = npu.distribute
    npu.open().as_default()
    wrap = distribute.npu_distributed_keras_optimizer_wrapper
    path = f"{folder}/of_{npu.open().worker_id}.weights.h5"
    callbacks = [
        distribute.MetricAverageCallback(),
        distribute.SyncEarlyStopping("loss", min_delta=100, patience=1),
        distribute.SyncModelCheckpoint(path, save_weights_only=True),
    ]
    found = trained(tf_keras, wrap(tf_keras.optimizers.Adam(0.01)), *callbacks)
    scaling = tf_keras.mixed_precision.LossScaleOptimizer(wrap(tf_keras.optimizers.SGD(0.1)))
    scaled = trained(tf_keras, scaling, jit_compile="auto")
    if not hasattr(tf.keras.optimizers.Optimizer, "minimize"):
        with pytest.raises(TypeError, match="TF_USE_LEGACY_KERAS=1"):
            NpuLossScaleOptimizer(tf_keras.optimizers.SGD(0.1))
    return found, scaled


def test_models_of_tf_keras_train_beside_another_tf_keras(tmp_path):
    (epochs, _), (others, _) = run(imported, str(tmp_path), legacy=False)
    assert (epochs, others) == (2, 6)
    assert [one.name for one in tmp_path.iterdir()] == ["of_0.weights.h5"]

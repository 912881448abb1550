"""Keras callbacks and scopes: ranks begin alike, stop together, and average what they measure."""

from __future__ import annotations

import os

import numpy as np
import pytest
import tensorflow as tf

from tests.harness import run_ranks

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(MINOR < (2, 0), reason="for TensorFlow 2")


def run(ranks, function, *arguments):
    job = run_ranks(ranks, function, limit=300, arguments=arguments)
    job.expect_success()
    assert job.results[0] is not None
    assert all(one == job.results[0] for one in job.results), job.results
    return job.results[0]


def broadcast_callback():
    """Ranks with other weights; rank 1 has trained further, at another rate (as if restored)."""
    import npu_device as npu
    from npu_device._core import model_broadcast
    from npu_device.distribute import npu_callbacks
    from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.convolution()
    keras = training.keras
    wrap = npu.distribute.npu_distributed_keras_optimizer_wrapper
    model = training.started(data, seed=rank)
    optimizer = keras.optimizers.SGD(0.05 if rank == 1 else 0.01, momentum=0.9)
    if rank == 1:
        training.fit(model, optimizer, data, data.batches([0], size, steps=3))
    callback = npu.distribute.NPUBroadcastGlobalVariablesCallback(1)
    # The same batch on both: batch normalization keeps what its own rank saw.
    training.fit(model, wrap(optimizer), data, data.batches([0], size, steps=1), [callback])
    assert callback.broadcast_done
    found = [np.array(v) for v in model_broadcast.model_variables(model)]
    counts = [int(v) for v in found if v.dtype in (np.int64, np.int32) and not v.shape]
    assert counts and max(counts) == 4, counts
    rate = float(np.array(model.optimizer.learning_rate))
    assert abs(rate - 0.05) < 1e-6, rate

    # A model that has no weights before its first batch, and the list of callbacks.
    late = keras.Sequential([keras.layers.Dense(3), keras.layers.Dense(10)])
    flat = training.dense()
    callbacks = npu.distribute.npu_callbacks_append([])
    assert [type(one).__name__ for one in callbacks] == ["NPUBroadcastGlobalVariablesCallback"]
    assert npu.distribute.npu_callbacks_append() is not callbacks
    training.fit(late, wrap("sgd"), flat, flat.batches([rank], size, steps=1), callbacks)

    # What loss scaling keeps.
    scaling = NpuLossScaleOptimizer(wrap(keras.optimizers.SGD(0.1)), initial_scale=64 + rank)
    scaled = training.started(flat)
    callbacks = npu.distribute.npu_callbacks_append()
    training.fit(scaled, scaling, flat, flat.batches([rank], size, steps=1), callbacks)
    factor = scaling.dynamic_scale if training.KERAS_3 else scaling.loss_scale
    assert float(np.array(factor)) == 64, factor

    # Models and variables, each broadcast once.
    once = training.started(flat, seed=rank)
    assert npu_callbacks.broadcast_keras_model(once) is once
    for variable in once.trainable_variables:
        assert npu_callbacks.broadcast_registry[id(variable)] is variable
    npu_callbacks.broadcast_keras_model(once)
    assert npu_callbacks.broadcast_keras_model("none") == "none"

    # A scope in which variables get rank 0's values as they are made.
    strategy = npu.distribute.npu_broadcast_scope_wrapper(tf.distribute.get_strategy())
    assert npu.distribute.npu_broadcast_scope_wrapper(3) == 3
    given = tf.Variable(float(rank))
    with strategy.scope(), npu_callbacks.NpuBroadcastScopeContext(None, [given]):
        made = tf.Variable([rank + 5.0])
        own = tf.Variable(rank, trainable=False)
    outside = tf.Variable([rank + 5.0])
    assert (given.numpy(), made.numpy()[0], int(own), outside.numpy()[0]) == (0, 5, rank, rank + 5)
    return training.digest(found + training.weights(late) + training.weights(once))


@pytest.mark.core
def test_ranks_begin_with_the_weights_of_one():
    run(2, broadcast_callback)


def placed_elsewhere():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, _ = training.ranks()
    tf.config.set_soft_device_placement(True)
    with tf.device("/device:GPU:0"):
        variables = [tf.Variable([rank + 1.0]), tf.Variable([[rank + 2.0]])]
        npu.distribute.broadcast(variables, 1)
    values = [v.numpy().tolist() for v in variables]
    tf.config.set_soft_device_placement(False)
    with tf.device("/device:CPU:0"):
        npu.distribute.broadcast(variables, 0)
    with pytest.raises((ValueError, tf.errors.OpError)), tf.device("/device:GPU:0"):
        npu.distribute.broadcast(variables, 0)
    return values


def test_a_broadcast_under_another_device_runs_here_or_fails():
    assert run(2, placed_elsewhere) == [[2.0], [[3.0]]]


# Stopping.


def early_stopping(way):
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    stopping = training.keras.callbacks.EarlyStopping
    model = training.started(data)
    optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper("sgd")
    # Rank 0 alone sees no progress; the mean of both shows enough.
    watched = training.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(watched=5.0 if rank == 0 else 5.0 - epoch**2)
    )
    callbacks = [watched]
    if way == "synchronized":
        arguments = {"monitor": "watched", "patience": 1, "mode": "min"}
        callbacks.append(npu.distribute.SyncEarlyStopping(min_delta=1.0, **arguments))
    elif rank == 0:
        callbacks.append(stopping("watched", patience=1, mode="min"))
    batches = data.batches([rank], size)
    history = training.fit(model, optimizer, data, batches, callbacks, epochs=5)
    return len(history.epoch)


@pytest.mark.core
def test_early_stopping_stops_all_ranks_in_the_same_epoch():
    # Means 5, 4.5, 3, 0.5: the second is no progress of 1.
    assert run(2, early_stopping, "synchronized") == 2


def test_plain_early_stopping_on_one_rank_ends_the_other_in_time():
    job = run_ranks(2, early_stopping, limit=120, arguments=["plain"])
    job.expect_exit(0, 0)
    assert job.results[0] == 2
    job.expect_error(1, "rank 0")


# Averages and checkpoints.


def averages_and_checkpoints(folder):
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    model = training.started(data)
    optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper("sgd")
    values = {0: [4.0, 0.0, 5.0], 1: [4.0, 6.0, 1.0]}  # means 4, 3, 3
    # Not of rank 0 alone, whose best epoch is another one.
    own = training.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: logs.update(watched=values[rank][epoch])
    )
    seen = []
    after = training.keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(sorted(os.listdir(folder)))
    )
    # Each rank has a folder of its own to write into, and only rank 0 writes.
    checkpoint = npu.distribute.SyncModelCheckpoint(
        os.path.join(folder, f"of_rank_{rank}_epoch_{{epoch}}.weights.h5"),
        monitor="watched",
        mode="min",
        save_best_only=True,
        save_weights_only=True,
    )
    callbacks = [own, checkpoint, npu.distribute.MetricAverageCallback(), after]
    batches = data.batches([rank], size)
    history = training.fit(model, optimizer, data, batches, callbacks, epochs=3)
    assert history.history["watched"] == [4.0, 3.0, 3.0], history.history
    if rank == 0:
        loaded = training.started(data)
        loaded.load_weights(os.path.join(folder, "of_rank_0_epoch_2.weights.h5"))
    try:
        npu.distribute.average_metrics({"loss": 1.0, f"only_{rank}": 2.0})
    except ValueError as error:
        text = str(error)
    return history.history["loss"], seen, text


@pytest.mark.core
def test_metrics_are_averaged_and_the_best_model_is_that_of_all_ranks(tmp_path):
    _, seen, text = run(2, averages_and_checkpoints, str(tmp_path))
    first = "of_rank_0_epoch_1.weights.h5"
    assert seen == [[first], [first, first.replace("1.", "2.")], [first, first.replace("1.", "2.")]]
    assert "rank 0 has ['loss', 'only_0'], rank 1 has ['loss', 'only_1']" in text, text

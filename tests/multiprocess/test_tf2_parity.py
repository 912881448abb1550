"""Ranks on shards train as one process on the joined batch, and hold the same weights, bit for bit."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.harness import run_ranks

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(MINOR < (2, 0), reason="for TensorFlow 2")


def parity(pairs):
    import npu_device as npu
    from npu_device.distribute.sync_batch_normalization import SyncBatchNormalization
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    digests = {}
    for kind, way in pairs:
        data = training.DATA[kind]()
        train = training.WAYS[way]
        make = training.keras.optimizers.Adam if way == "loop" else momentum
        what = f"{kind} {way}"
        # Rank 0 makes one model more, and Keras numbers the layers from which ops are named.
        training.keras.backend.clear_session()
        # Other weights on each rank, until they are rank 0's.
        together = training.started(data, seed=rank, normalize=SyncBatchNormalization)
        npu.distribute.broadcast(together.weights, 0)
        optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper(make(0.01))
        train(together, optimizer, data, data.batches([rank], size))
        found = training.weights(together)
        if rank == 0:
            alone = training.started(data)
            before = training.weights(alone)
            # Adam of Keras 3 squares rows with equal ids one by one, which ours does not.
            options = {"dense": True} if training.KERAS_3 and way == "loop" else {}
            train(alone, make(0.01), data, data.batches(range(size), size), **options)
            expected = training.weights(alone)
            training.expect_close(found, expected, what=what)
            assert any((a != b).any() for a, b in zip(before, expected)), what
        digests[what] = training.digest(found)
    return digests


def momentum(rate):
    return tf.keras.optimizers.SGD(rate, momentum=0.9)


KINDS = ["dense", "convolution", "embedding"]
WAYS = ["fit", "loop", "accumulate"]


@pytest.mark.core
def test_two_ranks_train_as_one_process():
    expect_equal(2, [(kind, way) for kind in KINDS for way in WAYS])


def test_four_ranks_train_as_one_process():
    expect_equal(4, [(kind, way) for kind in KINDS for way in WAYS])


def expect_equal(ranks, pairs):
    job = run_ranks(ranks, parity, limit=400, arguments=[pairs])
    job.expect_success()
    assert len(job.results[0]) == len(pairs), job.results[0]
    assert all(one == job.results[0] for one in job.results), job.results

"""Datasets, grouping, Python values, meshes and batch normalization of several ranks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from tests.harness import run_ranks

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(MINOR < (2, 0), reason="for TensorFlow 2")


def run(ranks, function, *arguments, same=True):
    job = run_ranks(ranks, function, limit=300, arguments=arguments)
    job.expect_success()
    assert job.results[0] is not None
    assert not same or all(one == job.results[0] for one in job.results), job.results
    return job.results


# Datasets.


def datasets():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    shard_and_rebatch = npu.distribute.shard_and_rebatch_dataset
    shard, batch = shard_and_rebatch(tf.data.Dataset.range(11), 4 * size)
    assert batch == 4
    batches = [b.numpy().tolist() for b in shard.batch(batch)]
    steps = [
        npu.distribute.min_steps(one)
        for one in (
            shard.batch(batch),
            shard.filter(lambda x: x < 9).batch(1),
            shard.repeat() if rank == 0 else shard,
            [0] * (5 + rank),
            7 + rank,
        )
    ]
    texts = []
    for wrong in (
        lambda: shard_and_rebatch(shard, 4 * size + 1),
        lambda: npu.distribute.min_steps(shard.repeat()),
    ):
        try:
            wrong()
        except ValueError as error:
            texts.append(str(error))
    return batches, steps, texts


def test_shards_and_their_smallest_number_of_batches():
    zero, one = run(2, datasets, same=False)
    assert zero[0] == [[0, 2, 4, 6], [8, 10]]
    assert one[0] == [[1, 3, 5, 7], [9]]
    assert zero[1] == one[1] == [2, 4, 5, 5, 7]
    assert "not divisible by the 2 ranks. Use 8" in zero[2][0], zero[2]
    assert "all 2 ranks repeat for ever" in one[2][1], one[2]


def uneven(ways, helped):
    """5 batches, of which rank 0 has 3 and rank 1 has 2."""
    return [uneven_in(way, helped) for way in ways]


def uneven_in(way, helped):
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    training.keras.backend.clear_session()
    model = training.started(data)
    optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper("sgd")
    batches = data.batches([rank], size)[: 3 - rank]
    if helped:
        batches = batches[: npu.distribute.min_steps(batches)]
    training.WAYS[way](model, optimizer, data, batches)
    if rank == 0 and helped:
        alone = training.started(data)
        sgd = training.keras.optimizers.SGD()
        training.WAYS[way](alone, sgd, data, data.batches(range(size), size)[:2])
        training.expect_close(training.weights(model), training.weights(alone))
    return training.digest(training.weights(model))


def test_uneven_data_with_min_steps():
    run(2, uneven, ["fit", "loop"], True)


def test_uneven_data_without_it_is_an_error():
    job = run_ranks(2, uneven, limit=120, arguments=[["fit"], False])
    job.expect_exit(1, 0)
    job.expect_error(0, "rank 1")


# Weight update grouping.


def grouping():
    import npu_device as npu
    from npu_device.distribute.weight_update_grouping import GroupingVars
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    data = training.dense()
    keras = training.keras
    distribute = npu.distribute
    results = []
    for wrapped in (False, True):
        keras.backend.clear_session()
        model = training.started(data)
        variables = model.trainable_variables
        optimizer = keras.optimizers.Adam(0.01)
        if wrapped:
            distribute.npu_distributed_keras_optimizer_wrapper(optimizer)

        step = grouped_step(data.loss, model, optimizer, reduced=wrapped)
        for x, y in data.batches([rank], size):
            step(tf.constant(x), tf.constant(y))
        if rank == 0:
            alone = training.started(data)
            adam = keras.optimizers.Adam(0.01)
            training.loop(alone, adam, data, data.batches(range(size), size))
            training.expect_close(training.weights(model), training.weights(alone), rtol=2e-4)
        assert int(np.array(optimizer.iterations)) == training.STEPS
        results.append(training.digest(training.weights(model)))
    # Each rank's own change of its variables reaches the others.
    division = GroupingVars(variables, size)
    owners = [division.get_gid_by_var(v) for v in variables]
    for variable, owner in zip(variables, owners):
        variable.assign(tf.ones_like(variable) * (owner + 1.0 if owner == rank else -1.0))
    distribute.grouping_broadcast(variables)
    assert [float(np.array(v).mean()) for v in variables] == [owner + 1.0 for owner in owners]
    return results, owners


def grouped_step(loss_of, model, optimizer, reduced):
    from npu_device import distribute

    variables = model.trainable_variables

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x))
        gradients = tape.gradient(loss, variables)
        if not reduced:
            gradients = distribute.all_reduce(gradients)
        pairs = zip(gradients, variables)
        distribute.grouping_gradients_apply(optimizer.apply_gradients, pairs)

    return step


@pytest.mark.core
def test_weight_update_grouping_trains_as_one_process():
    _, owners = run(2, grouping)[0]
    assert owners == [0, 1, 1, 1]


def test_how_variables_are_divided():
    from npu_device.distribute.weight_update_grouping import GroupingVars

    variables = [tf.Variable(tf.zeros([n])) for n in (1, 1, 1, 9, 3, 3)]
    found = [GroupingVars(variables, 3).get_gid_by_var(v) for v in variables]
    assert found == [0, 0, 0, 1, 2, 2]
    assert [GroupingVars(variables, 6).get_gid_by_var(v) for v in variables] == list(range(6))
    assert GroupingVars(variables, 1).get_gid_by_var(tf.Variable(0.0)) == -1
    with pytest.raises(ValueError, match="1 to 6, the number of variables"):
        GroupingVars(variables, 7)


# Python values.


class Unsendable:
    def __reduce__(self):
        raise RuntimeError("it stays here")


def objects():
    import npu_device as npu
    from npu_device.distribute import objects as module
    from tests.multiprocess import tf2_training as training

    rank, size = training.ranks()
    distribute = npu.distribute
    values = [{"rank": rank, "array": np.arange(3)}, None, "é" * rank]
    found = distribute.allgather_object(values)
    assert [one[0]["rank"] for one in found] == list(range(size))
    assert [one[2] for one in found] == ["é" * r for r in range(size)]
    assert found[rank] is values
    assert distribute.broadcast_object(("from", rank), 1) == ("from", 1)
    assert distribute.broadcast_object(Unsendable if rank == 0 else Unsendable(), 0) is Unsendable
    texts = []
    module.MAX_OBJECT_BYTES = 1000
    for bad in (
        lambda: distribute.allgather_object(Unsendable() if rank == 1 else 3),
        lambda: distribute.broadcast_object(Unsendable(), 1),
        lambda: distribute.allgather_object(b"x" * (1001 if rank == 1 else 1)),
        lambda: distribute.broadcast_object(3, size),
    ):
        try:
            bad()
        except (TypeError, ValueError) as error:
            texts.append(f"{type(error).__name__} {error}")
    assert distribute.allgather_object(rank) == list(range(size))
    return texts


def test_python_values():
    texts = run(2, objects)[0]
    assert len(texts) == 4, texts
    assert texts[0].startswith("TypeError allgather_object: the value of rank 1 cannot be pickled")
    assert "it stays here" in texts[1]
    assert texts[2].startswith("ValueError allgather_object: the value of rank 1 has 10")
    assert "allowed is 0 to 1" in texts[3]


# Groups of a grid, and means within groups.


def mesh():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, _ = training.ranks()
    distribute = npu.distribute
    grid = distribute.create_mesh({"data": 2, "model": -1})
    assert grid.shape == {"data": 2, "model": 2}
    assert grid.coordinates == {"data": rank // 2, "model": rank % 2}
    value = tf.constant([float(rank)])
    slices = tf.IndexedSlices([[float(rank)]], tf.constant([rank]), tf.constant([4, 1]))
    found = []
    for axis in ("data", "model"):
        group = grid.group(axis)
        found.append(float(distribute.all_reduce(value, group=group)[0]))
        rows = distribute.all_reduce(slices, "mean", group=group)
        found.append([rows.values.numpy().ravel().tolist(), rows.indices.numpy().tolist()])
        found.append(distribute.allgather_object(rank, group))
    # Gradients are averaged over the copies of a part, and each part differs.
    part = tf.Variable([float(rank % 2)])
    optimizer = distribute.distribute_optimizer("sgd", group=grid.group("data"))
    optimizer.learning_rate = 1.0
    if training.KERAS_3:
        part = training.keras.Variable([float(rank % 2)])
    optimizer.apply_gradients([(tf.constant([float(rank)]), part)])
    found.append(float(np.array(part)[0]))
    for wrong in ({"data": 3}, {"a b": 4}, {}, {"data": -1, "model": -1}):
        with pytest.raises(ValueError, match="create_mesh"):
            distribute.create_mesh(wrong)
    grid.destroy()
    distribute.create_mesh({"data": 4})
    return found


def test_a_mesh_has_a_group_along_each_axis():
    results = run(4, mesh, same=False)
    for rank, found in enumerate(results):
        data, model = [rank % 2, rank % 2 + 2], [rank // 2 * 2, rank // 2 * 2 + 1]
        for position, ranks in ((0, data), (3, model)):
            assert found[position] == sum(ranks) / 2
            # Divided by the ranks of the group, not of the job.
            assert found[position + 1] == [[r / 2 for r in ranks], ranks]
            assert found[position + 2] == ranks
        assert found[6] == rank % 2 - sum(data) / 2


# Batch normalization.


def normalization():
    import npu_device as npu
    from tests.multiprocess import tf2_training as training

    rank, _ = training.ranks()
    random = np.random.RandomState(0)
    x = random.uniform(1, 3, [9, 2, 5]).astype(np.float32)
    mine = [slice(0, 2), slice(2, 9)][rank]
    layer = npu.distribute.SyncBatchNormalization(momentum=0.5)
    plain = training.plain_normalization()
    plain.momentum = 0.5
    start = [random.uniform(1, 2, [5]), random.uniform(1, 2, [5]), np.zeros(5), np.ones(5)]
    for one in (layer, plain):
        one.build([None, 2, 5])
        one.set_weights(start)

    def gradient(one, rows):
        rows = tf.constant(rows)
        with tf.GradientTape() as tape:
            tape.watch(rows)
            loss = tf.reduce_sum(one(rows, training=True) ** 3)
        return tape.gradient(loss, rows).numpy()

    # Of the loss of all ranks, as for the joined batch.
    found = gradient(layer, x[mine])
    np.testing.assert_allclose(found, gradient(plain, x)[mine], rtol=2e-3, atol=2e-4)
    training.expect_close(layer.get_weights(), plain.get_weights(), rtol=1e-5)
    # Alone: it sends nothing when it does not train.
    if rank == 0:
        np.testing.assert_allclose(layer(x, training=False), plain(x, training=False), rtol=1e-5)
    again = type(layer).from_config(layer.get_config())
    assert again.group == "hccl_world_group"
    assert abs(again.momentum - 0.5) < 1e-6
    return training.digest(layer.get_weights())


@pytest.mark.core
def test_batch_normalization_over_unequal_shards():
    run(2, normalization)


# Functions that are traced at every call.


def retraced():
    import logging

    import npu_device as npu
    from npu_device._core import library
    from tests.multiprocess import tf2_training as training

    rank, _ = training.ranks()
    warnings, tables = [], []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: warnings.append(record.getMessage())
    logging.getLogger("tensorflow").addHandler(handler)

    @tf.function
    def step(number):
        return npu.distribute.all_reduce(tf.cast(number, tf.float32), "sum")

    for number in range(30):
        argument = number if rank == 0 else tf.constant(number)
        assert float(step(argument)) == 2 * number, number
        described = dict(line.split("=") for line in library.native().describe().split())
        tables.append([int(described[key]) for key in ("cells_ever_used", "pool_bytes_resident")])
    # As many cells as calls overlap, which are two at most, however often a rank traces.
    assert all(cells <= 2 and memory == tables[0][1] for cells, memory in tables), tables
    traces = step.experimental_get_tracing_count()
    return traces, len([one for one in warnings if "retracing" in one])


def test_a_rank_that_traces_at_every_call_stays_in_step():
    (many, warned), (once, none) = run(2, retraced, same=False)
    assert (many, once, none) == (30, 1, 0)
    assert 1 <= warned <= 2  # TensorFlow's own, of which it gives each function two at most

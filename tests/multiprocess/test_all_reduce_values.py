"""npu.distribute.all_reduce: means, lists with None entries, sparse values, integers."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core

# Calls all_reduce in the way that the mode has, and gives NumPy values.
BEGINNING = """
import npu_device as npu

def value_of(structure):
    if tf.executing_eagerly():
        return tf.nest.map_structure(lambda t: t.numpy(), structure)
    with tf.Session() as session:
        return session.run(structure)

"""
MODES = pytest.mark.parametrize("mode", [scripts.graph, scripts.eager])


@MODES
def test_every_reduction_of_lists_and_single_values(mode):
    script = mode(
        BEGINNING
        + """
x = tf.constant([1.0, 6.0]) * (rank + 1)
wanted = {"sum": [6, 36], "mean": [2, 12], "max": [3, 18], "min": [1, 6], "prod": [6, 1296]}
for how, values in sorted(wanted.items()):
    assert value_of(npu.distribute.all_reduce(x, how)).tolist() == values
assert value_of(npu.distribute.all_reduce(x)).tolist() == wanted["mean"]
result = npu.distribute.all_reduce([x, None, np.float32(rank), 3.0, tf.Variable([1, 2])])
assert isinstance(result, list) and result[1] is None
""".replace("tf.Variable([1, 2])", "np.array([rank, 4 * rank])")
        + """
values = value_of([r for r in result if r is not None])
assert [v.tolist() for v in values] == [[2, 12], 1, 3, [1, 4]], values
pair = npu.distribute.all_reduce((x, x), "max")
assert isinstance(pair, tuple) and value_of(pair)[1].tolist() == [3, 18]
"""
    )
    run_ranks(3, script, limit=180).expect_success()


@MODES
@pytest.mark.parametrize("ranks", [1, 2])
def test_the_mean_of_integers_keeps_their_dtype(mode, ranks):
    """One rule whatever the number of ranks: rounded towards zero, as tf.reduce_mean does."""
    script = mode(
        BEGINNING
        + """
for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
    found = value_of(npu.distribute.all_reduce(np.array([3, 5 + rank, 7], dtype), "mean"))
    assert found.dtype == dtype, (dtype, found.dtype)
    assert found.tolist() == [3, 5, 7], (dtype, found)
found = value_of(npu.distribute.all_reduce(np.array([-3 - rank]), "mean"))
assert found.tolist() == [-3], found
big = np.array([2 ** 63 + 11], np.uint64) if rank == 0 else np.array([9], np.uint64)
found = value_of(npu.distribute.all_reduce(big, "mean"))
assert found.tolist() == [(2 ** 63 + (20 if size == 2 else 11)) // size], found
"""
    )
    run_ranks(ranks, script, limit=180).expect_success()


@MODES
def test_the_mean_divides_by_the_size_of_the_group(mode):
    script = mode(
        BEGINNING
        + """
# A job starts when all its ranks have, each with its first op.
value_of([npu.distribute.all_reduce(tf.constant(1.0))])
if rank in (0, 2):
    create_group("even", 2, [0, 2])
    dense = npu.distribute.all_reduce(tf.constant([4.0 + rank]), group="even")
    sparse = npu.distribute.all_reduce(
        tf.IndexedSlices(tf.constant([[4.0 + rank]]), tf.constant([rank]), tf.constant([8, 1])),
        group="even")
    dense, values, indices = value_of([dense, sparse.values, sparse.indices])
    assert dense.tolist() == [5], dense
    assert values.tolist() == [[2], [3]] and indices.tolist() == [0, 2], (values, indices)
"""
    )
    run_ranks(4, script, limit=180).expect_success()


@MODES
@pytest.mark.parametrize("rows", [(3, 5), (3, 0), (0, 0)])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_sparse_values_with_rows_that_differ_in_number(mode, rows, index):
    script = mode(
        BEGINNING
        + """
rows = %r[rank]
values = np.arange(rows * 4, dtype=np.float32).reshape(rows, 2, 2) + 100 * rank
indices = np.arange(rows, dtype=np.%s) %% 2 + rank
result = npu.distribute.all_reduce(
    [tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([9, 2, 2]))], "sum")[0]
assert isinstance(result, tf.IndexedSlices)
assert result.values.shape.as_list()[1:] == [2, 2]
found, places, shape = value_of([result.values, result.indices, result.dense_shape])
everyone = [np.arange(r * 4, dtype=np.float32).reshape(r, 2, 2) + 100 * i
            for i, r in enumerate(%r)]
assert (found == np.concatenate(everyone)).all(), found
assert places.tolist() == [n %% 2 + i for i, r in enumerate(%r) for n in range(r)]
assert places.dtype == indices.dtype and shape.tolist() == [9, 2, 2]
"""
        % (rows, index, rows, rows)
    )
    run_ranks(2, script, limit=180).expect_success()


def test_an_entry_that_is_none_on_one_rank():
    """Called eagerly it is found before anything is paired wrongly."""
    script = scripts.eager(
        """
        import npu_device as npu
        g = [tf.constant([float(i)]) for i in range(3)]
        if rank == 1:
            g[1] = None
        for _ in range(2):
            try:
                npu.distribute.all_reduce(g)
            except ValueError as error:
                text = ("all_reduce in group hccl_world_group: of the list of 3, entry 1 is None on "
                        "rank 1 only. All ranks must pass None at the same positions: replace None "
                        "by tf.zeros_like of the variable.")
                assert str(error) == text, error
            else:
                raise SystemExit("it went unnoticed")
        assert float(npu.distribute.all_reduce(tf.constant(4.0))) == 4.0
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_entries_that_are_none_on_some_ranks_are_named():
    """Variables have names; in a group both sides of its ranks are world ranks."""
    script = scripts.eager(
        """
        import npu_device as npu
        create_group("turned", 3, [2, 0, 1])
        variables = [tf.Variable([1.0], name="v%d" % i) for i in range(30)]
        variables[0] = tf.constant([1.0])
        lost = {0: (0,), 1: (0, 4), 2: (5,) + tuple(range(10, 29))}[rank]
        for i in lost:
            variables[i] = None
        try:
            npu.distribute.all_reduce(variables, group="turned")
        except ValueError as error:
            say(error)
            parts = ["entry 0 is None on world ranks 0-1 only", "entry 4 ('v4:0') is None on world rank 1 only",
                     "entry 5 ('v5:0') is None on world rank 2 only",
                     "entry 14 ('v14:0') is None on world rank 2 only", "and so are 14 more"]
            assert all(part in str(error) for part in parts), error
            assert "v15" not in str(error)
        else:
            raise SystemExit("it went unnoticed")
        """
    )
    job = run_ranks(3, script, limit=180)
    job.expect_success()
    assert job.stdout[0] == job.stdout[1] == job.stdout[2]


@MODES
def test_entries_that_are_none_on_all_ranks_pass(mode):
    script = mode(
        BEGINNING
        + """
slices = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([rank]), tf.constant([4, 2]))
found = npu.distribute.all_reduce([None, tf.constant(2.0 + rank), None, slices], "sum")
assert found[0] is None and found[2] is None
assert [v.tolist() for v in value_of([found[1], found[3].values])] == [5, [[1, 1], [1, 1]]]
"""
    )
    run_ranks(2, script, limit=180).expect_success()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("fetched", [0, 2])
def test_an_entry_that_is_none_on_one_rank_in_a_function(kind, fetched):
    """In a graph every op of the list tells, and none waits for an op that the other rank lacks."""
    script = scripts.eager(
        """
        import npu_device as npu
        kind, fetched = %r, %d

        @tf.function
        def step():
            g = [tf.constant([[float(i)]]) for i in range(3)]
            if kind == "sparse":
                g = [tf.IndexedSlices(t, tf.constant([0]), tf.constant([4, 1])) for t in g]
            if rank == 1:
                g[1] = None
            result = npu.distribute.all_reduce(g, fusion=0)[fetched]
            return result.values if kind == "sparse" else result

        step()
        """
        % (kind, fetched)
    )
    # No deadline is near: the difference itself is what ends both.
    job = run_ranks(2, script, limit=180, environment={"NPU_BRIDGE_MISMATCH_TIMEOUT": "600"})
    for rank in range(2):
        job.expect_exception(rank, "InvalidArgumentError")
        job.expect_error(
            rank,
            "in group hccl_world_group: rank 0 passed an entry of a list without None, rank 1 passed "
            "an entry of a list in which entry 1 is None. All ranks must pass None at the same "
            "positions",
        )

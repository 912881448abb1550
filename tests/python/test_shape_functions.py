"""Static shapes: what is known is given, and nothing that a person can pass ends the process."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_device._core import library

pytestmark = pytest.mark.core

WORLD = "hccl_world_group"
NOT_FUSED = {"fusion": 0, "fusion_id": -1}


@pytest.fixture(autouse=True)
def graph():
    """A graph of its own for each test, without the Python wrappers' checks."""
    library.ops()
    with tf.Graph().as_default() as made:
        yield made


def fed(shape, dtype=tf.float32):
    return tf.placeholder(dtype, shape)


def all_gather(tensor, rank_size):
    return library.ops().hcom_all_gather(
        input=tensor, rank_size=rank_size, group=WORLD, **NOT_FUSED
    )


def reduce_scatter(tensor, rank_size):
    return library.ops().hcom_reduce_scatter(
        input=tensor, reduction="sum", rank_size=rank_size, group=WORLD, **NOT_FUSED
    )


def all_to_all_v(recv_counts, recv_displacements, tensor=None):
    counts = tf.constant([1, 1], tf.int64)
    return library.ops().hcom_all_to_all_v(
        send_data=fed([2]) if tensor is None else tensor,
        send_counts=counts,
        send_displacements=counts,
        recv_counts=recv_counts,
        recv_displacements=recv_displacements,
        group=WORLD,
    )


def all_to_all_v_c(matrix, rank):
    return library.ops().hcom_all_to_all_vc(
        send_data=fed([4]), send_count_matrix=matrix, rank=rank, group=WORLD, **NOT_FUSED
    )


def int64(values):
    return tf.constant(values, tf.int64)


def static(tensor):
    """None for an unknown rank, else the list of dimensions."""
    return None if tensor.shape.ndims is None else tensor.shape.as_list()


SHAPES = [None, [], [0], [3], [None], [2, None, 4], [1, 0, 2]]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_reduce_and_reduce_keep_the_shape(shape):
    ops = library.ops()
    reduced = ops.hcom_all_reduce(input=fed(shape), reduction="max", group=WORLD, **NOT_FUSED)
    at_root = ops.hcom_reduce(
        input=fed(shape), reduction="sum", root_rank=1, group=WORLD, **NOT_FUSED
    )
    assert static(reduced) == shape
    assert static(at_root) == shape


def test_broadcast_keeps_the_shape_and_dtype_of_each():
    inputs = [fed(shape) for shape in SHAPES] + [fed([2], tf.bool), fed([], tf.int8)]
    outputs = library.ops().hcom_broadcast(input=inputs, root_rank=0, group=WORLD, **NOT_FUSED)
    assert [static(o) for o in outputs] == [*SHAPES, [2], []]
    assert [o.dtype for o in outputs] == [i.dtype for i in inputs]


def test_broadcast_of_nothing_is_an_op():
    made = library.ops().hcom_broadcast(input=[], root_rank=0, group=WORLD, **NOT_FUSED)
    assert isinstance(made, (tf.Operation, list))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (None, None),
        ([None], [None]),
        ([None, 8], [None, 8]),
        ([3, None], [6, None]),
        ([0, 4], [0, 4]),
        ([1, 3], [2, 3]),
    ],
)
def test_all_gather_multiplies_dimension_0(shape, expected):
    assert static(all_gather(fed(shape), 2)) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (None, None),
        ([None], [None]),
        ([None, 8], [None, 8]),
        ([6, None], [2, None]),
        ([0, 4], [0, 4]),
    ],
)
def test_reduce_scatter_divides_dimension_0(shape, expected):
    assert static(reduce_scatter(fed(shape), 3)) == expected


@pytest.mark.parametrize("make", [all_gather, reduce_scatter])
def test_a_scalar_has_nothing_to_put_together_or_to_cut(make):
    with pytest.raises(ValueError, match="scalar.*tf.reshape"):
        make(fed([]), 2)


@pytest.mark.parametrize("make", [all_gather, reduce_scatter])
@pytest.mark.parametrize("rank_size", [0, -1, 32769, -(2**63)])
def test_rank_size_out_of_range(make, rank_size):
    with pytest.raises(ValueError, match=f"rank_size is {rank_size}, .* 1 to 32768"):
        make(fed([4]), rank_size)


def test_reduce_scatter_that_does_not_divide_is_an_error_and_no_abort():
    with pytest.raises(ValueError, match="dimension 0 of the input is 3.*rank_size 2"):
        reduce_scatter(fed([3]), 2)


def test_all_gather_beyond_64_bits_is_an_error_and_no_abort():
    with pytest.raises(ValueError, match="4611686018427387904.*rank_size 32768"):
        all_gather(fed([2**62]), 32768)


@pytest.mark.parametrize("dtype", [tf.float16, tf.float64, tf.uint64, tf.bfloat16])
def test_send_gives_nothing_and_receive_its_attribute(dtype):
    ops = library.ops()
    sent = ops.hcom_send(input=fed([2], dtype), group=WORLD, sr_tag=1, dest_rank=0)
    assert isinstance(sent, tf.Operation) and not sent.outputs
    received = ops.hcom_receive(T=dtype, shape=[2, 0, 3], group=WORLD, sr_tag=1, src_rank=0)
    assert static(received) == [2, 0, 3]
    assert received.dtype == dtype


@pytest.mark.parametrize("shape", [None, [None], [2, None]])
def test_receive_of_an_unknown_shape_gives_what_is_known(shape):
    """The kernel refuses it, because the sender must hear of it."""
    ops = library.ops()
    received = ops.hcom_receive(
        T=tf.float32, shape=tf.TensorShape(shape), group=WORLD, sr_tag=1, src_rank=0
    )
    assert static(received) == shape


@pytest.mark.parametrize(
    ("counts", "displacements", "expected"),
    [
        ([3, 3], [0, 0], [3]),
        ([3, 3], [0, 3], [6]),
        ([0, 0], [0, 0], [0]),
        ([1, 2], [7, 0], [8]),
        ([], [], [0]),
        ([1, 2], [1], [None]),
        ([-1, 2], [0, 0], [None]),
        ([2**62, 2**62], [2**62, 2**62], [None]),
    ],
)
def test_all_to_all_v_with_constant_counts(counts, displacements, expected):
    """Wrong counts are for the kernel to refuse, on all ranks: here they are only not known."""
    assert static(all_to_all_v(int64(counts), int64(displacements))) == expected


def test_all_to_all_v_with_counts_that_are_computed():
    assert static(all_to_all_v(fed([2], tf.int64), int64([0, 0]))) == [None]
    assert static(all_to_all_v(fed(None, tf.int64), fed(None, tf.int64))) == [None]


@pytest.mark.parametrize("shape", SHAPES)
def test_all_to_all_v_reads_any_shape_flat(shape):
    assert static(all_to_all_v(int64([1, 1]), int64([0, 1]), fed(shape))) == [2]


@pytest.mark.parametrize(
    ("matrix", "rank", "expected"),
    [
        ([[1, 2], [3, 4]], 0, [4]),
        ([[1, 2], [3, 4]], 1, [6]),
        ([[1, 2], [3, 4]], 2, [None]),
        ([[1, 2], [3, 4]], -1, [None]),
        ([[1, -2], [3, 4]], 1, [None]),
        ([[2**62, 0], [2**62, 0]], 0, [None]),
        ([[1, 2]], 0, [None]),
        ([1, 2], 0, [None]),
    ],
)
def test_all_to_all_v_c_sums_a_column(matrix, rank, expected):
    assert static(all_to_all_v_c(int64(matrix), rank)) == expected


def test_all_to_all_v_c_with_a_matrix_that_is_fed():
    assert static(all_to_all_v_c(fed([2, 2], tf.int64), 0)) == [None]


def test_ops_that_are_not_served_still_build():
    ops = library.ops()
    variable = tf.Variable(np.zeros(4, np.float32), use_resource=False)
    rows = tf.constant([[0, 0, 4]], tf.uint64)
    offset = tf.constant([0], tf.uint64)
    received, gathered = ops.hcom_gather_all_to_all_v(
        addrinfo=fed([1, 2], tf.uint64),
        addrinfo_count_per_rank=int64([1]),
        recv_counts=int64([1]),
        recv_displacements=int64([0]),
        dtype=tf.float32,
        addr_length=4,
        group=WORLD,
    )
    assert (static(received), static(gathered)) == ([None], [None])
    assert static(ops.hcom_remote_read(remote=rows, dtype=tf.float32)) is None
    read = ops.hcom_remote_ref_read(remote=rows, cache_var=variable._ref(), local_offset=offset)
    assert static(read) == [4]
    ops.hcom_remote_write(remote=rows, local=fed([4]))
    ops.hcom_remote_scatter_write(remote=rows, local=variable._ref(), local_offset=offset)

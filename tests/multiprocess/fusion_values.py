"""What each rank runs for test_fusion.py's comparison: fused and unfused, bit for bit.

fusion_values.py session|function: builds a graph with several ops of each kind and dtype under one
fusion_id each, runs it with fusion and without, and compares the bytes of all results.
"""

import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

import npu_device
from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

DTYPES = [
    tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
    tf.float16, tf.float32, tf.float64, tf.bfloat16,
]  # fmt: skip
# Rows of three members of each set: small, odd, and large enough to be cut into chunks.
ROWS = (1, 7, 5003)


def values(dtype, rows, rank, size):
    numbers = np.random.RandomState(1000 * rows + rank).uniform(0, 100, (rows * size, 3))
    return numbers.astype(dtype.as_numpy_dtype)


def calls(rank, size):
    """Gives, for each kind, what makes its op of a tensor with rows that the ranks divide."""
    matrix = np.full((size, size), 3, np.int64)
    return {
        "allreduce": lambda x, n: hccl_ops.allreduce(x, "sum", fusion=2, fusion_id=n),
        "allgather": lambda x, n: hccl_ops.allgather(x, size, fusion=2, fusion_id=n),
        "broadcast": lambda x, n: hccl_ops.broadcast([x], size - 1, fusion=2, fusion_id=n)[0],
        "reduce": lambda x, n: hccl_ops.reduce(x, "sum", size - 1, fusion=2, fusion_id=n),
        "reduce_scatter": lambda x, n: hccl_ops.reduce_scatter(
            x, "sum", size, fusion=2, fusion_id=n
        ),
        "all_to_all_v_c": lambda x, n: hccl_ops.all_to_all_v_c(
            tf.reshape(x, [-1])[: 3 * size], matrix, rank, fusion=2, fusion_id=n
        ),
    }


def build(inputs, rank, size):
    """Makes every op of every input; members of one set share dtype and fusion_id."""
    results = []
    for number, call in enumerate(calls(rank, size).values()):
        for of_dtype in inputs:
            results += [call(x, number) for x in of_dtype]
    return results


def run_session(arrays, rank, size):
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [[tf.placeholder(x.dtype, x.shape) for x in xs] for xs in arrays]
        outputs = build(inputs, rank, size)
        feed = {p: x for ps, xs in zip(inputs, arrays) for p, x in zip(ps, xs)}
        return [session.run(outputs, feed) for _ in range(2)]


def run_function(arrays, rank, size):
    @tf.function
    def all_of_them(*tensors):
        per_dtype = len(ROWS)
        inputs = [tensors[i : i + per_dtype] for i in range(0, len(tensors), per_dtype)]
        return build(inputs, rank, size)

    tensors = [tf.constant(x) for xs in arrays for x in xs]
    return [[y.numpy() for y in all_of_them(*tensors)] for _ in range(2)]


def main():
    mode = sys.argv[1]
    rank, size = get_rank_id(), get_rank_size()
    arrays = [[values(dtype, rows, rank, size) for rows in ROWS] for dtype in DTYPES]
    if mode == "session":
        tf.disable_eager_execution()
        run = run_session
    else:
        tf.enable_eager_execution()
        run = run_function
    fused = run(arrays, rank, size)
    report = npu_device.fusion_report().graphs[-1]
    os.environ["NPU_BRIDGE_FUSION"] = "0"
    unfused = run(arrays, rank, size)
    plain = npu_device.fusion_report().graphs[-1]

    kinds = len(calls(rank, size))
    assert len(report.segments) == kinds * len(DTYPES) and not report.alone, report
    assert all(len(segment.members) == len(ROWS) for segment in report.segments)
    assert not plain.segments and len(plain.alone) == kinds * len(DTYPES) * len(ROWS), plain
    for once in fused:
        assert len(once) == len(unfused[0])
        for a, b, c in zip(once, unfused[0], unfused[1]):
            assert a.dtype == b.dtype and a.shape == b.shape
            assert a.tobytes() == b.tobytes() == c.tobytes()
    print("compared", len(fused[0]), "results twice")


if __name__ == "__main__":
    main()

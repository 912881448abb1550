"""One rank of the matrix: every op, dtype and shape against NumPy, in one way of running.

    collective_matrix.py {session,function,eager}

Prints "cases: <number>" and exits 0 only when every result was right, twice.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import numpy_reference

from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

DATA_TYPES = [
    tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64,
    tf.float16, tf.float32, tf.float64, tf.bfloat16,
]  # fmt: skip
REDUCTIONS = ["sum", "prod", "min", "max"]
# Empty, scalar, odd, several dimensions, and one that no small-message path takes.
SHAPES = [(), (0,), (1, 0, 2), (1,), (7,), (33,), (3, 5, 7), (100003,)]


def values_of(dtype, shape, rank):
    """The input of `rank`: differs by rank, exact in every dtype that holds small integers."""
    random = np.random.RandomState(1000 * rank + 7 * len(shape) + int(np.prod(shape)) % 1009)
    numpy_type = dtype.as_numpy_dtype
    if dtype.is_integer:
        # Every bit pattern of the type, so that sums and products wrap.
        return np.asarray(random.randint(-(2**62), 2**62, size=shape)).astype(numpy_type)
    return np.asarray(random.standard_normal(shape) * 3).astype(numpy_type)


class Case:
    """One call: how to make it and what it must return on this rank."""

    def __init__(self, name, inputs, call, expected):
        self.name = name
        self.inputs = inputs  # this rank's arrays
        self.call = call  # tensors -> tensor
        self.expected = expected


def reducing_cases(dtype, shape, rank, size):
    inputs = [values_of(dtype, shape, r) for r in range(size)]
    for reduction in REDUCTIONS:
        yield Case(
            "allreduce_" + reduction,
            [inputs[rank]],
            lambda x, how=reduction: hccl_ops.allreduce(x, how, fusion=0),
            numpy_reference.allreduce(inputs, rank, reduction),
        )
        root = size - 1
        yield Case(
            "reduce_" + reduction,
            [inputs[rank]],
            lambda x, how=reduction, root=root: hccl_ops.reduce(x, how, root),
            numpy_reference.reduce(inputs, rank, reduction, root),
        )
        if shape:
            rows = (shape[0] * size, *shape[1:])
            wide = [values_of(dtype, rows, r) for r in range(size)]
            yield Case(
                "reduce_scatter_" + reduction,
                [wide[rank]],
                lambda x, how=reduction: hccl_ops.reduce_scatter(x, how, size),
                numpy_reference.reduce_scatter(wide, rank, reduction),
            )


def moving_cases(dtype, shape, rank, size):
    inputs = [values_of(dtype, shape, r) for r in range(size)]
    root = size // 2
    yield Case(
        "broadcast",
        [inputs[rank]],
        lambda x: hccl_ops.broadcast([x], root, fusion=0)[0],
        numpy_reference.broadcast(inputs, rank, root),
    )
    if shape:
        yield Case(
            "allgather",
            [inputs[rank]],
            lambda x: hccl_ops.allgather(x, size),
            numpy_reference.allgather(inputs, rank),
        )
    yield all_to_all_v_case(inputs, rank, size)
    yield all_to_all_v_c_case(inputs, rank, size)


def all_to_all_v_case(inputs, rank, size):
    """Uneven counts, gaps in what is received, blocks of the input that overlap."""
    elements = inputs[0].size
    send_counts = [[(elements * (1 + (s + d) % 3)) // 4 for d in range(size)] for s in range(size)]
    send_places = [
        [(elements - send_counts[s][d]) if (s + d) % 2 else 0 for d in range(size)]
        for s in range(size)
    ]
    receive_counts = [[send_counts[s][d] for s in range(size)] for d in range(size)]
    places = []
    for d in range(size):
        place, row = 0, []
        for s in range(size):
            row.append(place)
            place += receive_counts[d][s] + 2 * (s % 2)
        places.append(row)
    vectors = [
        np.array(v[rank], np.int64) for v in (send_counts, send_places, receive_counts, places)
    ]
    return Case(
        "all_to_all_v",
        [inputs[rank]],
        lambda x: hccl_ops.all_to_all_v(x, *vectors),
        numpy_reference.all_to_all_v(
            inputs, rank, send_counts, send_places, receive_counts, places
        ),
    )


def all_to_all_v_c_case(inputs, rank, size):
    elements = inputs[0].size
    matrix = np.array(
        [[(elements * ((s + d) % 3)) // (3 * size) for d in range(size)] for s in range(size)],
        np.int64,
    )
    starts = np.cumsum(matrix, axis=1) - matrix
    places = np.cumsum(matrix, axis=0) - matrix
    return Case(
        "all_to_all_v_c",
        [inputs[rank]],
        lambda x: hccl_ops.all_to_all_v_c(x, matrix, rank),
        numpy_reference.all_to_all_v(
            inputs, rank, matrix.tolist(), starts.tolist(), matrix.T.tolist(), places.T.tolist()
        ),
    )


def send_receive_case(dtype, shape, rank, size, tag):
    inputs = [values_of(dtype, shape, r) for r in range(size)]

    def call(x):
        sent = hccl_ops.send(x, tag, (rank + 1) % size)
        received = hccl_ops.receive(shape, dtype, tag, (rank - 1) % size)
        # Eager ops return None for an op without outputs, and have run by then.
        if sent is None:
            return received
        with tf.control_dependencies([sent]):
            return tf.identity(received)

    return Case("send_receive", [inputs[rank]], call, inputs[(rank - 1) % size])


def cases_of(dtype, rank, size):
    for number, shape in enumerate(SHAPES):
        for case in reducing_cases(dtype, shape, rank, size):
            yield shape, case
        for case in moving_cases(dtype, shape, rank, size):
            yield shape, case
        yield shape, send_receive_case(dtype, shape, rank, size, tag=number)


def run_session(cases):
    with tf.Graph().as_default():
        placeholders = [[tf.placeholder(x.dtype, x.shape) for x in c.inputs] for c in cases]
        outputs = [case.call(*inputs) for case, inputs in zip(cases, placeholders)]
        feed = {
            placeholder: value
            for case, inputs in zip(cases, placeholders)
            for placeholder, value in zip(inputs, case.inputs)
        }
        with tf.Session() as session:
            return [session.run(outputs, feed) for _ in range(2)]


def value(tensor):
    # numpy() of a scalar bfloat16 is no NumPy type that np.asarray would know.
    return np.array(tensor.numpy(), tensor.dtype.as_numpy_dtype)


def run_function(cases):
    @tf.function
    def call_all(arguments):
        return [case.call(*inputs) for case, inputs in zip(cases, arguments)]

    arguments = [[tf.constant(x, x.dtype) for x in case.inputs] for case in cases]
    return [[value(y) for y in call_all(arguments)] for _ in range(2)]


def run_eager(cases):
    return [
        [value(case.call(*[tf.constant(x, x.dtype) for x in case.inputs])) for case in cases]
        for _ in range(2)
    ]


def main():
    mode = sys.argv[1]
    if mode == "session":
        tf.disable_eager_execution()
    else:
        tf.enable_eager_execution()
    run = {"session": run_session, "function": run_function, "eager": run_eager}[mode]
    rank, size = get_rank_id(), get_rank_size()
    count = 0
    failures = []
    for dtype in DATA_TYPES:
        labelled = list(cases_of(dtype, rank, size))
        results = run([case for _, case in labelled])
        for index, (shape, case) in enumerate(labelled):
            for repeat, result in enumerate(results):
                count += 1
                got, expected = result[index], case.expected
                if (
                    got.shape != expected.shape
                    or got.dtype != expected.dtype
                    or got.tobytes() != expected.tobytes()
                ):
                    failures.append((dtype.name, shape, case.name, repeat, got, expected))
    print("cases: %d" % count)
    for failure in failures[:20]:
        print("WRONG %s %s %s repeat %d\n got %r\n expected %r" % failure)
    if failures:
        raise SystemExit("%d of %d cases are wrong" % (len(failures), count))


if __name__ == "__main__":
    main()

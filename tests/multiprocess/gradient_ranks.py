"""One rank that differentiates every collective: gradient_ranks.py {session,function,eager}.

Prints "cases: <number>" and exits 0 only when every gradient, and every gradient of a gradient, was
the one that differences give.
"""

from __future__ import annotations

import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gradient_reference
import numpy_reference

from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

REDUCTIONS = ["sum", "min", "max", "prod"]


class Case:
    """A call, its results on every rank by NumPy, and the inputs of every rank."""

    def __init__(self, name, inputs, call, forward):
        self.name = name
        self.inputs = inputs  # by rank, a list of float64 arrays
        self.call = call  # this rank's tensors -> list of tensors
        self.forward = forward  # (inputs of all ranks, rank) -> list of arrays


def first(inputs):
    return [arrays[0] for arrays in inputs]


def inputs_of(shapes, size, seed):
    random = np.random.RandomState(seed)
    return [[random.uniform(-2, 2, shape) for shape in shapes] for _ in range(size)]


def reducing_cases(rank, size):
    root = size - 1
    for number, reduction in enumerate(REDUCTIONS):
        for shape in [(), (2, 3), (0, 2)]:
            yield Case(
                f"allreduce {reduction} {shape}",
                inputs_of([shape], size, number),
                lambda xs, how=reduction: [hccl_ops.allreduce(xs[0], how, fusion=0)],
                lambda inputs, r, how=reduction: [numpy_reference.allreduce(first(inputs), r, how)],
            )
            yield Case(
                f"reduce {reduction} {shape}",
                inputs_of([shape], size, 10 + number),
                lambda xs, how=reduction: [hccl_ops.reduce(xs[0], how, root)],
                lambda inputs, r, how=reduction: [
                    numpy_reference.reduce(first(inputs), r, how, root)
                ],
            )
        yield Case(
            "reduce_scatter " + reduction,
            inputs_of([(2 * size, 2)], size, 20 + number),
            lambda xs, how=reduction: [hccl_ops.reduce_scatter(xs[0], how, size)],
            lambda inputs, r, how=reduction: [
                numpy_reference.reduce_scatter(first(inputs), r, how)
            ],
        )


def zero_cases(rank, size):
    """Products where one rank has a zero, where two have, and where none has."""
    values = inputs_of([(3,)], size, 40)
    for r in range(size):
        values[r][0][:2] = [0.0, 1.5 + r]
    values[0][0][1] = 0.0
    yield Case(
        "allreduce prod of zeros",
        values,
        lambda xs: [hccl_ops.allreduce(xs[0], "prod", fusion=0)],
        lambda inputs, r: [numpy_reference.allreduce(first(inputs), r, "prod")],
    )


def moving_cases(rank, size):
    yield Case(
        "allgather",
        inputs_of([(2, 2)], size, 50),
        lambda xs: [hccl_ops.allgather(xs[0], size)],
        lambda inputs, r: [numpy_reference.allgather(first(inputs), r)],
    )
    root = size // 2
    yield Case(
        "broadcast",
        inputs_of([(3,), (), (2, 1)], size, 51),
        lambda xs: hccl_ops.broadcast(xs, root),
        lambda inputs, r: inputs[root],
    )
    yield all_to_all_v_case(rank, size)
    yield all_to_all_v_c_case(rank, size)


def all_to_all_v_case(rank, size):
    """Blocks overlap where they are sent from and where they arrive; some are empty."""
    counts = [[(s + 2 * d) % 4 for d in range(size)] for s in range(size)]
    send_places = [[(s + d) % 3 for d in range(size)] for s in range(size)]
    places = [[(2 * s + d) % 5 for s in range(size)] for d in range(size)]
    receive_counts = [[counts[s][d] for s in range(size)] for d in range(size)]
    vectors = [v[rank] for v in (counts, send_places, receive_counts, places)]
    return Case(
        "all_to_all_v",
        inputs_of([(2, 4)], size, 60),
        lambda xs: [hccl_ops.all_to_all_v(xs[0], *vectors)],
        lambda inputs, r: [
            numpy_reference.all_to_all_v(
                first(inputs), r, counts, send_places, receive_counts, places
            )
        ],
    )


def all_to_all_v_c_case(rank, size):
    """More is passed than is sent."""
    matrix = np.array([[(s + 2 * d) % 3 for d in range(size)] for s in range(size)], np.int64)
    starts, places = np.cumsum(matrix, 1) - matrix, np.cumsum(matrix, 0) - matrix
    return Case(
        "all_to_all_v_c",
        inputs_of([(2 * size + 1,)], size, 61),
        lambda xs: [hccl_ops.all_to_all_v_c(xs[0], matrix, rank)],
        lambda inputs, r: [
            numpy_reference.all_to_all_v(
                first(inputs), r, matrix.tolist(), starts.tolist(), matrix.T.tolist(),
                places.T.tolist(),
            )
        ],
    )  # fmt: skip


def weights(shape, rank, index):
    """Of the local losses: other ones on every rank."""
    return np.random.RandomState(100 + 10 * rank + index).uniform(-1, 1, shape)


def numpy_loss(results, rank):
    return sum(
        np.sum(weights(y.shape, rank, i) * y * y + weights(y.shape, rank, 5 + i) * y)
        for i, y in enumerate(results)
    )


def tensor_loss(results, shapes, rank):
    """The same in TensorFlow; shapes come from NumPy, for static ones may be unknown."""
    return tf.add_n(
        [
            tf.reduce_sum(weights(s, rank, i) * y * y + weights(s, rank, 5 + i) * y)
            for i, (y, s) in enumerate(zip(results, shapes))
        ]
    )


def directions_of(case):
    return [
        [np.random.RandomState(7 * r + i).uniform(-1, 1, x.shape) for i, x in enumerate(arrays)]
        for r, arrays in enumerate(case.inputs)
    ]


def expected(case, rank):
    def loss(inputs):
        return gradient_reference.total_loss(case.forward, numpy_loss, inputs)

    return (
        gradient_reference.gradients(loss, case.inputs, rank),
        gradient_reference.second_gradients(loss, case.inputs, directions_of(case), rank),
    )


def two_orders(case, xs, rank, differentiate):
    """Returns the first and second gradients of a case, as tensors.

    Args:
        xs: this rank's inputs, tensors.
        differentiate: (function of no arguments that returns a scalar, xs) -> its gradients.
    """
    directions = directions_of(case)[rank]
    shapes = [y.shape for y in case.forward(case.inputs, rank)]
    gradients = []

    def along():
        gradients[:] = differentiate(lambda: tensor_loss(case.call(xs), shapes, rank), xs)
        return tf.add_n([tf.reduce_sum(g * v) for g, v in zip(gradients, directions)])

    second = differentiate(along, xs)
    return list(gradients), second


def by_tape(function, xs):
    with tf.GradientTape() as tape:
        for x in xs:
            tape.watch(x)
        value = function()
    return tape.gradient(value, xs)


def run_session(cases, rank):
    with tf.Graph().as_default(), tf.Session() as session:
        results, feed = [], {}
        for case in cases:
            xs = [tf.placeholder(tf.float64, x.shape) for x in case.inputs[rank]]
            feed.update(zip(xs, case.inputs[rank]))
            results.append(two_orders(case, xs, rank, lambda f, xs: tf.gradients(f(), xs)))
        return session.run(results, feed)


def run_function(cases, rank):
    results = []
    for case in cases:
        # Nothing but the number of dimensions is known while the function is traced.
        signature = [tf.TensorSpec([None] * x.ndim, tf.float64) for x in case.inputs[rank]]

        @tf.function(input_signature=[signature])
        def call(xs, case=case):
            return two_orders(case, list(xs), rank, by_tape)

        found = call([tf.constant(x) for x in case.inputs[rank]])
        results.append(tf.nest.map_structure(lambda t: t.numpy(), found))
    return results


def run_eager(cases, rank):
    results = []
    for case in cases:
        found = two_orders(case, [tf.constant(x) for x in case.inputs[rank]], rank, by_tape)
        results.append(tf.nest.map_structure(lambda t: t.numpy(), found))
    return results


def main():
    mode = sys.argv[1]
    if mode == "session":
        tf.disable_eager_execution()
    else:
        tf.enable_eager_execution()
    rank, size = get_rank_id(), get_rank_size()
    cases = [
        *reducing_cases(rank, size),
        *zero_cases(rank, size),
        *moving_cases(rank, size),
    ]
    run = {"session": run_session, "function": run_function, "eager": run_eager}[mode]
    failures = 0
    for case, result in zip(cases, run(cases, rank)):
        for order, (found, wanted) in enumerate(zip(result, expected(case, rank)), 1):
            for index, (g, w) in enumerate(zip(found, wanted)):
                if not (g.shape == w.shape and np.allclose(g, w, rtol=1e-4, atol=1e-4)):
                    failures += 1
                    print("WRONG", case.name, "order", order, "input", index)
                    print(" got", g.tolist(), "\n expected", w.tolist())
    print("cases: %d" % len(cases))
    if failures:
        raise SystemExit("%d gradients are wrong" % failures)


if __name__ == "__main__":
    main()

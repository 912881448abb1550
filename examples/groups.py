"""A grid of ranks: rows share a model, columns share data, as in mixed model and data parallelism.

    npurun -n 4 examples/groups.py

Four ranks form a 2x2 grid. A matrix product y = x W is split by columns of W over the two ranks of
a row (model parallel); the two rows work on different batches (data parallel). Allgather in the
row's group joins the columns, allreduce in the column's group averages the gradients.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from hccl.manage.api import create_group, destroy_group, get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

tf.disable_eager_execution()

BATCH, INPUTS, OUTPUTS = 6, 5, 8


def main():
    rank, size = get_rank_id(), get_rank_size()
    if size % 2:
        raise SystemExit("this example needs an even number of ranks, got %d" % size)
    columns = size // 2
    row, column = divmod(rank, columns)

    # Only its members create a group. Groups of one name with other members are other groups: each
    # row and each column calls its own "model" and "data".
    create_group("model", columns, [row * columns + c for c in range(columns)])
    create_group("data", 2, [r * columns + column for r in range(2)])

    random = np.random.RandomState(0)
    weights = random.randn(INPUTS, OUTPUTS * columns).astype(np.float32)
    batches = random.randn(2, BATCH, INPUTS).astype(np.float32)
    mine = slice(column * OUTPUTS, (column + 1) * OUTPUTS)

    part = tf.constant(weights[:, mine])
    batch = tf.constant(batches[row])
    # Allgather joins along dimension 0, so the columns of y travel as rows of its transpose.
    joined = hccl_ops.allgather(tf.transpose(tf.matmul(batch, part)), columns, group="model")
    y = tf.transpose(joined)
    # Every rank of the row computes the same loss of the joined y; its gradient counts once a rank.
    loss = tf.reduce_sum(tf.square(y)) / columns
    gradient = tf.gradients(loss, part)[0]
    mean_gradient = hccl_ops.allreduce(gradient, "sum", group="data") / 2

    with tf.Session() as session:
        y_value, gradient_value = session.run([y, mean_gradient])

    expected_y = batches[row] @ weights
    expected_gradient = np.mean([2 * b.T @ (b @ weights) for b in batches], axis=0)[:, mine]
    np.testing.assert_allclose(y_value, expected_y, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient_value, expected_gradient, rtol=1e-4, atol=1e-4)
    print(
        "rank %d at (%d, %d): y %s and gradient %s equal one process's"
        % (rank, row, column, list(y_value.shape), list(gradient_value.shape))
    )
    destroy_group("data")
    destroy_group("model")


if __name__ == "__main__":
    main()

"""An embedding table split over the ranks, looked up with all_to_all_v, as recommenders do.

    npurun -n 4 examples/embedding_alltoall.py

Rank r holds the rows whose number is r modulo the number of ranks. A lookup sends each id to the
rank that holds it and brings the row back: two exchanges whose sizes change in every step. The
gradient travels the same way back, and each rank updates its own rows.
"""

from __future__ import annotations

import argparse

import numpy as np
import tensorflow as tf

import npu_device as npu
from hccl.manage.api import get_rank_id, get_rank_size
from npu_device.distribute import hccl_ops

npu.open().as_default()

ROWS, WIDTH, IDS_PER_STEP = 96, 4, 48


def exchange(values, send_counts, receive_counts):
    """Sends consecutive blocks of `values` [n, width] to the ranks; returns what came, [m, width].

    Counts are rows, int64 [rank_size].
    """
    width = values.shape[1]
    flat = hccl_ops.all_to_all_v(
        tf.reshape(values, [-1]),
        send_counts * width,
        tf.cumsum(send_counts * width, exclusive=True),
        receive_counts * width,
        tf.cumsum(receive_counts * width, exclusive=True),
    )
    return tf.reshape(flat, [-1, width])


def lookup(local_rows, ids, rank_size):
    """Returns the embedding rows [len(ids), width] of the global `ids` (int64 [n])."""
    owners = ids % rank_size
    by_owner = tf.argsort(owners, stable=True)
    send_counts = tf.math.bincount(
        tf.cast(owners, tf.int32), minlength=rank_size, maxlength=rank_size, dtype=tf.int64
    )
    # How many ids each rank will send here: one count from every rank.
    ones = tf.ones([rank_size], tf.int64)
    receive_counts = tf.reshape(exchange(send_counts[:, tf.newaxis], ones, ones), [-1])

    wanted = exchange(tf.gather(ids, by_owner)[:, tf.newaxis], send_counts, receive_counts)
    found = tf.gather(local_rows, tf.reshape(wanted, [-1]) // rank_size)
    rows = exchange(found, receive_counts, send_counts)
    return tf.gather(rows, tf.argsort(by_owner))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    if ROWS % rank_size or IDS_PER_STEP % rank_size:
        raise SystemExit("%d ranks do not split %d rows evenly" % (rank_size, ROWS))
    random = np.random.RandomState(0)
    table = random.randn(ROWS, WIDTH).astype(np.float32)
    targets = random.randn(ROWS, WIDTH).astype(np.float32)
    local_rows = tf.Variable(table[rank::rank_size])

    @tf.function
    def train_step(ids, wanted):
        with tf.GradientTape() as tape:
            difference = lookup(local_rows, ids, rank_size) - wanted
            loss = tf.reduce_sum(tf.square(difference))
        gradient = tf.convert_to_tensor(tape.gradient(loss, local_rows))
        local_rows.assign_sub(0.05 * gradient)
        return npu.distribute.all_reduce(loss, reduction="sum")

    reference = table.copy()
    share = IDS_PER_STEP // rank_size
    for step in range(arguments.steps):
        ids = random.randint(0, ROWS, [IDS_PER_STEP])
        mine = ids[rank * share : (rank + 1) * share]
        loss = train_step(tf.constant(mine, tf.int64), tf.constant(targets[mine]))

        gradient = np.zeros_like(reference)
        np.add.at(gradient, ids, 2 * (reference[ids] - targets[ids]))
        reference -= 0.05 * gradient
        if rank == 0 and (step + 1) % 5 == 0:
            print("step %2d  loss %.4f" % (step + 1, float(loss)))

    np.testing.assert_allclose(local_rows.numpy(), reference[rank::rank_size], rtol=1e-4, atol=1e-5)
    print("rank %d of %d: its %d rows equal one process's" % (rank, rank_size, local_rows.shape[0]))


if __name__ == "__main__":
    main()

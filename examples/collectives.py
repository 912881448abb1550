"""Runs every collective once and prints what each rank put in and got out.

    npurun -n 2 examples/collectives.py

Works on every supported TensorFlow, as a TensorFlow 1 session through tf.compat.v1.
"""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops

tf.disable_eager_execution()


def show(value):
    return np.array2string(np.asarray(value), separator=" ").replace("\n", "")


def main():
    rank, size = get_rank_id(), get_rank_size()
    group_ranks = np.arange(size, dtype=np.int64)
    session = tf.Session()
    rows = []

    def run(call, inputs, outputs):
        rows.append((call, show(inputs), show(session.run(outputs))))

    ones_and_rank = np.array([1.0, rank], np.float32)
    for reduction in ("sum", "prod", "max", "min"):
        value = ones_and_rank + 1
        run("allreduce %s" % reduction, value, hccl_ops.allreduce(value, reduction))

    value = np.array([[rank, 10 * rank, 100 * rank]], np.float32)
    run("allgather", value, hccl_ops.allgather(value, rank_size=size))

    value = np.array([rank + 5], np.int32)
    run("broadcast from 0", value, hccl_ops.broadcast([tf.constant(value)], root_rank=0)[0])
    run("reduce sum to 0", value, hccl_ops.reduce(value, "sum", root_rank=0))

    value = np.arange(2 * size, dtype=np.float32) + rank
    run("reduce_scatter sum", value, hccl_ops.reduce_scatter(value, "sum", rank_size=size))

    # Rank r sends r + 1 elements to every rank, so it receives i + 1 elements from rank i.
    value = np.full([size * (rank + 1)], rank, np.int64)
    send_counts = np.full([size], rank + 1, np.int64)
    receive_counts = group_ranks + 1
    run(
        "all_to_all_v",
        value,
        hccl_ops.all_to_all_v(
            value,
            send_counts,
            send_displacements=group_ranks * (rank + 1),
            recv_counts=receive_counts,
            recv_displacements=np.cumsum(receive_counts) - receive_counts,
        ),
    )
    matrix = np.repeat(receive_counts[:, np.newaxis], size, axis=1)
    run("all_to_all_v_c", value, hccl_ops.all_to_all_v_c(value, matrix, rank=rank))

    if size > 1:
        value = np.array([rank * 1.5], np.float32)
        send = hccl_ops.send(tf.constant(value), sr_tag=7, dest_rank=(rank + 1) % size)
        receive = hccl_ops.receive([1], tf.float32, sr_tag=7, src_rank=(rank - 1) % size)
        with tf.control_dependencies([send]):
            run("send on, receive", value, tf.identity(receive))

    width = max(len(row[1]) for row in rows)
    print("rank %d of %d" % (rank, size))
    for call, inputs, outputs in rows:
        print("  %-18s %-*s -> %s" % (call, width, inputs, outputs))
    session.close()


if __name__ == "__main__":
    main()

"""Trains a classifier on real handwritten digits, data-parallel, with a TensorFlow 1 session.

    npurun -n 4 examples/tf1_digits.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_digits.py      on TensorFlow 2

Written as TensorFlow 1 scripts for Ascend are: initialize_system first, a broadcast of the
variables that needs no assign, and hccl_ops.allreduce on each gradient.
"""

from __future__ import annotations

import argparse
import zlib

import digits_data
import numpy as np
import tensorflow as tf

from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.estimator import npu_ops
from npu_bridge.hccl import hccl_ops


def dense(inputs, units, name):
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel",
            [inputs.shape[1], units],
            initializer=tf.random_normal_initializer(stddev=0.1, seed=1 + get_rank_id()),
        )
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument(
        "--weights-file",
        help="write the weights after every step to this .npz; {rank} stands for the rank",
    )
    arguments = parser.parse_args()

    system_session = tf.Session()
    system_session.run(npu_ops.initialize_system())
    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    images = tf.placeholder(tf.float32, [None, 64])
    labels = tf.placeholder(tf.int64, [None])
    logits = dense(tf.nn.relu(dense(images, 64, "hidden")), 10, "output")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    mean_loss = hccl_ops.allreduce(loss, "sum") / rank_size

    optimizer = tf.train.MomentumOptimizer(learning_rate=0.1, momentum=0.9)
    gradients_and_variables = [
        (hccl_ops.allreduce(gradient, "sum") / rank_size, variable)
        for gradient, variable in optimizer.compute_gradients(loss)
    ]
    train = optimizer.apply_gradients(gradients_and_variables)
    predictions = tf.argmax(logits, axis=1)

    broadcast = hccl_ops.broadcast(tf.trainable_variables(), root_rank=0)

    history = []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(broadcast)
        for step in range(arguments.steps):
            rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            _, step_loss = session.run(
                [train, mean_loss], {images: train_images[rows], labels: train_labels[rows]}
            )
            if arguments.weights_file:
                history.append(session.run(tf.trainable_variables()))
            if rank == 0 and (step + 1) % 20 == 0:
                print("step %3d  loss %.4f" % (step + 1, step_loss))
        accuracy = np.mean(session.run(predictions, {images: test_images}) == test_labels)
        final_weights = session.run(tf.trainable_variables())

    weights = b"".join(value.tobytes() for value in final_weights)
    print(
        "rank %d of %d: accuracy %.4f on %d test digits, weights crc32 %08x"
        % (rank, rank_size, accuracy, len(test_labels), zlib.crc32(weights))
    )
    if arguments.weights_file:
        named = {
            "step%d_variable%d" % (step, index): value
            for step, values in enumerate(history)
            for index, value in enumerate(values)
        }
        np.savez(arguments.weights_file.format(rank=rank), **named)
    system_session.run(npu_ops.shutdown_system())
    system_session.close()


if __name__ == "__main__":
    main()

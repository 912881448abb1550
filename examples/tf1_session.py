"""Trains with NPUDistributedOptimizer in a TensorFlow 1 session.

    npurun -n 4 examples/tf1_session.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_session.py      on TensorFlow 2

The optimizer averages the gradients over the ranks; the hook that npu_hooks_append adds gives all
ranks the variables of rank 0 before the first step.
"""

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

from npu_bridge.npu_init import *


def dense(inputs, units, name, seed):
    with tf.variable_scope(name):
        kernel = tf.get_variable(
            "kernel",
            [inputs.shape[1], units],
            initializer=tf.random_normal_initializer(stddev=0.1, seed=seed),
        )
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=120)
    arguments = parser.parse_args()

    init_session, npu_shutdown = init_resource()
    rank, rank_size = get_npu_rank_id(), get_npu_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    images = tf.placeholder(tf.float32, [None, 64])
    labels = tf.placeholder(tf.int64, [None])
    hidden = tf.nn.relu(dense(images, 64, "hidden", seed=1 + rank))
    logits = dense(hidden, 10, "output", seed=101 + rank)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    optimizer = NPUDistributedOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    train = optimizer.minimize(loss, global_step=tf.train.get_or_create_global_step())
    predictions = tf.argmax(logits, axis=1)

    with tf.train.MonitoredTrainingSession(
        hooks=npu_hooks_append([]), config=npu_config_proto()
    ) as session:
        for step in range(arguments.steps):
            rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            feed = {images: train_images[rows], labels: train_labels[rows]}
            _, step_loss = session.run([train, loss], feed)
            if rank == 0 and (step + 1) % 20 == 0:
                print("step %3d  loss of rank 0 %.4f" % (step + 1, step_loss))
        accuracy = np.mean(session.run(predictions, {images: test_images}) == test_labels)
        weights = session.run({v.op.name: v for v in tf.trainable_variables()})
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)
    shutdown_resource(init_session, npu_shutdown)
    close_session(init_session)


if __name__ == "__main__":
    main()

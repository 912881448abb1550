"""Runs ten training steps in each Session.run.

    npurun -n 4 examples/tf1_iterations.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_iterations.py      on TensorFlow 2

The input must come from the graph, here a tf.data pipeline: what is fed stays the same for all
steps of a run. Gradients are exchanged in every step.
"""

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

from npu_bridge.npu_init import *

ITERATIONS_PER_LOOP = 10


def dense(inputs, units, name, seed):
    with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
        kernel = tf.get_variable(
            "kernel",
            [inputs.shape[1], units],
            initializer=tf.random_normal_initializer(stddev=0.1, seed=seed),
        )
        bias = tf.get_variable("bias", [units], initializer=tf.zeros_initializer())
    return tf.matmul(inputs, kernel) + bias


def classifier(images, rank):
    hidden = tf.nn.relu(dense(images, 64, "hidden", seed=1 + rank))
    return dense(hidden, 10, "output", seed=101 + rank)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=120)
    arguments = parser.parse_args()
    if arguments.steps % ITERATIONS_PER_LOOP:
        parser.error("--steps must be a multiple of %d" % ITERATIONS_PER_LOOP)

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()
    rows = np.stack(
        [
            digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            for step in range(arguments.steps)
        ]
    )
    dataset = tf.data.Dataset.from_tensor_slices((train_images[rows], train_labels[rows]))
    images, labels = tf.data.make_one_shot_iterator(dataset).get_next()

    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=classifier(images, rank)
        )
    )
    optimizer = NPUDistributedOptimizer(tf.train.MomentumOptimizer(0.1, 0.9))
    global_step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=global_step)
    predictions = tf.argmax(classifier(tf.constant(test_images), rank), axis=1)
    broadcast = hccl_ops.broadcast(tf.trainable_variables(), root_rank=0)

    with tf.Session(config=npu_config_proto()) as session:
        session.run(tf.global_variables_initializer())
        session.run(broadcast)
        train = util.set_iteration_per_loop(session, train, ITERATIONS_PER_LOOP)
        for _ in range(arguments.steps // ITERATIONS_PER_LOOP):
            _, step_loss = session.run([train, loss])
            if rank == 0:
                step = session.run(global_step)
                print("step %3d  loss of rank 0 %.4f" % (step, step_loss))
        accuracy = np.mean(session.run(predictions) == test_labels)
        weights = session.run({v.op.name: v for v in tf.trainable_variables()})
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

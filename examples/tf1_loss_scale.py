"""Trains in float16 with loss scaling.

    npurun -n 4 examples/tf1_loss_scale.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_loss_scale.py      on TensorFlow 2

The loss is multiplied by a factor, so that small gradients are not lost in float16. Where that
makes a gradient overflow, on any rank, all ranks skip the step together, and the factor shrinks.
It starts far too high here, to show that.
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
    # The variables stay float32; what is computed with them is float16.
    return tf.matmul(inputs, tf.cast(kernel, tf.float16))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=140)
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    images = tf.placeholder(tf.float32, [None, 64])
    labels = tf.placeholder(tf.int64, [None])
    hidden = tf.nn.relu(dense(tf.cast(images, tf.float16), 64, "hidden", seed=1 + rank))
    logits = tf.cast(dense(hidden, 10, "output", seed=101 + rank), tf.float32)
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    manager = ExponentialUpdateLossScaleManager(
        init_loss_scale=2**24,
        incr_every_n_steps=50,
        decr_every_n_nan_or_inf=1,
        incr_ratio=2,
        decr_ratio=0.5,
    )
    optimizer = NPULossScaleOptimizer(
        NPUDistributedOptimizer(tf.train.MomentumOptimizer(0.1, 0.9)),
        manager,
        is_distributed=True,
    )
    global_step = tf.train.get_or_create_global_step()
    train = optimizer.minimize(loss, global_step=global_step)
    predictions = tf.argmax(logits, axis=1)
    broadcast = hccl_ops.broadcast(tf.trainable_variables(), root_rank=0)

    with tf.Session(config=npu_config_proto()) as session:
        session.run(tf.global_variables_initializer())
        session.run(broadcast)
        # A step that is skipped is tried again: each batch trains once, whatever the factor.
        while True:
            step = session.run(global_step)
            if step == arguments.steps:
                break
            rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            feed = {images: train_images[rows], labels: train_labels[rows]}
            session.run(train, feed)
            if rank == 0 and session.run(global_step) == step:
                scale = session.run(manager.get_loss_scale())
                print("step %d overflowed, the loss scale is now %g" % (step, scale))
        accuracy = np.mean(session.run(predictions, {images: test_images}) == test_labels)
        weights = session.run({v.op.name: v for v in tf.trainable_variables()})
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

"""Trains an embedding, whose gradients are sparse, with NPUDistributedOptimizer.

    npurun -n 4 examples/tf1_embedding.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_embedding.py      on TensorFlow 2

A digit is described by the brightness of its pixels, as 64 words of 17. Only the rows of the words
that a rank has met are exchanged, and ranks meet different numbers of them.
"""

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

from npu_bridge.npu_init import *

BRIGHTNESSES = 17


def words_of(images):
    """The words of each image: those of its pixels that are not dark, in a ragged batch.

    Returns:
        Words int64 [n] of all images together, and the image of each, int64 [n].
    """
    brightness = np.rint(images * (BRIGHTNESSES - 1)).astype(np.int64)
    image, pixel = np.nonzero(brightness)
    return pixel * BRIGHTNESSES + brightness[image, pixel], image


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=120)
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    words = tf.placeholder(tf.int64, [None])
    owners = tf.placeholder(tf.int64, [None])
    labels = tf.placeholder(tf.int64, [None])
    table = tf.get_variable(
        "table",
        [64 * BRIGHTNESSES, 10],
        initializer=tf.random_normal_initializer(stddev=0.01, seed=1 + rank),
    )
    logits = tf.math.unsorted_segment_sum(
        tf.nn.embedding_lookup(table, words), owners, tf.size(labels)
    )
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    optimizer = NPUDistributedOptimizer(tf.train.GradientDescentOptimizer(1.0))
    pairs = optimizer.compute_gradients(loss)
    if not isinstance(pairs[0][0], tf.IndexedSlices):
        raise RuntimeError("the gradient of the table is not sparse: %s" % pairs[0][0])
    train = optimizer.apply_gradients(pairs)
    predictions = tf.argmax(logits, axis=1)
    broadcast = hccl_ops.broadcast(tf.trainable_variables(), root_rank=0)

    def feed(images, classes):
        words_of_all, owner_of_all = words_of(images)
        return {words: words_of_all, owners: owner_of_all, labels: classes}

    with tf.Session(config=npu_config_proto()) as session:
        session.run(tf.global_variables_initializer())
        session.run(broadcast)
        for step in range(arguments.steps):
            rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            _, step_loss = session.run([train, loss], feed(train_images[rows], train_labels[rows]))
            if rank == 0 and (step + 1) % 20 == 0:
                print("step %3d  loss of rank 0 %.4f" % (step + 1, step_loss))
        found = session.run(predictions, feed(test_images, test_labels))
        weights = session.run({v.op.name: v for v in tf.trainable_variables()})
    accuracy = np.mean(found == test_labels)
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

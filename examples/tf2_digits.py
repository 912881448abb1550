"""Trains a classifier on real handwritten digits, data-parallel, in TensorFlow 2.

    npurun -n 4 examples/tf2_digits.py

Every rank starts from other random weights; npu.distribute.broadcast gives all of them rank 0's.
In each step every rank takes its own part of the batch, and npu.distribute.all_reduce averages the
gradients. At the end all ranks hold the same weights, bit for bit, and print the same accuracy.
"""

from __future__ import annotations

import argparse
import zlib

import digits_data
import numpy as np
import tensorflow as tf

import npu_device as npu
from hccl.manage.api import get_rank_id, get_rank_size

npu.open().as_default()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument(
        "--weights-file",
        help="write the weights after every step to this .npz; {rank} stands for the rank",
    )
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    def initializer(layer):
        return tf.keras.initializers.GlorotUniform(seed=10 * rank + layer)

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, activation="relu", kernel_initializer=initializer(1)),
            tf.keras.layers.Dense(10, kernel_initializer=initializer(2)),
        ]
    )
    model.build((None, 64))
    npu.distribute.broadcast(model.trainable_variables, root_rank=0)
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.1, momentum=0.9)

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images))
            )
        gradients = tape.gradient(loss, model.trainable_variables)
        gradients = npu.distribute.all_reduce(gradients, reduction="mean")
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return npu.distribute.all_reduce(loss, reduction="mean")

    history = []
    for step in range(arguments.steps):
        rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
        loss = train_step(tf.constant(train_images[rows]), tf.constant(train_labels[rows]))
        if arguments.weights_file:
            history.append([np.array(variable) for variable in model.trainable_variables])
        if rank == 0 and (step + 1) % 20 == 0:
            print("step %3d  loss %.4f" % (step + 1, float(loss)))

    predictions = np.argmax(np.array(model(tf.constant(test_images))), axis=1)
    accuracy = float(np.mean(predictions == test_labels))
    weights = b"".join(np.array(variable).tobytes() for variable in model.trainable_variables)
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


if __name__ == "__main__":
    main()

"""Trains a Keras model with fit, data-parallel.

    npurun -n 4 examples/tf1_keras.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_keras.py      on TensorFlow 2.6 to 2.15

The wrapped optimizer averages the gradients over the ranks; the callback gives all ranks the model,
the optimizer's state and the learning rate of rank 0 before the first batch.
"""

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

from npu_bridge.npu_init import *


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=120)
    arguments = parser.parse_args()

    set_keras_session_npu_config()
    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()
    rows = np.concatenate(
        [
            digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
            for step in range(arguments.steps)
        ]
    )

    def initializer(seed):
        return tf.keras.initializers.RandomNormal(stddev=0.1, seed=seed)

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(
                64, "relu", kernel_initializer=initializer(1 + rank), input_shape=[64]
            ),
            tf.keras.layers.Dense(10, kernel_initializer=initializer(101 + rank)),
        ]
    )
    optimizer = npu_keras_optimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9))
    model.compile(
        optimizer,
        loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(
        train_images[rows],
        train_labels[rows],
        batch_size=digits_data.GLOBAL_BATCH // rank_size,
        shuffle=False,
        verbose=0,
        callbacks=npu_callbacks_append([]),
    )
    _, accuracy = model.evaluate(test_images, test_labels, verbose=0)
    values = model.get_weights()
    weights = {"weight_%d" % index: value for index, value in enumerate(values)}
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

"""Trains a Keras model on real handwritten digits with compile and fit, data-parallel.

    npurun -n 4 examples/tf2_keras.py

What makes it a job of several ranks: each takes its shard of the dataset and its part of the batch,
the optimizer is wrapped so that gradients are averaged, and callbacks give all ranks rank 0's
weights at the beginning and average what is measured. Batch normalization sees all ranks' batches.
At the end all ranks hold the same weights, bit for bit, and print the same accuracy.
"""

from __future__ import annotations

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

import npu_device as npu
from hccl.manage.api import get_rank_id, get_rank_size

npu.open().as_default()


def make_model(rank):
    def initializer(layer):
        # Other weights on each rank: the callback has to make them equal.
        return tf.keras.initializers.GlorotUniform(seed=10 * rank + layer)

    return tf.keras.Sequential(
        [
            tf.keras.Input([8, 8, 1]),
            tf.keras.layers.Conv2D(8, 3, use_bias=False, kernel_initializer=initializer(1)),
            npu.distribute.SyncBatchNormalization(),
            tf.keras.layers.Activation("tanh"),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10, kernel_initializer=initializer(2)),
        ]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=60)
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()
    train_images, test_images = (i.reshape(-1, 8, 8, 1) for i in (train_images, test_images))

    dataset = tf.data.Dataset.from_tensor_slices((train_images, train_labels))
    dataset, batch_size = npu.distribute.shard_and_rebatch_dataset(
        dataset, digits_data.GLOBAL_BATCH
    )
    dataset = dataset.batch(batch_size, drop_remainder=True)
    steps_per_epoch = npu.distribute.min_steps(dataset)

    model = make_model(rank)
    optimizer = tf.keras.optimizers.SGD(learning_rate=0.1, momentum=0.9)
    optimizer = npu.distribute.npu_distributed_keras_optimizer_wrapper(optimizer)
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer, loss)
    callbacks = npu.distribute.npu_callbacks_append([])
    callbacks.append(npu.distribute.MetricAverageCallback())
    history = model.fit(
        dataset.repeat(),
        steps_per_epoch=steps_per_epoch,
        epochs=-(-arguments.steps // steps_per_epoch),
        callbacks=callbacks,
        verbose=0,
    )
    if rank == 0:
        for epoch, value in enumerate(history.history["loss"]):
            print("epoch %2d  loss %.4f" % (epoch + 1, value))
    predictions = np.argmax(model.predict(test_images, verbose=0), axis=1)
    accuracy = float(np.mean(predictions == test_labels))
    # By position: Keras may give a rank's layers other numbers.
    weights = {"weight_%d" % index: value for index, value in enumerate(model.get_weights())}
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

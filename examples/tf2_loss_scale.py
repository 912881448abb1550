"""Trains in float16 with dynamic loss scaling in a custom loop, data-parallel.

    npurun -n 4 examples/tf2_loss_scale.py

The loss is multiplied so that small gradients are not lost in float16. A step whose gradients
overflow on one rank is skipped by all, and the factor is halved; so the ranks stay alike. The
first factor is chosen too large on purpose: the first steps are skipped.
"""

from __future__ import annotations

import argparse

import digits_data
import numpy as np
import report
import tensorflow as tf

import npu_device as npu
from hccl.manage.api import get_rank_id, get_rank_size
from npu_device.train.optimizer.npu_loss_scale_optimizer import NpuLossScaleOptimizer

npu.open().as_default()


def scale_of(optimizer):
    """Returns the factor; Keras 3 names it otherwise."""
    scale = getattr(optimizer, "loss_scale", None)
    return optimizer.dynamic_scale if scale is None else scale


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=60)
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()
    model = tf.keras.Sequential([tf.keras.Input([64]), tf.keras.layers.Dense(10)])
    npu.distribute.broadcast(model.trainable_variables, root_rank=0)
    variables = model.trainable_variables
    inner = npu.distribute.npu_distributed_keras_optimizer_wrapper(tf.keras.optimizers.SGD(0.5))
    optimizer = NpuLossScaleOptimizer(inner, initial_scale=2.0**20)
    divides = not hasattr(optimizer, "get_unscaled_gradients")  # Keras 3 does so by itself
    if divides:
        optimizer.build(variables)

    @tf.function
    def train_step(images, labels):
        with tf.GradientTape() as tape:
            kernel, bias = (tf.cast(variable, tf.float16) for variable in variables)
            logits = tf.cast(tf.matmul(tf.cast(images, tf.float16), kernel) + bias, tf.float32)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
            loss = tf.reduce_mean(losses)
            scaled = loss * tf.cast(scale_of(optimizer), tf.float32)
        gradients = tape.gradient(scaled, variables)
        if not divides:
            gradients = optimizer.get_unscaled_gradients(gradients)
        optimizer.apply_gradients(zip(gradients, variables))
        return loss

    skipped = 0
    for step in range(arguments.steps):
        rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
        loss = train_step(tf.constant(train_images[rows]), tf.constant(train_labels[rows]))
        skipped += not bool(optimizer.last_step_finite.numpy())
        if rank == 0 and (step + 1) % 20 == 0:
            print("step %3d  loss %.4f  factor %g" % (step + 1, loss, float(scale_of(optimizer))))
    print("rank %d skipped %d steps" % (rank, skipped))
    predictions = np.argmax(np.array(model(tf.constant(test_images))), axis=1)
    accuracy = float(np.mean(predictions == test_labels))
    weights = {"weight_%d" % index: value for index, value in enumerate(model.get_weights())}
    report.report(rank, rank_size, accuracy, weights, arguments.weights_file)


if __name__ == "__main__":
    main()

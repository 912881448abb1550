"""Trains, evaluates and predicts with NPUEstimator on a tf.data input.

    npurun -n 4 examples/tf1_estimator.py            on TensorFlow 1.15
    npurun -n 4 --tf1 examples/tf1_estimator.py      on TensorFlow 2.6 to 2.15

Rank 0 writes the checkpoints; the other ranks go on from them. With --model-dir a second run
continues where the first ended.
"""

import argparse
import shutil
import tempfile

import digits_data
import numpy as np
import report
import tensorflow as tf

from npu_bridge.npu_init import *


def model_fn(features, labels, mode, params):
    rank = get_rank_id()
    hidden = tf.get_variable(
        "hidden", [64, 64], initializer=tf.random_normal_initializer(stddev=0.1, seed=1 + rank)
    )
    output = tf.get_variable(
        "output", [64, 10], initializer=tf.random_normal_initializer(stddev=0.1, seed=101 + rank)
    )
    logits = tf.matmul(tf.nn.relu(tf.matmul(features["images"], hidden)), output)
    classes = tf.argmax(logits, axis=1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return NPUEstimatorSpec(mode, predictions={"classes": classes})
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    if mode == tf.estimator.ModeKeys.EVAL:
        metrics = {"accuracy": tf.metrics.accuracy(labels, classes)}
        return NPUEstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
    optimizer = NPUDistributedOptimizer(
        tf.train.MomentumOptimizer(params["learning_rate"], params["momentum"])
    )
    train = optimizer.minimize(loss, global_step=tf.train.get_global_step())
    return NPUEstimatorSpec(mode, loss=loss, train_op=train)


def wait_for_all_ranks():
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(hccl_ops.allreduce(tf.constant(1), "sum"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    report.add_arguments(parser, steps=120)
    parser.add_argument("--model-dir", help="for checkpoints; default: a temporary folder")
    arguments = parser.parse_args()

    rank, rank_size = get_rank_id(), get_rank_size()
    train_images, train_labels, test_images, test_labels = digits_data.load()

    def train_input():
        def shards():
            for step in range(arguments.steps):
                rows = digits_data.shard_of_batch(step, len(train_labels), rank, rank_size)
                yield {"images": train_images[rows]}, train_labels[rows]

        return tf.data.Dataset.from_generator(
            shards,
            ({"images": tf.float32}, tf.int64),
            ({"images": tf.TensorShape([None, 64])}, tf.TensorShape([None])),
        )

    def test_input():
        return tf.data.Dataset.from_tensor_slices(({"images": test_images}, test_labels)).batch(60)

    model_dir = arguments.model_dir or tempfile.mkdtemp(prefix="npu_bridge_estimator_")
    try:
        estimator = NPUEstimator(
            model_fn=model_fn,
            config=NPURunConfig(model_dir=model_dir, save_checkpoints_steps=50),
            params={"learning_rate": 0.1, "momentum": 0.9},
        )
        estimator.train(train_input, max_steps=arguments.steps)
        evaluation = estimator.evaluate(test_input)
        found = [one["classes"] for one in estimator.predict(test_input)]
        accuracy = np.mean(np.array(found) == test_labels)
        if abs(accuracy - evaluation["accuracy"]) > 1e-6:
            raise RuntimeError("evaluate and predict differ: %s, %s" % (evaluation, accuracy))
        weights = {name: estimator.get_variable_value(name) for name in ("hidden", "output")}
        report.report(rank, rank_size, accuracy, weights, arguments.weights_file)
        # The other ranks read the checkpoints of rank 0.
        wait_for_all_ranks()
    finally:
        if not arguments.model_dir:
            shutil.rmtree(model_dir)


if __name__ == "__main__":
    main()

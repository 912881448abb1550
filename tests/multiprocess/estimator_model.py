"""A small model for scripts with NPUEstimator, and an optimizer that exchanges its gradients."""

from __future__ import annotations

import textwrap

from tests.multiprocess import scripts

ROWS, BATCH = 64, 8

_MODEL = """
import logging, os
from npu_bridge.npu_init import *
from npu_bridge.estimator.npu import npu_estimator

ROWS, BATCH = %d, %d
random = np.random.RandomState(5)
FEATURES = random.randn(ROWS, 6).astype(np.float32)
LABELS = (FEATURES @ random.randn(6, 1) + 0.1 * random.randn(ROWS, 1)).astype(np.float32)


class Averaging(tf.train.MomentumOptimizer):
    def compute_gradients(self, *args, **kwargs):
        pairs = super().compute_gradients(*args, **kwargs)
        return [(hccl_ops.allreduce(g, "sum") / size, v) for g, v in pairs]


def model_fn(features, labels, mode, params):
    hidden = tf.get_variable("hidden", initializer=tf.random_normal([6, 5], seed=3 + rank))
    output = tf.get_variable("output", initializer=tf.random_normal([5, 1], seed=7 + rank))
    predictions = tf.matmul(tf.tanh(tf.matmul(features, hidden)), output)
    spec = dict(mode=mode, predictions={"value": predictions})
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(**spec)
    loss = tf.reduce_mean(tf.square(predictions - labels))
    spec["loss"] = loss
    spec["eval_metric_ops"] = {"mean": tf.metrics.mean(predictions)}
    if mode == tf.estimator.ModeKeys.TRAIN:
        optimizer = Averaging(0.05, 0.9)
        spec["train_op"] = optimizer.minimize(loss, global_step=tf.train.get_global_step())
        spec["training_hooks"] = params.get("hooks", [])
        spec.pop("eval_metric_ops")
    return NPUEstimatorSpec(host_call=params.get("host_call"), **spec)


def shard():
    '''This rank's part of each batch of all ranks.'''
    part = BATCH // size
    rows = np.arange(ROWS).reshape(-1, size, part)[:, rank].reshape(-1)
    data = tf.data.Dataset.from_tensor_slices((FEATURES[rows], LABELS[rows]))
    return data.repeat().batch(part)


def everything():
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).batch(16)


def make(model_dir, params=None, warm_start_from=None, **options):
    options.setdefault("save_checkpoints_steps", 5)
    return NPUEstimator(model_fn, config=NPURunConfig(model_dir=model_dir, **options),
                        params=params, warm_start_from=warm_start_from)


def weights(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def same_on_all_ranks(values):
    '''Whether all ranks have the same bits in a dict of arrays.'''
    with tf.Graph().as_default(), tf.Session() as session:
        mine = [np.atleast_1d(values[name]) for name in sorted(values)]
        roots = session.run([hccl_ops.broadcast([value], 0)[0] for value in mine])
    return all(np.array_equal(a, b) for a, b in zip(mine, roots))


def found(folder):
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []
"""


def script(body):
    """A script of a rank that has the model above."""
    return scripts.graph(_MODEL % (ROWS, BATCH) + textwrap.dedent(body))

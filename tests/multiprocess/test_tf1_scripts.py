"""Scripts as Ascend users write them, with TensorFlow 1's own names, on TensorFlow 1 and 2."""

from __future__ import annotations

import textwrap

import pytest

from tests.harness import run_ranks
from tests.multiprocess import training_script

pytestmark = pytest.mark.core

# One after the other in one process, since each start of TensorFlow takes seconds.
SCRIPT = """
import numpy as np
import tensorflow as tf
from hccl.manage.api import get_rank_id, get_rank_size
from npu_bridge.hccl import hccl_ops
from npu_bridge.estimator.npu.npu_callbacks import NPUBroadcastGlobalVariablesCallback
from npu_bridge.estimator.npu.npu_loss_scale_manager import ExponentialUpdateLossScaleManager
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer
from npu_bridge.estimator.npu.npu_optimizer import npu_distributed_optimizer_wrapper

random = np.random.RandomState(get_rank_id())

def digest(values):
    print("digest", b"".join(np.asarray(v).tobytes() for v in values).hex())

def session_training(sharding):
    tf.reset_default_graph()
    tf.set_random_seed(get_rank_id())
    x = tf.placeholder(tf.float32, [None, 3])
    hidden = tf.nn.relu(tf.matmul(x, tf.get_variable("w1", [3, 8])) + tf.get_variable("b1", [8]))
    loss = tf.reduce_mean(tf.square(tf.matmul(hidden, tf.get_variable("w2", [8, 1])) - 1.0))
    step = tf.train.get_or_create_global_step()
    optimizer = tf.train.MomentumOptimizer(tf.train.exponential_decay(0.05, step, 5, 0.9), 0.9)
    optimizer = NPUDistributedOptimizer(optimizer, is_weight_update_sharding=sharding)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    train_op = optimizer.apply_gradients(zip(gradients, variables), global_step=step)
    start = hccl_ops.broadcast(tf.trainable_variables(), 0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(start)
        batch = random.rand(8, 3)
        losses = [session.run([loss, train_op], {x: batch})[0] for _ in range(30)]
        assert losses[-1] < losses[0], losses
        digest(session.run(tf.global_variables()))

def loss_scaling():
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, [None, 3])
    weights = tf.get_variable("weights", initializer=tf.ones([3, 1]))
    product = tf.matmul(tf.cast(x, tf.float16), tf.cast(weights, tf.float16))
    loss = tf.reduce_mean(tf.cast(product, tf.float32) ** 2)
    step = tf.train.get_or_create_global_step()
    optimizer = npu_distributed_optimizer_wrapper(tf.train.MomentumOptimizer(0.01, 0.9))
    manager = ExponentialUpdateLossScaleManager(
        init_loss_scale=2**24, incr_every_n_steps=5, decr_every_n_nan_or_inf=2, decr_ratio=0.5)
    if get_rank_size() > 1:
        optimizer = NPULossScaleOptimizer(optimizer, manager, is_distributed=True)
    else:
        optimizer = NPULossScaleOptimizer(optimizer, manager)
    train_op = optimizer.minimize(loss, global_step=step)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        losses = [session.run([loss, train_op], {x: random.rand(8, 3)})[0] for _ in range(40)]
        applied, factor = session.run([step, manager.get_loss_scale()])
        assert losses[-1] < losses[0], losses
        assert 5 <= applied < 40 and factor < 2**24, (applied, factor)
        digest(session.run(tf.global_variables()))

def keras_training():
    tf.reset_default_graph()
    tf.keras.backend.clear_session()
    x = random.rand(64, 3).astype(np.float32)
    model = tf.keras.Sequential([
        tf.keras.layers.Dense(8, activation="relu", input_shape=(3,)), tf.keras.layers.Dense(1)])
    optimizer = npu_distributed_optimizer_wrapper(tf.keras.optimizers.SGD(0.05, momentum=0.9))
    model.compile(optimizer=optimizer, loss="mse")
    history = model.fit(x, x.sum(axis=1, keepdims=True), batch_size=16, epochs=5, verbose=0,
                        callbacks=[NPUBroadcastGlobalVariablesCallback(0)])
    assert history.history["loss"][-1] < history.history["loss"][0], history.history
    digest(model.get_weights())

session_training(False)
session_training(True)
loss_scaling()
if tuple(int(part) for part in tf.__version__.split(".")[:2]) < (2, 16):
    keras_training()  # Keras 3 has no graph mode
"""


def test_ranks_that_train_end_with_equal_weights():
    job = run_ranks(2, textwrap.dedent(SCRIPT), limit=300, tf1=True)
    training_script.expect_equal_digests(job, 3)

"""Lines that scripts of the optimizer tests share: a small model, trained alone or by ranks.

The reference is one process that has every rank's data and whose loss is the mean of the ranks'
losses: with equal shards, the loss of the joined batch.
"""

from __future__ import annotations

from tests.multiprocess import scripts

_MODEL = """
import hashlib
from npu_bridge.estimator.npu import npu_optimizer
from npu_bridge.estimator.npu.npu_loss_scale_manager import *
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_optimizer import *

STEPS = 4
random = np.random.RandomState(7)
X = random.rand(STEPS, size, 4, 3).astype(np.float32)
Y = random.rand(STEPS, size, 4, 1).astype(np.float32)
# Rows of the embedding: 3 with a repetition on rank 0, 5 elsewhere; none there in step 2.
IDS = [[[1, 4, 1] if r == 0 else [] if step == 2 else [4, 4, 2, (r + step) % 8, 9]
        for r in range(size)] for step in range(STEPS)]

def feeds(r):
    return [tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.float32, [None, 1]),
            tf.placeholder(tf.int32, [None])]

def fed(placeholders, step, r):
    return dict(zip(placeholders, [X[step, r], Y[step, r], np.array(IDS[step][r], np.int32)]))

def make_variables(resource):
    def get(name, shape):
        start = np.random.RandomState(len(name)).rand(*shape).astype(np.float32)
        return tf.get_variable(name, initializer=start, use_resource=resource)
    return [get("embedding/table", [10, 3]), get("dense/kernel", [3, 1]), get("dense/bias", [1]),
            get("unused", [2])]

def loss_of(variables, placeholders):
    table, kernel, bias, _ = variables
    x, y, ids = placeholders
    rows = tf.nn.embedding_lookup(table, ids)
    return (tf.reduce_mean(tf.square(tf.matmul(x, kernel) + bias - y))
            + tf.reduce_sum(tf.square(rows)) / 10)

def train(make_optimizer, ranks, resource=True, steps=STEPS, checks=None, minimize=False):
    with tf.Graph().as_default() as graph:
        variables = make_variables(resource)
        placeholders = {r: feeds(r) for r in ranks}
        loss = tf.add_n([loss_of(variables, placeholders[r]) for r in ranks]) / len(list(ranks))
        step = tf.train.get_or_create_global_step()
        optimizer = make_optimizer()
        if minimize:
            update = optimizer.minimize(loss, global_step=step)
        else:
            pairs = optimizer.compute_gradients(loss, variables)
            assert pairs[-1][0] is None and isinstance(pairs[0][0], tf.IndexedSlices)
            update = optimizer.apply_gradients(pairs, step)
        history = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for number in range(steps):
                feed = {}
                for r in ranks:
                    feed.update(fed(placeholders[r], number, r))
                session.run(update, feed)
                history.append(session.run(variables))
            assert session.run(step) == steps
            if checks is not None:
                checks(optimizer, graph, variables, session)
    return history

def kinds(graph):
    return [op.type for op in graph.get_operations() if op.type.startswith("Hcom")]

def close(a, b, rtol=1e-5, atol=1e-6):
    for step, (one, other) in enumerate(zip(a, b)):
        for v, w in zip(one, other):
            np.testing.assert_allclose(v, w, rtol, atol, err_msg="step %d" % step)
    assert len(a) == len(b)

def digest(name, history):
    values = [np.ascontiguousarray(v).tobytes() for v in tf.nest.flatten(history)]
    say("digest", name, hashlib.sha1(b"".join(values)).hexdigest())
"""


def graph(body):
    """A script with the model, which builds a graph and runs it in sessions."""
    return scripts.graph(_MODEL) + scripts.body(body)


def expect_equal_digests(job, at_least=1):
    """The job succeeded, and each digest that ranks printed is the same on all of them."""
    job.expect_success()
    lines = [
        [line for line in job.outputs[rank].splitlines() if line.startswith("digest")]
        for rank in range(job.ranks)
    ]
    assert len(lines[0]) >= at_least, lines
    assert all(one == lines[0] for one in lines), lines

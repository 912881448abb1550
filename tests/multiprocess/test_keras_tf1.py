"""Keras models trained by several ranks: the wrappers of optimizers and the broadcast callback."""

from __future__ import annotations

import textwrap

import pytest
import tensorflow as tf

from tests.harness import run_ranks
from tests.multiprocess import scripts, training_script

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
needs_keras_2 = pytest.mark.skipif(MINOR >= (2, 16), reason="Keras 3 has no graph mode")

KERAS = """
import hashlib, json, subprocess, tempfile
from npu_bridge.estimator.npu.npu_callbacks import *
from npu_bridge.estimator.npu.npu_optimizer import *
{keras}

STEPS = 4
random = np.random.RandomState(7)
X = random.rand(STEPS, size, 4, 3).astype(np.float32)
# All different within a step: where ids repeat, TensorFlow takes the norm of a sparse gradient to be
# that of rows that it did not sum up, and here each rank sums up its own.
IDS = np.array([random.permutation(8 * size).reshape(size, 4, 2) for _ in range(STEPS)], np.int32)
Y = random.rand(STEPS, size, 4, 1).astype(np.float32)

def make_model(normalize=False, seed=0):
    x, ids = keras.Input([3]), keras.Input([2], dtype="int32")
    rows = keras.layers.Flatten()(keras.layers.Embedding(8 * size, 2)(ids))
    hidden = keras.layers.Dense(4, activation="tanh")(keras.layers.concatenate([x, rows]))
    if normalize:
        hidden = keras.layers.BatchNormalization()(hidden)
    model = keras.Model([x, ids], keras.layers.Dense(1)(hidden))
    start = np.random.RandomState(seed)
    model.set_weights([start.rand(*w.shape).astype(np.float32) for w in model.get_weights()])
    return model

def data(ranks, steps=slice(None)):
    return [np.concatenate([a[steps, r] for r in ranks], axis=1).reshape([-1] + list(a.shape[3:]))
            for a in (X, IDS, Y)]

class Weights(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.history = []
    def on_batch_end(self, batch, logs=None):
        self.history.append([np.array(w) for w in self.model.get_weights()])

def fit(model, ranks, callbacks=(), steps=slice(None), epochs=1):
    x, ids, y = data(ranks, steps)
    kept = Weights()
    model.fit([x, ids], y, batch_size=4 * len(ranks), epochs=epochs, shuffle=False, verbose=0,
              callbacks=list(callbacks) + [kept])
    return kept.history

def close(a, b, rtol=1e-5, atol=1e-6):
    assert len(a) == len(b), (len(a), len(b))
    for step, (one, other) in enumerate(zip(a, b)):
        for v, w in zip(one, other):
            np.testing.assert_allclose(v, w, rtol, atol, err_msg="step %d" % step)

def digest(name, history):
    values = [np.ascontiguousarray(v).tobytes() for v in tf.nest.flatten(history)]
    say("digest", name, hashlib.sha1(b"".join(values)).hexdigest())
"""

GRAPH = "keras = tf.keras\n" + textwrap.dedent(
    """
        def kinds():
            graph = keras.backend.get_session().graph
            return [op.type for op in graph.get_operations() if op.type.startswith("Hcom")]
        """
)
EAGER = "import tensorflow.compat.v2 as tf2\nkeras = tf2.keras"


def graph(body):
    return scripts.graph(KERAS.replace("{keras}", GRAPH)) + textwrap.dedent(body)


def eager(body):
    return scripts.eager(KERAS.replace("{keras}", EAGER)) + textwrap.dedent(body)


def equal_digests(ranks, script, at_least=1, **options):
    job = run_ranks(ranks, script, limit=300, **options)
    training_script.expect_equal_digests(job, at_least)
    return job


@pytest.mark.core
@needs_keras_2
def test_fit_equals_one_process_on_the_joined_batches():
    equal_digests(
        2,
        graph(
            """
            optimizers = {
                "momentum": lambda: keras.optimizers.SGD(0.2, momentum=0.9),
                "adam": lambda: keras.optimizers.Adam(0.05),
                "clipped": lambda: keras.optimizers.SGD(0.2, clipnorm=0.05),
            }
            ways = {"wrapped": npu_distributed_optimizer_wrapper, "class": KerasDistributeOptimizer}
            for name, make in optimizers.items():
                keras.backend.clear_session()
                model = make_model()
                model.compile(make(), "mse")
                expected = fit(model, range(size))
                for way in ["class"] if name == "momentum" else ["wrapped"]:
                    keras.backend.clear_session()
                    model = make_model()
                    optimizer = ways[way](make())
                    model.compile(optimizer, "mse")
                    assert model.optimizer is optimizer
                    found = fit(model, [rank])
                    close(found, expected)
                    # The gradients of two kernels and two biases, and the rows of the embedding.
                    dense = kinds().count("HcomAllReduce")
                    sparse = kinds().count("HcomAllToAllV")
                    assert (dense, sparse) in ((4, 2), (5, 0)), kinds()
                    digest(name + way, found)
            """
        ),
        at_least=3,
    )


@needs_keras_2
def test_every_way_to_step_reduces_once():
    equal_digests(
        2,
        graph(
            """
            def steps(optimizer, ranks, way):
                with tf.Graph().as_default():
                    kernel = tf.get_variable("kernel", initializer=tf.ones([3, 1]), use_resource=True)
                    places = [tf.placeholder(tf.float32, [None, 3]) for _ in ranks]
                    def make_loss():
                        losses = [tf.reduce_mean(tf.square(tf.matmul(x, kernel) - 1)) for x in places]
                        return tf.add_n(losses) / len(ranks)
                    loss, optimizer = make_loss(), optimizer()
                    if way == "apply_gradients":
                        update = optimizer.apply_gradients(zip(tf.gradients(loss, [kernel]), [kernel]))
                    elif way == "get_updates":
                        update = optimizer.get_updates(loss, [kernel])
                    elif way == "get_gradients":
                        gradients = optimizer.get_gradients(loss, [kernel])
                        update = optimizer.apply_gradients(zip(gradients, [kernel]))
                    else:
                        update = optimizer.minimize(make_loss, [kernel])
                    kinds = [op.type for op in tf.get_default_graph().get_operations()]
                    assert kinds.count("HcomAllReduce") == (1 if len(ranks) < size else 0), (way, kinds)
                    history = []
                    with tf.Session() as session:
                        session.run(tf.global_variables_initializer())
                        for number in range(3):
                            session.run(update, {p: X[number, r] for p, r in zip(places, ranks)})
                            history.append([session.run(kernel)])
                return history

            inner = lambda: keras.optimizers.Adam(0.1)
            distributed = {"wrapper": lambda: npu_distributed_optimizer_wrapper(inner()),
                           "class": lambda: KerasDistributeOptimizer(inner())}
            for way in ("apply_gradients", "get_updates", "get_gradients", "minimize"):
                expected = steps(inner, list(range(size)), way)
                for name, make in distributed.items():
                    found = steps(make, [rank], way)
                    close(found, expected)
                    digest(way + name, found)
            assert isinstance(npu_distributed_optimizer_wrapper("adam"), keras.optimizers.Adam)
            """
        ),
        at_least=8,
    )


@needs_keras_2
def test_configurations_make_the_same_optimizer_again():
    equal_digests(
        1,
        graph(
            """
            import copy
            inner = keras.optimizers.Adam(0.05, beta_1=0.8)
            both = KerasDistributeOptimizer(inner, name="mine")
            assert isinstance(both, KerasDistributeOptimizer) and isinstance(both, keras.optimizers.Adam)
            assert type(both).__name__ == "Adam"
            config = json.loads(json.dumps(both.get_config(), default=float))
            assert config["name"] == "mine" and abs(config["beta_1"] - 0.8) < 1e-6, config
            again = type(both).from_config(config)
            assert isinstance(again, KerasDistributeOptimizer), again
            assert abs(again.get_config()["learning_rate"] - 0.05) < 1e-6
            plain = keras.optimizers.Adam.from_config(config)
            assert not isinstance(plain, KerasDistributeOptimizer)
            wrapped = npu_distributed_optimizer_wrapper(keras.optimizers.SGD(0.3))
            assert wrapped.from_config(wrapped.get_config()).get_config() == wrapped.get_config()
            assert type(copy.copy(wrapped)) is type(wrapped)
            both.learning_rate = 0.5
            assert abs(inner.get_config()["learning_rate"] - 0.5) < 1e-6
            for bad, text in ((3, "got 3"), (tf.train.AdamOptimizer(), "npu_distributed_optimizer_wrapper")):
                try:
                    KerasDistributeOptimizer(bad)
                except TypeError as error:
                    assert text in str(error), error
                else:
                    raise AssertionError(bad)
            try:
                KerasDistributeOptimizer(keras.optimizers.SGD(), nonsense=1)
            except TypeError as error:
                assert "nonsense" in str(error), error
            else:
                raise AssertionError("nonsense")
            digest("done", [])
            """
        ),
    )


@needs_keras_2
def test_a_saved_model_loads_without_this_package_and_training_goes_on():
    equal_digests(
        2,
        graph(
            """
            make = lambda: npu_distributed_optimizer_wrapper(keras.optimizers.Adam(0.05))
            model = make_model()
            model.compile(make(), "mse")
            through = fit(model, [rank])
            for wrap in (npu_distributed_optimizer_wrapper, KerasDistributeOptimizer):
                keras.backend.clear_session()
                model = make_model()
                model.compile(wrap(keras.optimizers.Adam(0.05)), "mse")
                first = fit(model, [rank], steps=slice(0, 2))
                path = os.path.join(tempfile.mkdtemp(), "model.h5")
                model.save(path)
                code = ("import sys, tensorflow as tf\\n"
                        "model = tf.keras.models.load_model(%r)\\n"
                        "assert type(model.optimizer).__name__ == 'Adam', model.optimizer\\n"
                        "assert 'Adam' == tf.keras.optimizers.Adam.__name__\\n"
                        "ours = [m for m in sys.modules if m.split('.')[0] in ('npu_bridge', 'npu_device')]\\n"
                        "assert not ours, ours\\n" % path)
                if rank == 0 and wrap is KerasDistributeOptimizer:
                    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
                    subprocess.run([sys.executable, "-c", code], check=True, env=environment,
                                   cwd=os.path.dirname(path))
                keras.backend.clear_session()
                model = keras.models.load_model(path)
                model.compile(wrap(model.optimizer), "mse")
                rest = fit(model, [rank], steps=slice(2, 4))
                close(first + rest, through)
                digest("resumed", rest)
            """
        ),
        at_least=2,
    )


CALLBACK = """
def variables(model):
    from npu_device._core import model_broadcast
    found = model_broadcast.model_variables(model)
    if tf.executing_eagerly():
        return [(getattr(v, "path", v.name), np.asarray(v.numpy())) for v in found]
    return list(zip([v.name for v in found], keras.backend.get_session().run(found)))

def optimizer(rate):
    return keras.optimizers.Adam(rate)

# Rank 1 has trained further than the others, as if it had restored a checkpoint.
model = make_model(normalize=True, seed=rank)
model.compile(optimizer(0.05 if rank == 1 else 0.01), "mse")
if rank == 1:
    fit(model, [0], steps=slice(0, 3))
callback = NPUBroadcastGlobalVariablesCallback(1)
# Compiled anew: what Keras has built for the first fit knows nothing of other ranks.
model.compile(npu_distributed_optimizer_wrapper(model.optimizer), "mse")
# The same batch on all ranks: batch normalization keeps what its own rank saw.
fit(model, [0], [callback], steps=slice(3, 4))
assert callback.broadcast_done
after = variables(model)
names = " ".join(name for name, _ in after)
assert "moving_mean" in names and len(after) >= 9 + 14 + 1, names
integers = [int(v) for _, v in after if v.dtype == np.int64]
assert integers and max(integers) == 4, (integers, names)
rates = [float(v) for name, v in after if "learning_rate" in name]
assert len(rates) == 1 and abs(rates[0] - 0.05) < 1e-6, (rates, names)
digest("all", [v for _, v in after])

# Once: afterwards each rank goes its own way, here without reduction.
plain = make_model(seed=rank)
plain.compile(keras.optimizers.SGD(0.1), "mse")
found = fit(plain, [rank], [NPUBroadcastGlobalVariablesCallback(0)], epochs=2)
alone = make_model(seed=0)
alone.compile(keras.optimizers.SGD(0.1), "mse")
close(found, fit(alone, [rank], epochs=2), rtol=0, atol=1e-6)
"""


@pytest.mark.core
@needs_keras_2
def test_the_callback_broadcasts_once_all_that_training_needs_in_a_graph():
    equal_digests(
        2,
        graph(
            CALLBACK
            + textwrap.dedent(
                """
                assert kinds().count("HcomBroadcast") == 2, kinds()
                """
            )
        ),
    )


@pytest.mark.core
def test_the_callback_and_the_wrapper_eagerly():
    """As Keras of TensorFlow 2 trains; Keras 3 included."""
    equal_digests(
        2,
        eager(
            CALLBACK
            + textwrap.dedent(
                """
                make = lambda: keras.optimizers.Adam(0.05, clipnorm=0.1)
                model = make_model()
                model.compile(make(), "mse")
                expected = fit(model, range(size))
                model = make_model()
                model.compile(npu_distributed_optimizer_wrapper(make()), "mse")
                found = fit(model, [rank])
                close(found, expected)
                digest("fit", found)

                if not tf.__version__.startswith("1."):
                    # A model that has no weights before its first batch.
                    late = keras.Sequential([keras.layers.Dense(2), keras.layers.Dense(1)])
                    late.compile(npu_distributed_optimizer_wrapper(keras.optimizers.Adam(0.01)), "mse")
                    late.fit(X[0, 0], Y[0, 0], batch_size=4, verbose=0,
                             callbacks=[NPUBroadcastGlobalVariablesCallback(0)])
                    digest("late", [v for _, v in variables(late)])
                try:
                    broadcast_global_variables(0)
                except RuntimeError as error:
                    assert "npu_device.distribute.broadcast" in str(error), error
                else:
                    raise AssertionError("there is no graph")
                """
            )
        ),
        at_least=2,
    )


@pytest.mark.skipif(MINOR < (2, 4), reason="Keras has no such optimizer")
def test_loss_scaling_of_keras_around_and_inside_the_wrapper():
    """Rank 1 overflows in its second step, which both skip; the scale is halved on both."""
    equal_digests(
        2,
        eager(
            """
            scaling = keras.mixed_precision.LossScaleOptimizer
            wrap = npu_distributed_optimizer_wrapper
            # Keras 3 looks for overflows on each rank before the optimizer inside reduces.
            inside = [] if hasattr(scaling, "_backend_apply_gradients") else ["inside"]
            for way in ["around", *inside]:
                def make(distribute):
                    adam = keras.optimizers.Adam(0.05)
                    return distribute(scaling(adam)) if way == "around" else scaling(distribute(adam))
                saved = X[1, 1, 0, 0]
                X[1, 1, 0, 0] = np.inf
                model = make_model()
                model.compile(make(lambda opt: opt), "mse")
                expected = fit(model, range(size))
                model = make_model()
                model.compile(make(wrap), "mse")
                found = fit(model, [rank])
                close(found, expected)
                assert all((a == b).all() for a, b in zip(found[0], found[1])), found
                assert not all((a == b).all() for a, b in zip(found[1], found[2])), found
                digest(way, found)
                X[1, 1, 0, 0] = saved
            """
        ),
    )


@pytest.mark.core
@pytest.mark.skipif(MINOR < (2, 16), reason="Keras 2 has these optimizers")
def test_keras_3_has_no_base_for_the_class():
    from npu_bridge.estimator.npu.npu_optimizer import KerasDistributeOptimizer

    with pytest.raises(RuntimeError, match=r"TensorFlow 1.15 to 2.15; this is TensorFlow 2\.\d+"):
        KerasDistributeOptimizer(tf.keras.optimizers.SGD())

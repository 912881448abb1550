"""npurun --tf1: scripts written for TensorFlow 1 on whatever TensorFlow is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from npurun.tf1_compat import STARTUP_FOLDER, contrib, contrib_names
from tests.harness import run_ranks

VERSION_1 = tf.__version__.startswith("1.")
MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
HAS_ESTIMATOR = MINOR < (2, 16)
# Keras 3 took the place of Keras 2, which has tf.layers and the cells of tf.contrib.rnn.
HAS_KERAS_2 = MINOR < (2, 16)

on_version_2 = pytest.mark.skipif(VERSION_1, reason="TensorFlow 1 needs no mapping")
pytestmark = pytest.mark.core

TRAINING = """
    import numpy as np
    import tensorflow as tf

    flags = tf.app.flags
    flags.DEFINE_integer("steps", 50, "training steps")

    def main(unused_argv):
        random = np.random.RandomState(0)
        features = random.rand(64, 3).astype(np.float32)
        labels = features.dot([[1.0], [2.0], [3.0]]).astype(np.float32)
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None, 1])
        with tf.variable_scope("model", reuse=tf.AUTO_REUSE):
            weights = tf.get_variable("weights", [3, 1], initializer=tf.zeros_initializer())
        assert "Ref" in type(weights).__name__, type(weights)
        assert x.shape[0].value is None
        loss = tf.reduce_mean(tf.square(tf.matmul(x, weights) - y))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.2).minimize(loss, global_step=step)
        tf.logging.set_verbosity(tf.logging.ERROR)
        with tf.train.MonitoredTrainingSession() as session:
            for _ in range(flags.FLAGS.steps):
                _, value = session.run([train, loss], {x: features, y: labels})
        print("loss is small:", value < 0.05)

    if __name__ == "__main__":
        tf.app.run()
"""


def run(code, limit=120, ranks=1, launcher="loop", **options):
    job = run_ranks(ranks, code, limit=limit, tf1=True, launcher=launcher, **options)
    job.expect_success()
    return job


def python(code, **environment):
    """Runs code as `npurun --tf1` runs a script and returns what it prints."""
    return run(code, environment=environment).stdout[0]


@pytest.mark.parametrize("launcher", ["loop", "npurun"])
def test_a_tensorflow_1_script_trains(launcher):
    job = run(TRAINING, ranks=2, launcher=launcher, arguments=["--steps=60"])
    assert job.stdout == ["loss is small: True\n"] * 2


@on_version_2
def test_without_the_option_the_script_fails():
    job = run_ranks(1, TRAINING, limit=120)
    job.expect_exception(0, "AttributeError", "app")


@on_version_2
def test_every_way_to_import_gives_the_same_api():
    python(
        """
        import tensorflow
        import tensorflow as tf
        import tensorflow.compat.v1 as v1
        from tensorflow import Session, logging, placeholder
        from tensorflow.python.framework import ops
        from tensorflow.python.ops import variable_scope
        import tensorflow.python.platform
        from tensorflow.core.protobuf import config_pb2
        import tensorflow.train
        from tensorflow.train import AdamOptimizer
        assert tensorflow is tf and Session is tf.Session is v1.Session
        assert AdamOptimizer is tensorflow.train.AdamOptimizer is v1.train.AdamOptimizer
        assert tf.ConfigProto is config_pb2.ConfigProto
        assert variable_scope.get_variable is v1.get_variable
        assert tf.python.framework.ops is ops
        assert tf.get_default_graph() is ops.get_default_graph()
        assert not tf.executing_eagerly()
        assert placeholder(tf.float32, [None]).graph is tf.get_default_graph()
        assert tf.__name__ == "tensorflow" and tf.__version__ == v1.__version__
        assert tf.compat.as_text(b"x") == "x" and tf.compat.v1.Session is Session
        names = {}
        exec("from tensorflow import *", names)
        assert names["Session"] is Session
        assert not hasattr(tf, "no_such_name")
        """
    )


def test_keras_is_version_1_s():
    python(
        """
        import tensorflow as tf
        import tensorflow.keras.backend as K
        from tensorflow import keras
        from tensorflow.keras import layers
        from tensorflow.keras.layers import Dense
        assert keras.layers.Dense is Dense is layers.Dense is tf.keras.layers.Dense
        assert K.epsilon() > 0
        """
    )


@on_version_2
@pytest.mark.skipif(not HAS_KERAS_2, reason="Keras 3 has no graph mode")
def test_keras_trains_in_a_graph():
    python(
        """
        import numpy as np
        import tensorflow as tf
        from tensorflow.keras import layers
        model = tf.keras.Sequential([layers.Dense(1, input_shape=(3,))])
        model.compile(tf.keras.optimizers.SGD(0.1), "mse")
        model.fit(np.ones([8, 3]), np.ones([8, 1]), epochs=2, verbose=0)
        assert not tf.executing_eagerly() and model.outputs[0].graph is tf.get_default_graph()
        tf.layers.dense(tf.zeros([1, 2]), 3)
        """
    )


@on_version_2
@pytest.mark.skipif(HAS_KERAS_2, reason="tf.layers is there")
def test_what_needs_another_package_or_an_older_tensorflow_says_so():
    output = python(
        """
        import tensorflow as tf
        for use in (lambda: tf.layers.dense, lambda: tf.estimator,
                    lambda: tf.contrib.tpu.RunConfig):
            try:
                use()
            except AttributeError as error:
                print(error)
        """
    ).splitlines()
    assert "tf.layers.dense needs Keras 2" in output[0]
    assert "pip install tf-keras" in output[0]
    assert "has no tf.estimator any more" in output[1]
    assert "tf.contrib.tpu.RunConfig" in output[2]
    assert "lane tf2.15 or tf1.15" in output[2]
    assert len(output) == 3


@pytest.mark.skipif(not HAS_ESTIMATOR, reason="this TensorFlow has no Estimator")
def test_an_estimator_trains():
    output = python(
        """
        import tempfile
        import tensorflow as tf
        tf.logging.set_verbosity(tf.logging.ERROR)

        def model(features, labels, mode, params):
            weights = tf.get_variable("weights", [], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(weights * features - labels))
            step = tf.train.get_global_step()
            train = tf.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
            return tf.contrib.tpu.TPUEstimatorSpec(mode, loss=loss, train_op=train)

        def data(params):
            return tf.data.Dataset.from_tensors((tf.ones([4]), tf.ones([4]))).repeat()

        with tempfile.TemporaryDirectory() as folder:
            config = tf.contrib.tpu.RunConfig(model_dir=folder)
            estimator = tf.contrib.tpu.TPUEstimator(
                model, use_tpu=False, train_batch_size=4, config=config
            )
            estimator.train(data, max_steps=30)
            print(estimator.get_variable_value("weights") > 0.9)
        """
    )
    assert output == "True\n"


def test_libraries_for_tensorflow_2_keep_the_real_module(tmp_path):
    # A stand-in for a library by its name, which is what decides.
    library = tmp_path / "tensorflow_probability.py"
    library.write_text("import tensorflow as tf\n")
    (tmp_path / "helpers.py").write_text("import tensorflow as tf\n")
    python(
        """
        import importlib
        import tensorflow as tf
        import tensorflow_probability, helpers
        if tf.__version__.startswith("1."):
            assert tensorflow_probability.tf is tf
        else:
            assert tensorflow_probability.tf.__dict__["compat"] is tf.compat
            assert not hasattr(tensorflow_probability.tf, "Session")
        assert helpers.tf is tf and helpers.tf.Session
        """,
        PYTHONPATH=str(tmp_path) if VERSION_1 else os.pathsep.join([STARTUP_FOLDER, str(tmp_path)]),
    )


@on_version_2
def test_version_2_behaviour_is_off_even_if_a_library_imports_tensorflow_first(tmp_path):
    (tmp_path / "tf_slim.py").write_text(
        "import tensorflow as tf; eager = tf.executing_eagerly()\n"
    )
    output = python(
        "import tf_slim\nprint(tf_slim.eager)\n",
        PYTHONPATH=os.pathsep.join([STARTUP_FOLDER, str(tmp_path)]),
    )
    assert output == "False\n"


def test_python_processes_that_the_script_starts_get_the_same_tensorflow():
    output = python(
        """
        import subprocess, sys
        code = "import tensorflow as tf; print(tf.Session.__name__)"
        print(subprocess.check_output([sys.executable, "-c", code]).decode().strip())
        """
    )
    assert output == "Session\n"


def test_the_user_s_own_sitecustomize_still_runs(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mark = 'ran'\n")
    paths = os.pathsep.join([STARTUP_FOLDER, str(tmp_path)])
    output = subprocess.run(
        [sys.executable, "-c", "import sitecustomize; print(mark, sitecustomize.__file__)"],
        env=dict(os.environ, PYTHONPATH=paths),
        stdout=subprocess.PIPE,
        timeout=60,
        check=True,
    ).stdout.decode()
    assert output == "ran {}\n".format(tmp_path / "sitecustomize.py")


def test_without_tensorflow_the_error_is_python_s_own(tmp_path):
    code = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        "import tensorflow"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=dict(os.environ, PYTHONPATH=STARTUP_FOLDER),
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert result.returncode == 1
    assert b"ModuleNotFoundError: No module named 'tensorflow'" in result.stderr


# tf.contrib.


@on_version_2
def test_every_name_of_contrib_that_is_listed_is_there():
    missing = python(
        """
        import importlib
        import tensorflow as tf
        from npurun.tf1_compat import STARTUP_FOLDER, contrib, contrib_names
        count = 0
        for module in contrib_names.MODULES:
            module = importlib.import_module("tensorflow.contrib." + module)
            for name in contrib.equals_of(module.__name__[len("tensorflow.contrib."):]):
                count += 1
                if not hasattr(module, name):
                    print(module.__name__, name)
        for module in [*contrib_names.SAME_PACKAGES, *contrib_names.SAME_MODULES]:
            importlib.import_module("tensorflow.contrib." + module)
        assert count > 300, count
        """
    ).splitlines()
    allowed = set()
    if not HAS_KERAS_2:
        cells = contrib_names.MODULES["rnn"]["tensorflow.nn.rnn_cell"].split()
        allowed |= {"tensorflow.contrib.rnn " + cell for cell in cells}
    if not HAS_ESTIMATOR:
        names = contrib_names.MODULES["tpu"]["tensorflow.estimator.tpu"].split()
        allowed |= {"tensorflow.contrib.tpu " + name for name in names}
        allowed.add("tensorflow.contrib.data CheckpointInputPipelineHook")
    assert set(missing) == allowed


@pytest.mark.skipif(not VERSION_1, reason="compares with the real tf.contrib")
def test_every_name_of_contrib_that_is_listed_was_in_tensorflow_1():
    missing = python(
        """
        import importlib
        import tensorflow as tf
        from npurun.tf1_compat import STARTUP_FOLDER, contrib, contrib_names
        for name in [*contrib_names.SAME_PACKAGES, *contrib_names.SAME_MODULES]:
            if name not in ("layers.summaries", "framework.nest"):
                importlib.import_module("tensorflow.contrib." + name)
        for name in contrib_names.MODULES:
            module = getattr(tf.contrib, name, None)
            module = module or importlib.import_module("tensorflow.contrib." + name)
            print(*(name + "." + n for n in contrib.equals_of(name) if not hasattr(module, n)))
        """
    )
    assert missing.split() == []


def test_contrib_works_however_it_is_imported():
    output = python(
        """
        import numpy as np
        import tensorflow as tf
        import tensorflow.contrib as contrib
        import tensorflow.contrib.slim as slim
        from tensorflow.contrib import layers, slim as again
        from tensorflow.contrib.framework import arg_scope, add_arg_scope
        from tensorflow.contrib.framework.python.ops import variables
        from tensorflow.contrib.layers.python.layers import initializers
        from tensorflow.contrib.slim import nets
        from tensorflow.contrib.slim.nets import resnet_v1
        from tensorflow.contrib.slim.python.slim.data import dataset
        assert contrib is tf.contrib and slim is again is tf.contrib.slim
        assert layers is tf.contrib.layers and nets.resnet_v1 is resnet_v1
        assert resnet_v1.resnet_v1_50 and dataset.Dataset and variables.get_variables
        images = tf.placeholder(tf.float32, [None, 8, 8, 3])
        with arg_scope([slim.conv2d], weights_regularizer=layers.l2_regularizer(0.1)):
            net = slim.conv2d(images, 4, 3, weights_initializer=layers.xavier_initializer())
        net = layers.fully_connected(slim.flatten(net), 5)
        batch = tf.contrib.data.batch_and_drop_remainder(2)
        data = tf.data.Dataset.range(5).apply(batch)
        number = tf.compat.v1.data.make_one_shot_iterator(data).get_next()
        loss = tf.reduce_mean(net) + tf.add_n(tf.losses.get_regularization_losses())
        train = tf.contrib.training.create_train_op(
            loss, tf.train.GradientDescentOptimizer(0.1),
            global_step=tf.train.get_or_create_global_step())
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(train, {images: np.ones([2, 8, 8, 3])})
            print(session.run(net, {images: np.ones([2, 8, 8, 3])}).shape)
            print(session.run(number).tolist(), session.run(number).tolist())
            try:
                session.run(number)
            except tf.errors.OutOfRangeError:
                print("no remainder")
        """
    )
    assert output == "(2, 5)\n[0, 1] [2, 3]\nno remainder\n"


@on_version_2
@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("tf.contrib.crf", "tf.contrib.crf"),
        ("tf.contrib.crf.crf_decode", "tf.contrib.crf"),
        ("tf.contrib.training.HParams", "tf.contrib.training.HParams"),
        ("tf.contrib.slim.bow_encoder", "tf.contrib.slim.bow_encoder"),
        ("tf.contrib.layers.real_valued_column", "tf.contrib.layers.real_valued_column"),
        ("import tensorflow.contrib.seq2seq", "tf.contrib.seq2seq"),
        ("import tensorflow.contrib.seq2seq as s", "tf.contrib.seq2seq"),
        ("from tensorflow.contrib import seq2seq", "tf.contrib.seq2seq"),
        ("from tensorflow.contrib.seq2seq import x", "tf.contrib.seq2seq"),
        ("from tensorflow.contrib.slim import x", "tf.contrib.slim.x"),
        ("from tensorflow.contrib.slim.nets import x", "tf.contrib.slim.nets.x"),
        ("from tensorflow.contrib.data import x", "tf.contrib.data.x"),
    ],
)
def test_any_other_name_of_contrib_says_where_it_is(statement, name):
    output = contrib_answers()[statement]
    assert output.startswith(name + " has no equal in TensorFlow " + tf.__version__)
    assert "lane tf1.15 (TensorFlow 1.15 on Python 3.7)" in output


_answers = {}


def contrib_answers():
    """Runs all statements of the test above in one process."""
    if not _answers:
        marks = test_any_other_name_of_contrib_says_where_it_is.pytestmark
        (statements,) = [m.args[1] for m in marks if m.name == "parametrize"]
        output = run(
            """
            import json, sys
            import tensorflow as tf
            answers = {}
            for statement in json.loads(sys.argv[1]):
                try:
                    exec(statement)
                except (AttributeError, ImportError) as error:
                    answers[statement] = str(error)
            print(json.dumps(answers))
            """,
            arguments=[json.dumps([statement for statement, _ in statements])],
        ).stdout[0]
        _answers.update(json.loads(output))
    return _answers


@on_version_2
def test_without_tf_slim_the_package_to_install_is_named(tmp_path):
    (tmp_path / "tf_slim.py").write_text(
        "raise ModuleNotFoundError('No module named tf_slim', name='tf_slim')\n"
    )
    output = python(
        """
        import tensorflow as tf
        tf.contrib.data.map_and_batch  # needs no tf_slim
        for statement in ("tf.contrib.slim.conv2d", "import tensorflow.contrib.slim",
                          "from tensorflow.contrib.layers import conv2d"):
            try:
                exec(statement)
            except (AttributeError, ImportError) as error:
                print(error)
        """,
        PYTHONPATH=os.pathsep.join([STARTUP_FOLDER, str(tmp_path)]),
    ).splitlines()
    assert len(output) == 3
    for line in output:
        assert "needs the package tf_slim, which is not installed: pip install tf_slim" in line


def test_the_table_of_contrib_has_no_name_twice():
    for module, places in contrib_names.MODULES.items():
        listed = [entry.partition("=")[0] for text in places.values() for entry in text.split()]
        assert len(listed) == len(set(listed)) == len(contrib.equals_of(module))

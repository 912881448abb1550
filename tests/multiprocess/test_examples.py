"""The examples run, and N ranks on N shards train as one process on the joined batch."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest

from tests.harness import run_ranks

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Sums over shards associate differently than the sum over the joined batch; 40 steps of float32
# training amplify that. Measured differences stay below a tenth of this.
_TOLERANCE = 1e-3


def example(name):
    return os.path.join(_ROOT, "examples", name)


TENSORFLOW_1_EXAMPLES = [
    "tf1_session.py",
    "tf1_estimator.py",
    "tf1_keras.py",
    "tf1_loss_scale.py",
    "tf1_embedding.py",
    "tf1_iterations.py",
]
# Of sums in float32, over 40 steps; of products in float16 where the example has them. Measured
# differences are at most 9e-7, and 3e-3 in float16.
TOLERANCES = {"tf1_loss_scale.py": 2e-2}
FLOAT32_TOLERANCE = 1e-5


def train_once(name, ranks, folder, use_tf1):
    """Trains 40 steps; returns the final weights of rank 0, and the accuracy of all ranks."""
    weights_file = os.path.join(str(folder), "weights_%d_{rank}.npz" % ranks)
    arguments = ["--steps", "40", "--weights-file", weights_file]
    job = run_ranks(ranks, path=example(name), arguments=arguments, limit=180, tf1=use_tf1)
    job.expect_success()
    ends = [re.search(r"accuracy ([\d.]+), .* crc32 (\w+)", one).groups() for one in job.stdout]
    assert len(set(ends)) == 1, job.report()
    return np.load(weights_file.format(rank=0)), float(ends[0][0])


@pytest.mark.core
@pytest.mark.parametrize("name", TENSORFLOW_1_EXAMPLES)
def test_tensorflow_1_examples_train_as_one_process(
    name, tmp_path, tensorflow_major, has_estimator
):
    # TensorFlow 2.16 and later have neither tf.estimator nor Keras 2.
    if name in ("tf1_estimator.py", "tf1_keras.py") and not has_estimator:
        pytest.skip("this TensorFlow has no tf.estimator and no Keras 2")
    use_tf1 = tensorflow_major >= 2
    alone, accuracy = train_once(name, 1, tmp_path, use_tf1)
    assert accuracy > 0.75
    for ranks in (2, 4):
        together, _ = train_once(name, ranks, tmp_path, use_tf1)
        assert sorted(together) == sorted(alone)
        for key in alone:
            tolerance = TOLERANCES.get(name, FLOAT32_TOLERANCE)
            np.testing.assert_allclose(together[key], alone[key], atol=tolerance, err_msg=key)


def test_collectives():
    for ranks in (2, 4):
        job = run_ranks(ranks, path=example("collectives.py"), limit=240, fresh=True)
        job.expect_success()
        assert "all_to_all_v_c" in job.outputs[ranks - 1], job.report()


@pytest.mark.core
@pytest.mark.parametrize("ranks", [2, 4])
def test_groups(ranks):
    job = run_ranks(ranks, path=example("groups.py"), limit=240, fresh=True)
    job.expect_success()
    assert "equal one process's" in job.outputs[0], job.report()


@pytest.mark.parametrize("ranks", [2, 3])
def test_embedding(ranks, tensorflow_major):
    if tensorflow_major < 2:
        pytest.skip("the example is written for TensorFlow 2")
    job = run_ranks(ranks, path=example("embedding_alltoall.py"), limit=240, fresh=True)
    job.expect_success()
    assert "equal one process's" in job.outputs[0], job.report()


def train(name, ranks, folder, use_tf1):
    """Trains 40 steps; returns the weights after each step on rank 0, and all ranks' last lines."""
    weights_file = os.path.join(str(folder), "weights_%d_{rank}.npz" % ranks)
    job = run_ranks(
        ranks,
        path=example(name),
        arguments=["--steps", "40", "--weights-file", weights_file],
        limit=180,
        tf1=use_tf1,
        fresh=True,
    )
    job.expect_success()
    last_lines = [
        re.search(r"accuracy ([\d.]+) .* crc32 (\w+)", output).groups() for output in job.outputs
    ]
    assert len(set(last_lines)) == 1, job.report()
    return np.load(weights_file.format(rank=0)), float(last_lines[0][0])


@pytest.mark.core
@pytest.mark.parametrize("name", ["tf1_digits.py", "tf2_digits.py"])
def test_ranks_on_shards_train_as_one_process(name, tmp_path, tensorflow_major):
    if name == "tf2_digits.py" and tensorflow_major < 2:
        pytest.skip("the example is written for TensorFlow 2")
    use_tf1 = name == "tf1_digits.py" and tensorflow_major >= 2
    alone, accuracy = train(name, 1, tmp_path, use_tf1)
    assert accuracy > 0.8
    for ranks in (2, 4):
        together, _ = train(name, ranks, tmp_path, use_tf1)
        assert sorted(together) == sorted(alone)
        for key in alone:
            np.testing.assert_allclose(together[key], alone[key], atol=_TOLERANCE, err_msg=key)

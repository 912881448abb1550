"""The TensorFlow 2 examples train, and ranks end with the same weights, bit for bit."""

from __future__ import annotations

import os
import re

import numpy as np
import pytest
import tensorflow as tf

from tests.harness import run_ranks

MINOR = tuple(int(part) for part in tf.__version__.split(".")[:2])
pytestmark = pytest.mark.skipif(MINOR < (2, 4), reason="for TensorFlow 2")

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Sums over shards associate differently than the sum over the joined batch; see test_examples.py.
_TOLERANCE = 2e-3


def train(name, ranks, folder):
    weights_file = os.path.join(str(folder), "weights_%d_{rank}.npz" % ranks)
    arguments = ["--steps", "36", "--weights-file", weights_file]
    path = os.path.join(_ROOT, "examples", name)
    job = run_ranks(ranks, path=path, arguments=arguments, limit=240)
    job.expect_success()
    ends = [re.search(r"accuracy ([\d.]+), .* crc32 (\w+)", one).groups() for one in job.stdout]
    assert len(set(ends)) == 1, job.report()
    skipped = [re.findall(r"skipped (\d+) steps", one) for one in job.stdout]
    assert all(one == skipped[0] for one in skipped), skipped
    return np.load(weights_file.format(rank=0)), float(ends[0][0]), skipped[0]


@pytest.mark.core
def test_keras_trains_on_four_ranks_as_in_one_process(tmp_path):
    alone, accuracy, _ = train("tf2_keras.py", 1, tmp_path)
    assert accuracy > 0.8
    together, _, _ = train("tf2_keras.py", 4, tmp_path)
    assert sorted(together) == sorted(alone)
    for key in alone:
        np.testing.assert_allclose(together[key], alone[key], atol=_TOLERANCE, err_msg=key)


def test_ranks_that_scale_the_loss_skip_the_same_steps(tmp_path):
    _, accuracy, skipped = train("tf2_loss_scale.py", 2, tmp_path)
    assert accuracy > 0.8
    assert int(skipped[0]) >= 1, skipped

"""Every op, dtype, shape and rank count against NumPy, in sessions, tf.function and eager."""

from __future__ import annotations

import os
import re

import pytest

from tests.harness import run_ranks

_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "collective_matrix.py")


@pytest.mark.parametrize("mode", ["session", "function", "eager"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_matrix(ranks, mode, record_property):
    job = run_ranks(ranks, path=_SCRIPT, arguments=[mode], limit=420)
    job.expect_success()
    counts = {int(re.search(r"cases: (\d+)", output).group(1)) for output in job.outputs}
    assert counts == {3144}, job.report()
    record_property("cases_per_rank", re.search(r"cases: (\d+)", job.outputs[0]).group(1))
    print(re.search(r"cases: \d+", job.outputs[0]).group(0), "per rank, twice each")


@pytest.mark.core
@pytest.mark.parametrize("mode", ["session", "function", "eager"])
def test_matrix_on_two_ranks_in_every_lane(mode):
    run_ranks(2, path=_SCRIPT, arguments=[mode], limit=420).expect_success()

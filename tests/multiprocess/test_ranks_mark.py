"""Tests of collectives that are themselves ranks of a job, as users write them."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import numpy as np
import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

pytestmark = pytest.mark.core


@pytest.mark.ranks(2, timeout=150)
@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_all_ranks_get_the_reduction(reduction):
    import tensorflow.compat.v1 as tf

    from hccl.manage.api import get_rank_id, get_rank_size
    from npu_bridge.hccl import hccl_ops

    assert get_rank_size() == 2
    with tf.Graph().as_default(), tf.Session() as session:
        mine = tf.constant(np.full(3, get_rank_id() + 1, np.float32))
        result = session.run(hccl_ops.allreduce(mine, reduction))
    np.testing.assert_array_equal(result, np.full(3, 3 if reduction == "sum" else 2))


def test_the_tests_of_the_page_pass(tmp_path, tensorflow_major):
    if tensorflow_major < 2:
        pytest.skip("the page is for TensorFlow 2")
    with open(os.path.join(ROOT, "docs", "testing.md"), encoding="utf-8") as file:
        blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.MULTILINE | re.DOTALL)
    (tmp_path / "test_page.py").write_text("\n".join(blocks))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "npurun.pytest_plugin", "--rootdir", str(tmp_path)]
        + [str(tmp_path / "test_page.py")],
        # Not the source tree, which `-m` would take the packages from.
        cwd=str(tmp_path),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=400,
    )
    output = done.stdout.decode()
    assert " 3 passed" in output.splitlines()[-1], output

"""The code and the texts that README.md shows are what a reader gets."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def readme_blocks():
    """Returns the text of README.md's fenced blocks, in order."""
    with open(os.path.join(_ROOT, "README.md"), encoding="utf-8") as readme:
        return re.findall(r"^```\w*\n(.*?)^```$", readme.read(), re.MULTILINE | re.DOTALL)


def npurun(script):
    return subprocess.run(
        [sys.executable, "-m", "npurun", "-n", "2", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=120,
    )


def test_the_example_prints_what_the_readme_says(tmp_path, tensorflow_major):
    if tensorflow_major < 2:
        pytest.skip("the example is written for TensorFlow 2")
    code, printed = readme_blocks()[:2]
    script = tmp_path / "average.py"
    script.write_text(code)
    run = npurun(script)
    assert run.returncode == 0, run.stdout + run.stderr
    lines = [line for line in run.stdout.splitlines() if "rank" in line]
    assert sorted(lines) == sorted(printed.splitlines()), run.stdout + run.stderr


def test_a_mismatch_reads_as_the_readme_says(tmp_path):
    error = readme_blocks()[2]
    script = tmp_path / "mismatch.py"
    script.write_text(
        "import tensorflow.compat.v1 as tf\n"
        "tf.disable_eager_execution()\n"
        "from npu_bridge.hccl import hccl_ops\n"
        "from hccl.manage.api import get_rank_id\n"
        "with tf.Session() as session:\n"
        "    session.run(hccl_ops.allreduce(tf.zeros([2 + get_rank_id()]), 'sum'))\n"
    )
    run = npurun(script)
    assert run.returncode != 0
    expected = " ".join(error.split())
    assert expected.split(": ", 1)[1] in run.stdout + run.stderr, run.stdout + run.stderr

"""The scripts of docs/tf1.md print what the page says."""

from __future__ import annotations

import os
import re

import pytest

from tests.harness import run_ranks

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sections():
    """Returns of each section with a script its title, the script, and what that prints."""
    with open(os.path.join(_ROOT, "docs", "tf1.md"), encoding="utf-8") as page:
        parts = re.split(r"^## ", page.read(), flags=re.MULTILINE)[1:]
    for part in parts:
        blocks = re.findall(r"^```\w*\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
        if blocks:
            yield pytest.param(blocks[0], blocks[1], id=part.splitlines()[0])


@pytest.mark.core
@pytest.mark.parametrize(("script", "printed"), list(sections()))
def test_a_script_prints_what_the_page_says(script, printed, tensorflow_major, has_estimator):
    if not has_estimator and re.search("NPUEstimator|keras", script):
        pytest.skip("this TensorFlow has no tf.estimator and no Keras 2")
    shown = [int(rank) for rank in re.findall(r"^\[(\d)\] ", printed, re.MULTILINE)]
    ranks = max([1, *shown]) + 1 if "npu_init" in script else 1
    job = run_ranks(ranks, script, limit=120, tf1=tensorflow_major >= 2)
    if "Error" in printed:
        for rank in range(ranks):
            job.expect_error(rank, " ".join(printed.split()).split(": ", 1)[1])
        return
    job.expect_success()
    wanted = printed.splitlines()
    for rank in range(ranks):
        own = [line[4:] for line in wanted if line.startswith(f"[{rank}] ")]
        own = own or [line for line in wanted if not line.startswith("[")]
        if own:
            assert job.stdout[rank].splitlines() == own, job.report()

"""The scripts of docs/tf1.md, tf2.md and keras.md print what the pages say."""

from __future__ import annotations

import os
import re

import pytest

from tests.harness import run_ranks

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def sections():
    """Gives of each section with a script the page, the script, and what that prints."""
    for page in ("tf1.md", "tf2.md", "keras.md"):
        with open(os.path.join(_ROOT, "docs", page), encoding="utf-8") as file:
            parts = re.split(r"^## ", file.read(), flags=re.MULTILINE)[1:]
        for part in parts:
            blocks = re.findall(r"^```\w*\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)
            if blocks:
                title = f"{page}: {part.splitlines()[0]}"
                yield pytest.param(page, blocks[0], blocks[1], id=title)


@pytest.mark.core
@pytest.mark.parametrize(("page", "script", "printed"), list(sections()))
def test_a_script_prints_what_the_page_says(page, script, printed, tensorflow_major, has_estimator):
    if page == "tf1.md":
        if not has_estimator and re.search("NPUEstimator|keras", script):
            pytest.skip("this TensorFlow has no tf.estimator and no Keras 2")
    elif tensorflow_major < 2:
        pytest.skip("the page is about TensorFlow 2")
    shown = [int(rank) for rank in re.findall(r"^\[(\d)\] ", printed, re.MULTILINE)]
    ranks = max([1, *shown]) + 1 if re.search("npu_init|npu_device", script) else 1
    tf1 = page == "tf1.md" and tensorflow_major >= 2
    job = run_ranks(ranks, script, limit=120, tf1=tf1)
    if "Error: " in printed:
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

"""What make and CI lean on: nothing is installed twice, and no failure is lost in the count."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools import count_tests, environment, show_failures

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

PYTEST = "======== 2 failed, 10 passed, 1 skipped, 3 warnings, 1 error in 12.34s (0:00:12) ========"
CTEST = "75% tests passed, 1 tests failed out of 4"


def run_count(tmp_path, text, failed_parts=0):
    (tmp_path / "part.log").write_text(text)
    done = subprocess.run(
        [
            sys.executable,
            os.path.join(ROOT, "tools", "count_tests.py"),
            "--failed-parts",
            str(failed_parts),
            str(tmp_path / "part.log"),
        ],
        stdout=subprocess.PIPE,
        timeout=60,
    )
    return done.returncode, done.stdout.decode().splitlines()[-1]


def test_closing_lines_of_pytest_and_ctest_are_added_up():
    assert count_tests.count(PYTEST + "\n" + CTEST + "\n") == (13, 4, 1)
    coloured = "\x1b[32m===== \x1b[1m7 passed\x1b[0m in 0.10s =====\x1b[0m"
    assert count_tests.count(coloured) == (7, 0, 0)
    assert count_tests.count("100% tests passed, 0 tests failed out of 9") == (9, 0, 0)
    assert count_tests.count("100 passed in the street") == (0, 0, 0)


def test_the_last_line_and_exit_code_of_a_run(tmp_path):
    assert run_count(tmp_path, "==== 3 passed in 1.00s ====") == (0, "3 passed, 0 failed")
    assert run_count(tmp_path, PYTEST) == (1, "10 passed, 3 failed, 1 skipped")
    assert run_count(tmp_path, "==== 3 passed in 1.00s ====", 2) == (1, "3 passed, 2 failed")
    assert run_count(tmp_path, "nothing ran") == (1, "0 passed, 0 failed")


FAILED_PART = """collected 3 items
=================================== FAILURES ===================================
\x1b[31m___________________________ test_that_is_wrong ___________________________\x1b[0m
    many lines
E   assert 1 == 2
=========================== short test summary info ============================
FAILED tests/python/test_a.py::test_that_is_wrong - assert 1 == 2
==================== 1 failed, 2 passed in 0.10s ====================
50% tests passed, 1 tests failed out of 2
The following tests did not run:
	1 - large_test.Skipped (Skipped)

The following tests FAILED:
	2 - pool_test.PoolTest.Grows (Failed)
Errors while running CTest
"""


def test_what_failed_is_shown_without_the_rest():
    assert show_failures.failures(FAILED_PART, 1) == [
        "___________________________ test_that_is_wrong ___________________________",
        "E   assert 1 == 2",
        "The following tests FAILED:",
        "\t2 - pool_test.PoolTest.Grows (Failed)",
    ]


def test_the_end_of_a_part_without_tests_is_shown():
    lines = [f"line {i}" for i in range(100)]
    assert show_failures.failures("\n".join(lines), 5) == lines[-25:]


@pytest.fixture
def tree(tmp_path):
    for name in ("setup.py", "csrc/common/a.cc", "npu_device/_core/library.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    return tmp_path


def test_the_digest_sees_every_change_of_a_source(tree):
    digests = {environment.source_digest(str(tree))}
    (tree / "csrc/common/a.cc").write_text("2")
    digests.add(environment.source_digest(str(tree)))
    (tree / "csrc/common/b.cc").write_text("")
    digests.add(environment.source_digest(str(tree)))
    (tree / "csrc/common/b.cc").rename(tree / "csrc/common/c.cc")
    digests.add(environment.source_digest(str(tree)))
    (tree / "setup.py").unlink()
    digests.add(environment.source_digest(str(tree)))
    assert len(digests) == 5


def test_the_digest_passes_over_what_a_build_writes(tree):
    before = environment.source_digest(str(tree))
    for name in (
        "npu_device/_core/_npu_ops.so",
        "npu_device/_core/build_information.py",
        "npu_device/_core/__pycache__/library.cpython-311.pyc",
        "build/x.cc",
        "tests/python/test_x.py",
    ):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text("3")
    assert environment.source_digest(str(tree)) == before


def test_build_tools_come_from_pyproject():
    names = [text.split("=")[0].split(">")[0] for text in environment._build_requirements()]
    assert {"setuptools", "cmake", "ninja", "pybind11"} <= set(names)


def test_an_environment_that_make_did_not_make_is_left_alone(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").write_text("precious")
    done = subprocess.run(
        [
            sys.executable,
            os.path.join(ROOT, "tools", "environment.py"),
            str(tmp_path / "mine"),
            "--tensorflow",
            "none",
        ],
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert done.returncode == 1
    assert "was not made by make" in done.stderr.decode()
    assert (tmp_path / "mine" / "file").read_text() == "precious"

"""`@pytest.mark.ranks(n)`, as a user's tests see it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run_pytest(folder, text, *options):
    """Runs pytest on a file of tests that stands in `folder`, and returns what it printed."""
    (folder / "test_user.py").write_text("import os, time\nimport pytest\n" + textwrap.dedent(text))
    environment = dict(os.environ)
    paths = [ROOT, environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "npurun.pytest_plugin", "-ra", *options]
        + ["--rootdir", str(folder), str(folder / "test_user.py")],
        cwd=str(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
    )
    return done.stdout.decode()


def summary(output):
    return output.splitlines()[-1]


def test_a_test_passes_when_it_passes_on_all_ranks(tmp_path):
    output = run_pytest(
        tmp_path,
        """
        @pytest.mark.ranks(2)
        @pytest.mark.parametrize("value", ["a b/c::d[1]"])
        def test_ranks(tmp_path, value):
            assert os.environ["RANK_SIZE"] == "2"
            assert value == "a b/c::d[1]"
            other = {"0": "1", "1": "0"}[os.environ["RANK_ID"]]
            assert ("temporary_" + other) not in str(tmp_path)
            (tmp_path / "file").write_text("")

        def test_other():
            assert "RANK_ID" not in os.environ
        """,
    )
    assert "2 passed" in summary(output), output


def test_a_failure_shows_each_rank(tmp_path):
    output = run_pytest(
        tmp_path,
        """
        @pytest.mark.ranks(3)
        def test_ranks():
            print("hello from", os.environ["RANK_ID"])
            assert os.environ["RANK_ID"] != "1", "not here"
        """,
    )
    assert "1 failed" in summary(output), output
    assert "Passed on ranks 0,2; failed on rank 1." in output, output
    assert "AssertionError: not here" in output, output
    for rank in range(3):
        section = rf"-+ rank {rank} -+\nhello from {rank}\n"
        assert re.search(section, output), output


def test_a_rank_that_waits_for_ever_shows_where(tmp_path):
    output = run_pytest(
        tmp_path,
        """
        @pytest.mark.ranks(2, timeout=10)
        def test_ranks():
            if os.environ["RANK_ID"] == "1":
                time.sleep(1000)
        """,
    )
    assert "1 failed" in summary(output), output
    assert "did not end within 10 s" in output, output
    assert "Passed on rank 0." in output, output
    assert re.search(r'test_user.py", line \d+ in test_ranks', output), output


def test_a_rank_that_dies_is_a_failure(tmp_path):
    output = run_pytest(
        tmp_path,
        """
        @pytest.mark.ranks(2)
        def test_ranks():
            if os.environ["RANK_ID"] == "1":
                os._exit(7)
        """,
    )
    assert "1 failed" in summary(output), output
    assert "rank 1 ended without a result" in output, output
    assert "npurun: rank 1 ended with exit code 7." in output, output


def test_skips_and_expected_failures_are_those_of_all_ranks(tmp_path):
    output = run_pytest(
        tmp_path,
        """
        @pytest.mark.ranks(2)
        def test_skipped():
            pytest.skip("no such thing here")

        @pytest.mark.ranks(2)
        @pytest.mark.xfail(reason="known")
        def test_expected():
            assert False

        @pytest.mark.ranks(2)
        def test_skipped_on_one():
            if os.environ["RANK_ID"] == "1":
                pytest.skip("only here")
        """,
    )
    assert "1 failed, 1 skipped, 1 xfailed" in summary(output), output
    assert "no such thing here" in output, output
    assert "Passed on rank 0; skipped on rank 1." in output, output


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        ("ranks", "the mark must be ranks(n)"),
        ("ranks('x')", "must be an integer"),
        ("ranks(0)", "must be an integer"),
        ("ranks(2, limit=3)", "the mark must be ranks(n)"),
        ("ranks(2, timeout=-1)", "the timeout is -1"),
    ],
)
def test_a_wrong_mark_is_told(tmp_path, mark, text):
    output = run_pytest(tmp_path, f"@pytest.mark.{mark}\ndef test_ranks(): pass\n")
    assert "1 failed" in summary(output), output
    assert text in output, output


def test_broken_fixtures_and_files_of_options_are_heeded(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -k ranks -m 'not slow'\n")
    output = run_pytest(
        tmp_path,
        """
        @pytest.fixture
        def broken():
            raise RuntimeError("no fixture")

        @pytest.mark.ranks(2)
        def test_ranks(broken):
            pass
        """,
        "-c",
        str(tmp_path / "pytest.ini"),
    )
    assert "1 failed" in summary(output), output
    assert "Failed on ranks 0,1." in output, output
    assert "RuntimeError: no fixture" in output, output

"""The harness of the multi-process tests: it starts, ends and shows what it says."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.harness import JobError, run_ranks, start_ranks
from tests.harness.program import ROOT

HELLO = """
    import os, sys
    print("rank", os.environ["RANK_ID"], "of", os.environ["RANK_SIZE"])
    print("to errors", file=sys.stderr)
"""
WAIT_FOR_INPUT = """
    import sys
    print("ready")
    sys.stdin.read()
    print("done")
"""
SLEEP = """
    import time
    def waits_here():
        print("asleep")
        time.sleep(600)
    waits_here()
"""


STARTS = pytest.mark.parametrize(
    "start",
    [{"fresh": True}, {"fresh": False}, {"launcher": "npurun"}],
    ids=["fresh", "forked", "npurun"],
)


@pytest.fixture(params=["fresh", "forked"])
def fresh(request):
    """Whether ranks are new interpreters, or forked from the server."""
    return request.param == "fresh"


def describe_rank(factor):
    """Run by ranks: see test_a_function_runs_on_every_rank."""
    rank = int(os.environ["RANK_ID"])
    return {"rank": rank, "value": rank * factor}


@STARTS
def test_every_rank_runs_and_its_output_is_kept_apart(start):
    job = run_ranks(3, HELLO, limit=60, **start)
    job.expect_success()
    assert job.stdout == [f"rank {rank} of 3\n" for rank in range(3)]
    assert job.stderr == ["to errors\n"] * 3
    assert sorted(job.outputs[2].splitlines()) == ["rank 2 of 3", "to errors"]


def test_ranks_have_what_a_shell_loop_gives_them(fresh):
    script = """
        import os
        print(os.getppid(), os.getsid(0), os.getpgrp())
        print("JOB_ID" in os.environ, "CM_CHIEF_IP" in os.environ, os.environ.get("EXTRA"))
    """
    os.environ["CM_CHIEF_IP"] = "10.0.0.1"  # of a job that the tests run in
    try:
        jobs = [
            run_ranks(2, script, limit=30, fresh=fresh, environment={"EXTRA": "1"})
            for _ in range(2)
        ]
    finally:
        del os.environ["CM_CHIEF_IP"]
    for job in jobs:
        job.expect_success()
        assert job.outputs[0] == job.outputs[1]
        assert job.outputs[0].splitlines()[1] == "True False 1"
    assert jobs[0].name != jobs[1].name
    assert jobs[0].outputs[0] != jobs[1].outputs[0]


def test_the_environment_can_be_changed_for_all_and_for_one(fresh):
    script = 'import os; print(*(os.environ.get(k) for k in ("RANK_ID", "JOB_ID", "A")))\n'
    job = run_ranks(
        2,
        script,
        limit=30,
        fresh=fresh,
        environment={"JOB_ID": None, "A": "all"},
        rank_environment={1: {"A": "one", "RANK_ID": "0"}},
    )
    job.expect_success()
    assert job.outputs == ["0 None all\n", "0 None one\n"]


@STARTS
def test_a_function_runs_on_every_rank(start):
    job = run_ranks(2, describe_rank, arguments=[10], limit=60, **start)
    job.expect_success()
    assert job.results == [{"rank": 0, "value": 0}, {"rank": 1, "value": 10}]


def test_a_script_is_run_from_its_path_with_arguments(fresh, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.argv[1:])")
    job = run_ranks(1, path=str(script), arguments=["-n", 3], limit=30, fresh=fresh)
    job.expect_success()
    assert job.outputs[0] == "['-n', '3']\n"


def test_a_failure_shows_what_every_rank_wrote(fresh):
    script = """
        import os, sys
        print("I am", os.environ["RANK_ID"])
        if os.environ["RANK_ID"] == "1":
            raise KeyError("no\\n  such key")
    """
    job = run_ranks(2, script, limit=30, fresh=fresh)
    with pytest.raises(JobError) as caught:
        job.expect_success()
    for text in ("I am 0", "I am 1", "KeyError", "rank 0 (exit code 0)", "rank 1 (exit code 1)"):
        assert text in str(caught.value)
    job.expect_exit(0, 0)
    job.expect_exit(1, 1)
    job.expect_failure(1)
    job.expect_error(1, "no\\n such  key")
    job.expect_exception(1, "KeyError", "such key")
    for wrong in (
        lambda: job.expect_failure(0),
        lambda: job.expect_exit(0, 1),
        lambda: job.expect_error(0, "I am 0"),
        lambda: job.expect_error(1, "another text"),
        lambda: job.expect_exception(1, "ValueError"),
        lambda: job.expect_exception(1, "KeyError", "another text"),
    ):
        with pytest.raises(JobError, match="I am 1"):
            wrong()


def test_at_its_limit_a_job_is_killed_and_says_where_it_was(fresh):
    job = run_ranks(2, SLEEP, limit=5, fresh=fresh)
    for expectation in (
        job.expect_success,
        lambda: job.expect_failure(0),
        lambda: job.expect_exit(0, -signal.SIGABRT),
    ):
        with pytest.raises(JobError, match="killed at its limit"):
            expectation()
    assert "waits_here" in job.stderr[0]
    assert "waits_here" in job.stderr[1]
    job.expect_nothing_left()


def test_at_its_limit_a_job_that_npurun_started_is_killed():
    job = run_ranks(2, SLEEP, limit=3, launcher="npurun")
    with pytest.raises(JobError, match="killed at its limit"):
        job.expect_success()
    job.expect_nothing_left()


def test_at_its_limit_stopped_ranks_and_their_detached_children_are_killed(fresh):
    script = """
        import os, signal, subprocess, sys
        subprocess.Popen(["sleep", "600"], start_new_session=True)
        print("stopping")
        os.kill(os.getpid(), signal.SIGSTOP)
    """
    job = run_ranks(1, script, limit=5, fresh=fresh)
    with pytest.raises(JobError, match="killed at its limit"):
        job.expect_success()
    assert job.exit_codes == [-signal.SIGKILL]
    job.expect_nothing_left()


@STARTS
def test_a_rank_is_killed_when_it_has_printed_a_line(start):
    with start_ranks(2, SLEEP, limit=30, **start) as job:
        assert job.wait_for_line(1, "sleep") == "asleep"
        job.kill(1)
        if "launcher" not in start:
            assert job.wait_for_exit(1) == -signal.SIGKILL
            job.kill(0)
    if "launcher" in start:
        job.expect_launcher_exit(128 + signal.SIGKILL)
    else:
        job.expect_exit(1, -signal.SIGKILL)
    job.expect_nothing_left()


def test_a_rank_is_stopped_and_resumed(fresh):
    with start_ranks(1, WAIT_FOR_INPUT, limit=30, fresh=fresh) as job:
        job.wait_for_line(0, "ready")
        job.stop(0)
        _, status = wait_until_stopped(job.process_ids[0])
        assert status == "T"
        job.close_input(0)
        job.resume(0)
        job.wait_for_line(0, "done")
    job.expect_success()


def wait_until_stopped(pid):
    """Reads a process's state until a signal on its way has arrived."""
    while True:
        with open(f"/proc/{pid}/stat") as file:
            state = file.read().rpartition(")")[2].split()[0]
        if state not in "RSD":
            return pid, state


def test_a_rank_is_interrupted(fresh):
    with start_ranks(1, SLEEP, limit=30, fresh=fresh) as job:
        job.wait_for_line(0, "asleep")
        job.interrupt(0)
    job.expect_exception(0, "KeyboardInterrupt")


def test_waiting_for_a_line_that_never_comes_ends_with_the_rank():
    with start_ranks(1, HELLO, limit=30) as job, pytest.raises(JobError, match="rank 0 of 1"):
        job.wait_for_line(0, "never")


def test_waiting_for_the_second_line():
    script = "for n in range(3): print('step', n)\n"
    with start_ranks(1, script, limit=30) as job:
        assert job.wait_for_line(0, "step", count=2) == "step 1"
    job.expect_success()


def test_what_is_written_just_before_the_end_is_seen(fresh):
    script = "import os; os.write(1, b'x' * 60000 + b'last'); os._exit(3)\n"
    job = run_ranks(4, script, limit=30, fresh=fresh)
    for rank in range(4):
        job.expect_exit(rank, 3)
        assert job.outputs[rank].endswith("xlast")


def test_bytes_that_are_no_text_are_shown():
    job = run_ranks(1, "import os; os.write(1, b'a\\xff\\n')\n", limit=30)
    job.expect_success()
    assert job.outputs == ["a\ufffd\n"]


def test_a_process_that_is_left_is_found_and_killed(fresh, monkeypatch):
    monkeypatch.setattr("tests.harness.runner.SETTLE_SECONDS", 0.2)
    script = """
        import subprocess
        devnull = subprocess.DEVNULL
        child = subprocess.Popen(["sleep", "600"], stdout=devnull, stderr=devnull,
                                 start_new_session=True)
        print(child.pid)
    """
    job = run_ranks(1, script, limit=30, fresh=fresh)
    with pytest.raises(JobError, match="sleep 600"):
        job.expect_success()
    with pytest.raises(JobError, match="sleep 600"):
        job.expect_nothing_left()
    wait_until_ended(int(job.outputs[0]))


@pytest.mark.parametrize("where", ["tempfile.mkstemp()", "tempfile.mkstemp(dir='/dev/shm')"])
def test_a_file_that_is_left_is_found(fresh, where, monkeypatch):
    monkeypatch.setattr("tests.harness.leftovers.new_since.__defaults__", (0.2,))
    script = f"import tempfile; print(tempfile.tempdir, {where}[1])\n"
    job = run_ranks(1, script, limit=30, fresh=fresh)
    job.expect_success()
    path = job.outputs[0].split()[1]
    try:
        with pytest.raises(JobError, match=os.path.basename(path)):
            job.expect_nothing_left()
    finally:
        if os.path.exists(path):
            os.remove(path)


def test_ranks_end_when_the_test_process_is_killed(fresh, tmp_path):
    code = (
        f"import sys; sys.path.append({ROOT!r})\n"
        "from tests.harness import start_ranks\n"
        f"job = start_ranks(2, {SLEEP!r}, limit=60, fresh={fresh})\n"
        "for rank in range(2): job.wait_for_line(rank, 'asleep')\n"
        "print(*job.process_ids, flush=True)\n"
        "job.wait()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        env=dict(os.environ, TMPDIR=str(tmp_path)),
    ) as test:
        ranks = [int(pid) for pid in test.stdout.readline().split()]
        assert len(ranks) == 2
        test.kill()
    for pid in ranks:
        wait_until_ended(pid)
    assert os.listdir(str(tmp_path)) == []


def wait_until_ended(pid):
    """Returns when a process that was killed is gone."""
    while True:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] in "ZX":
                    return
        except (FileNotFoundError, ProcessLookupError):
            return


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"script": HELLO, "path": "x.py"},
        {"script": HELLO, "launcher": "mpirun"},
        {"script": HELLO, "options": ["--no-color"]},
        {"script": HELLO, "launcher": "npurun", "rank_environment": {0: {}}},
        {"path": "/no/such/script.py"},
        {"script": lambda: None},
    ],
)
def test_wrong_use_is_refused(options):
    with pytest.raises(ValueError):
        run_ranks(1, limit=10, **options)

"""npurun: how jobs end, by themselves, by signals and by failures."""

from __future__ import annotations

import os
import re
import signal
import tempfile

import pytest

from tests.harness import leftovers, processes, run_ranks, start_ranks
from tests.harness.command import run_npurun, write_script
from tests.harness.transcript import LAUNCHER

SLEEP = "import time; print('asleep'); time.sleep(600)\n"
# Lives through the first signals, as a script does that takes its time to save a checkpoint.
STUBBORN = """
    import signal, time
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: print("got", signal.Signals(number).name))
    print("ready")
    while True:
        time.sleep(0.1)
        print("tick")
"""


def test_the_first_failure_ends_the_others_and_is_shown_last():
    code = """
        import os, sys, time
        if os.environ["RANK_ID"] == "2":
            try:
                {}["layer"]
            except KeyError as error:
                raise ValueError("no such layer") from error
        time.sleep(120)
    """
    # Sleepers take 120 s: that they are ended is what keeps the job below its limit.
    job = run_ranks(4, code, limit=30, launcher="npurun")
    job.expect_launcher_exit(1)
    assert job.stderr[2].count("ValueError: no such layer") == 2
    says = job.launcher_output.splitlines()
    assert says[0] == "npurun: ranks 0,1,3 still ran after rank 2 failed, and got SIGTERM."
    assert says[-1] == "npurun: rank 2 ended with exit code 1."
    # The whole chain of tracebacks stands at the end once more.
    again = job.stderr[2][len(job.stderr[2]) // 2 :]
    assert again.count("Traceback") == 2
    assert "KeyError: 'layer'" in again
    job.expect_nothing_left()


def test_the_last_lines_name_the_rank_and_come_last(tmp_path):
    path = write_script(
        tmp_path,
        "import os, sys, time\n"
        "if os.environ['RANK_ID'] == '1': sys.exit('reason')\n"
        "time.sleep(120)\n",
    )
    result = run_npurun("-n", "2", path)
    assert result.stderr.decode().splitlines()[-3:] == [
        "npurun: the last lines of rank 1, which failed first:",
        "[1] reason",
        "npurun: rank 1 ended with exit code 1.",
    ]


def test_ranks_that_do_not_listen_to_sigterm_are_killed():
    code = """
        import os, signal, sys
        if os.environ["RANK_ID"] == "0":
            sys.exit(7)
        signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL})
        while True:
            pass
    """
    job = run_ranks(2, code, limit=30, launcher="npurun")
    job.expect_launcher_exit(7)
    assert "rank 1 then SIGKILL" in job.launcher_output
    job.expect_nothing_left()


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("sys.exit(3)", 3),
        ("os._exit(255)", 255),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.abort()", 134),
        ("signal.signal(40, signal.SIG_DFL); os.kill(os.getpid(), 40)", 168),
    ],
)
def test_the_exit_code_is_the_failed_rank_s(end, code):
    job = run_ranks(
        2,
        f"import os, signal, sys, time\nif os.environ['RANK_ID'] == '1': {end}\ntime.sleep(120)\n",
        limit=30,
        launcher="npurun",
    )
    job.expect_launcher_exit(code)
    assert f"exit code {code}" in job.launcher_output.splitlines()[-1]


def test_ranks_that_fail_by_themselves_soon_after_are_named(tmp_path):
    # Rank 0 sees that its peer has gone and fails, as ranks do in a collective.
    os.mkfifo(str(tmp_path / "fifo"))
    code = """
        import os, sys
        if os.environ["RANK_ID"] == "1":
            fifo = open(sys.argv[1], "wb")
            os._exit(9)
        open(sys.argv[1], "rb").read()
        sys.exit("rank 1 is gone")
    """
    job = run_ranks(2, code, limit=30, launcher="npurun", arguments=[tmp_path / "fifo"])
    assert job.exit_code in (1, 9)  # the order of two ends this close to each other is open
    assert re.search(r"rank [01] failed after rank [01]\.", job.launcher_output)
    assert "rank 1 is gone" in job.stderr[0]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_to_npurun_reach_all_ranks(number):
    # npurun leaves a signal alone that was ignored when it started, as one under nohup.
    before = signal.signal(
        number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    )
    try:
        check_that_a_signal_reaches_all_ranks(number)
    finally:
        signal.signal(number, before)


def check_that_a_signal_reaches_all_ranks(number):
    with start_ranks(4, SLEEP, limit=30, launcher="npurun") as job:
        for rank in range(4):
            job.wait_for_line(rank, "asleep")
        job.send_launcher(number)
    job.expect_launcher_exit(128 + number)
    assert f"{number.name} sent to all ranks" in job.launcher_output
    if number == signal.SIGINT:
        assert all("KeyboardInterrupt" in errors for errors in job.stderr)
    job.expect_nothing_left()


def test_a_script_that_takes_the_signal_well_succeeds():
    code = """
        import signal, sys
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
        print("ready")
        signal.pause()
    """
    with start_ranks(2, code, limit=30, launcher="npurun") as job:
        for rank in range(2):
            job.wait_for_line(rank, "ready")
        job.send_launcher(signal.SIGTERM)
    job.expect_launcher_exit(0)


def test_a_second_signal_kills():
    with start_ranks(2, STUBBORN, limit=30, launcher="npurun") as job:
        for rank in range(2):
            job.wait_for_line(rank, "ready")
        job.send_launcher(signal.SIGINT)
        for rank in range(2):
            job.wait_for_line(rank, "got SIGINT")
            job.wait_for_line(rank, "tick", count=job.stdout[rank].count("tick") + 10)
        job.send_launcher(signal.SIGINT)
    job.expect_launcher_exit(128 + signal.SIGINT)
    assert "Ranks 0,1 had to be killed" in job.launcher_output
    job.expect_nothing_left()


def test_one_request_that_comes_twice_kills_nobody():
    # `timeout` sends its signal to the command and then to the command's group.
    with start_ranks(1, STUBBORN, limit=30, launcher="npurun") as job:
        job.wait_for_line(0, "ready")
        for _ in range(3):
            job.send_launcher(signal.SIGTERM)
        job.wait_for_line(0, "got SIGTERM")
        job.wait_for_line(0, "tick", count=job.stdout[0].count("tick") + 5)
        job.send_launcher(signal.SIGINT)
    job.expect_launcher_exit(128 + signal.SIGTERM)


def test_ranks_that_do_not_end_after_a_signal_are_killed():
    options = ["--grace", "1"]
    with start_ranks(2, STUBBORN, limit=30, launcher="npurun", options=options) as job:
        job.wait_for_line(0, "ready")
        job.wait_for_line(1, "ready")
        job.send_launcher(signal.SIGTERM)
    job.expect_launcher_exit(128 + signal.SIGTERM)
    assert "they have 1 s" in job.launcher_output
    assert "had to be killed" in job.launcher_output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGQUIT, signal.SIGSEGV])
def test_ranks_end_when_npurun_dies(number):
    with start_ranks(3, STUBBORN, limit=30, launcher="npurun") as job:
        for rank in range(3):
            job.wait_for_line(rank, "ready")
        job.send_launcher(number)
    job.expect_launcher_exit(-number)
    job.expect_nothing_left()


def test_a_rank_that_starts_while_npurun_dies_ends_too():
    # At whatever moment of its start the launcher is killed, no rank may be left.
    for _ in range(10):
        with start_ranks(8, SLEEP, limit=30, launcher="npurun") as job:
            while not processes.of_job(job.name):
                pass
            job.send_launcher(signal.SIGKILL)
        job.expect_launcher_exit(-signal.SIGKILL)
        assert not job.runner.left_processes, job.report()


def test_interrupts_leave_nothing_behind():
    before = leftovers.snapshot()
    for _ in range(20):
        with start_ranks(4, SLEEP, limit=30, launcher="npurun") as job:
            job.wait_for_line(3, "asleep")
            job.send_launcher(signal.SIGINT)
        job.expect_launcher_exit(128 + signal.SIGINT)
        assert not job.runner.left_processes, job.report()
        assert not job.left_files
    assert not leftovers.new_since(before)


def test_what_a_rank_has_started_ends_with_it():
    code = """
        import subprocess
        subprocess.Popen(["sleep", "600"])
        print("started")
    """
    job = run_ranks(2, code, limit=30, launcher="npurun")
    job.expect_success()
    job.expect_nothing_left()


def test_what_a_rank_has_started_may_tidy_up():
    # As multiprocessing's resource tracker does, which removes shared memory after its parent.
    code = """
        import os, sys
        folder = sys.argv[1]
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)  # returns when the parent has ended
            open(os.path.join(folder, "tidy" + os.environ["RANK_ID"]), "w").close()
    """
    with tempfile.TemporaryDirectory(prefix=leftovers.JOB_FOLDER_PREFIX) as folder:
        run_ranks(2, code, limit=30, arguments=[folder], launcher="npurun").expect_success()
        assert sorted(os.listdir(folder)) == ["tidy0", "tidy1"]


def test_a_daemon_that_keeps_the_output_open_does_not_keep_npurun(tmp_path):
    path = write_script(
        tmp_path,
        "import subprocess\nprint(subprocess.Popen(['sleep', '600'], start_new_session=True).pid)",
    )
    result = run_npurun("-n", "1", path)
    os.kill(int(result.stdout.split()[1]), signal.SIGKILL)
    assert result.returncode == 0


def test_five_jobs_at_once_do_not_mix():
    code = "import os; print(os.environ['JOB_ID'], os.environ['RANK_TABLE_FILE'])\n"
    jobs = [start_ranks(2, code, limit=60, launcher="npurun") for _ in range(5)]
    seen = set()
    for job in jobs:
        job.expect_success()
        assert job.outputs[0] == job.outputs[1]
        seen.add(job.outputs[0])
    assert len(seen) == 5


def test_ctrl_z_stops_the_ranks_and_fg_lets_them_go_on():
    with start_ranks(2, STUBBORN, limit=30, launcher="npurun") as job:
        for rank in range(2):
            job.wait_for_line(rank, "tick")
        pids = job.process_ids
        launcher = job.runner.process_id(LAUNCHER)
        job.send_launcher(signal.SIGTSTP)
        for pid in (*pids, launcher):
            wait_for_state(pid, "T")
        job.send_launcher(signal.SIGCONT)
        for rank in range(2):
            job.wait_for_line(rank, "tick", count=job.stdout[rank].count("tick") + 3)
        job.send_launcher(signal.SIGKILL)
    job.expect_launcher_exit(-signal.SIGKILL)


def wait_for_state(pid, state):
    while True:
        with open(f"/proc/{pid}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == state:
                return


@pytest.mark.core
def test_tensorflow_keeps_to_the_bound_on_threads():
    code = """
        import os
        import tensorflow.compat.v1 as tf
        tf.disable_eager_execution()
        with tf.Session() as session:
            session.run(tf.matmul(tf.ones([64, 64]), tf.ones([64, 64])))
        print("threads:", len(os.listdir("/proc/self/task")))
    """
    counts = {}
    for bound in ("1", "16"):
        names = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
        environment = dict.fromkeys(names, bound)
        job = run_ranks(1, code, limit=120, launcher="npurun", environment=environment)
        job.expect_success()
        counts[bound] = int(re.search(r"threads: (\d+)", job.outputs[0]).group(1))
    assert counts["1"] < counts["16"]

"""Starts real ranks for tests, ends them in time, and shows what each of them wrote.

    from tests.harness import run_ranks

    def test_sum():
        job = run_ranks(4, SCRIPT, limit=60)
        job.expect_success()
        assert "10.0" in job.outputs[0]

What ranks run is the text of a script, `path=` of one, or a function at the top level of a test
file: each rank calls it, and what it returns (plain values, NumPy arrays) is in job.results.

Ranks are started as a shell script starts them, which exports RANK_ID, RANK_SIZE and a fresh
JOB_ID; or by npurun (launcher="npurun", with its options). `environment` changes what they find,
and None removes a variable. What describes a job in the test's own environment does not reach
them. Each has a standard input of its own, which is open until job.close_input().

Where nothing speaks against it, ranks that a shell loop starts are forked from a process that has
imported TensorFlow (fork_server.py says what a script could notice), which saves each of them
seconds. fresh=True starts new interpreters, as users do: for tests of starting and ending, and for
what could depend on the order of a set of strings, which differs between interpreters.

`limit` is a number of seconds after which everything that belongs to the job is killed and
expectations fail. It bounds a test that hangs; nothing may depend on how long a job takes. Ranks
that are killed this way first write the stack of each of their Python threads.

To do something while ranks run, start them and wait for what they print, never for time to pass:

    with start_ranks(2, SCRIPT, limit=60) as job:
        job.wait_for_line(1, "in the loop")
        job.kill(1)  # or stop, resume, interrupt, send, close_input
        job.wait()
    job.expect_exit(1, -signal.SIGKILL)
    job.expect_error(0, "rank 1")
    job.expect_nothing_left()

A failed expectation raises JobError, an AssertionError that shows every rank's output.
"""

from tests.harness.job import Job, JobError, run_ranks, start_ranks

__all__ = ["Job", "JobError", "run_ranks", "start_ranks"]

"""Starts, ends and deaths: what the others see, and what is left behind."""

from __future__ import annotations

import re

import pytest

from tests.harness import run_ranks, start_ranks
from tests.multiprocess import scripts


def test_a_killed_rank_ends_the_others_with_an_exception():
    script = scripts.graph(
        """
        total = hccl_ops.allreduce(tf.ones([1000]), "sum")
        with tf.Session() as session:
            step = 0
            while True:
                session.run(total)
                if step == 10:
                    say("running")
                step += 1
        """
    )
    with start_ranks(4, script, limit=150, fresh=True) as job:
        job.wait_for_line(1, "running")
        job.kill(1)
        job.wait()
    for rank in (0, 2, 3):
        job.expect_error(rank, "rank 1")
        job.expect_error(rank, "InternalError")
    job.expect_nothing_left()


def test_a_rank_that_exits_while_another_waits():
    script = scripts.graph(
        """
        total = hccl_ops.allreduce(tf.ones([4]), "sum")
        with tf.Session() as session:
            session.run(total)
            if rank == 0:
                sys.exit(1)
            session.run(total)
        """
    )
    job = run_ranks(2, script, limit=240, fresh=True)
    assert job.exit_codes[0] == 1, job.report()
    job.expect_error(1, "rank 0")


def test_shutdown_and_start_again():
    script = scripts.graph(
        """
        from npu_bridge.estimator import npu_ops
        for cycle in range(3):
            with tf.Graph().as_default(), tf.Session() as session:
                session.run(npu_ops.initialize_system())
                create_group("pair", 2, [0, 1])
                got = session.run(hccl_ops.allreduce(tf.ones([2]) * (cycle + 1), "sum",
                                                     group="pair"))
                assert got.tolist() == [2.0 * (cycle + 1)] * 2, got
                session.run(npu_ops.shutdown_system())
        """
    )
    run_ranks(2, script, limit=150, fresh=True).expect_success()


def test_shutdown_with_a_pending_op_ends_it_with_a_message():
    script = scripts.graph(
        """
        import threading
        from npu_bridge.estimator import npu_ops
        total = hccl_ops.allreduce(tf.ones([2]), "sum")
        session = tf.Session()
        shutdown = npu_ops.shutdown_system()
        session.run(hccl_ops.allreduce(tf.ones([1]), "sum"))
        if rank == 0:
            # Late enough that the op is pending most of the time; right also if it is not.
            threading.Timer(1.0, lambda: session.run(shutdown)).start()
            session.run(total)
        else:
            sys.stdin.read()  # until rank 0 is gone
        """
    )
    with start_ranks(2, script, limit=240, fresh=True) as job:
        job.wait_for_exit(0)
        job.close_input(1)
        job.wait()
    job.expect_error(0, "shut")


def test_two_jobs_with_one_job_id_do_not_mix():
    script = scripts.graph(
        """
        with tf.Session() as session:
            got = session.run(hccl_ops.allreduce(tf.constant([float(sys.argv[1])]), "sum"))
        assert got[0] == 2 * float(sys.argv[1]), got
        """
    )
    jobs = [
        start_ranks(
            2,
            script,
            arguments=[str(number)],
            limit=150,
            fresh=True,
            environment={"JOB_ID": "same"},
        )
        for number in (1, 100)
    ]
    for job in jobs:
        job.wait()
        job.expect_success()


def test_five_jobs_at_once_without_settings():
    script = scripts.graph(
        """
        with tf.Session() as session:
            for _ in range(5):
                got = session.run(hccl_ops.allreduce(tf.constant([rank + 1.0]), "sum"))
                assert got[0] == 3.0, got
        """
    )
    jobs = [
        start_ranks(2, script, limit=240, fresh=True, environment={"JOB_ID": None})
        for _ in range(5)
    ]
    for job in jobs:
        job.wait()
        job.expect_success()


@pytest.mark.parametrize("rank_id", [0, 1])
def test_a_rank_id_claimed_twice(rank_id):
    script = scripts.graph(
        """
        with tf.Session() as session:
            session.run(hccl_ops.allreduce(tf.ones([1]), "sum"))
        """
    )
    job = run_ranks(2, script, limit=150, fresh=True, environment={"RANK_ID": str(rank_id)})
    for rank in range(2):
        job.expect_error(rank, "JOB_ID")
        for process_id in job.process_ids:
            job.expect_error(rank, str(process_id))


def test_eight_ranks_on_few_cores_do_not_crawl():
    script = scripts.graph(
        """
        total = hccl_ops.allreduce(tf.ones([16]), "sum")
        with tf.Session() as session:
            for _ in range(200):
                session.run(total)
        """
    )
    run_ranks(8, script, limit=240, fresh=True).expect_success()


def test_interrupt_ends_a_waiting_rank():
    script = scripts.graph(
        """
        total = hccl_ops.allreduce(tf.ones([4]), "sum")
        other = hccl_ops.allreduce(tf.ones([1]), "sum")
        session = tf.Session()
        session.run(other)
        if rank == 0:
            say("waiting")
            session.run(total)
        else:
            sys.stdin.read()
        """
    )
    with start_ranks(2, script, limit=240, fresh=True) as job:
        job.wait_for_line(0, "waiting")
        job.interrupt(0)
        job.wait_for_exit(0)
        job.close_input(1)
        job.wait()
    assert job.exit_codes[0] != 0, job.report()
    job.expect_error(0, "KeyboardInterrupt")


def test_a_forked_child_is_told_that_it_cannot_take_part():
    script = scripts.graph(
        """
        session = tf.Session()
        session.run(hccl_ops.allreduce(tf.ones([1]), "sum"))
        child = os.fork()
        if child == 0:
            try:
                create_group("forked", size, list(range(size)))
            except Exception as error:
                say("refused:", error)
                os._exit(0)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert status == 0, status
        assert session.run(hccl_ops.allreduce(tf.ones([1]), "sum"))[0] == size
        """
    )
    job = run_ranks(2, script, limit=150, fresh=True)
    job.expect_success()
    assert "refused:" in job.outputs[0], job.report()


def test_multiprocessing_children_become_ranks():
    script = scripts.graph(
        """
        import multiprocessing, signal, threading

        def work(rank):
            os.environ.update(RANK_ID=str(rank), RANK_SIZE="2", JOB_ID=f"children-{os.getppid()}")
            session = tf.Session()
            assert (get_rank_id(), get_rank_size()) == (rank, 2)
            total = hccl_ops.allreduce(tf.ones([3]), "sum")
            say("rank", rank, "has", session.run(total))
            # Waits for the end of rank 0, which is a normal one.
            last = hccl_ops.allreduce(tf.ones([3]), "max")
            if rank == 1:
                try:
                    session.run(last)
                except tf.errors.OpError as error:
                    say("rank 1:", error)

        def interrupted(rank):
            os.environ.update(RANK_ID="0", RANK_SIZE="2", JOB_ID=f"alone-{os.getpid()}")
            threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                tf.Session().run(hccl_ops.allreduce(tf.ones([3]), "sum"))
            except BaseException as error:
                say("interrupted:", type(error).__name__, error)

        if __name__ == "__main__":
            # What the parent has read must not be what the children go by.
            assert get_rank_size() == 1
            forked = multiprocessing.get_context("fork")
            children = [forked.Process(target=work, args=(rank,)) for rank in range(2)]
            children.append(forked.Process(target=interrupted, args=(0,)))
            for child in children:
                child.start()
            for child in children:
                child.join()
            assert [child.exitcode for child in children] == [0, 0, 0]
            assert tf.Session().run(hccl_ops.allreduce(tf.ones([3]), "sum")).sum() == 3
        """
    )
    alone = {"RANK_ID": None, "RANK_SIZE": None}
    job = run_ranks(1, script, limit=150, fresh=True, environment=alone)
    job.expect_success()
    output = job.stdout[0]
    for rank in range(2):
        assert f"rank {rank} has [2. 2. 2.]" in output, job.report()
    assert "rank 0 has left the job" in output, job.report()
    assert re.search(r"interrupted: .*(KeyboardInterrupt|SIGINT)", output), job.report()

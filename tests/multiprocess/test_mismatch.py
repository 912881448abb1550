"""Ranks that pass different things to one collective: the same error everywhere, nothing moved."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core


def run(ranks, body):
    """Runs `body`, which must fail on all ranks, and returns the job."""
    script = scripts.graph("with tf.Session() as session:\n" + body)
    job = run_ranks(ranks, script, limit=60, environment={"HCCL_EXEC_TIMEOUT": "20"})
    for rank in range(ranks):
        job.expect_error(rank, "InvalidArgumentError")
    return job


def test_sizes():
    job = run(
        4,
        "    session.run(hccl_ops.allreduce(tf.zeros([409600 if rank == 0 else 409598]), 'sum'))",
    )
    for rank in range(4):
        job.expect_error(rank, "rank 0 passed float32 [409600]")
        job.expect_error(rank, "ranks 1,2,3 passed float32 [409598]")


@pytest.mark.parametrize(
    ("odd", "others"), [("bfloat16", "float32"), ("int32", "float32"), ("uint8", "int8")]
)
def test_dtypes(odd, others):
    job = run(
        3,
        "    dtype = tf.%s if rank == 2 else tf.%s\n"
        "    session.run(hccl_ops.allreduce(tf.zeros([4], dtype), 'sum'))" % (odd, others),
    )
    for rank in range(3):
        job.expect_error(rank, "rank 2 passed " + odd)
        job.expect_error(rank, "ranks 0,1 passed " + others)


def test_shapes_of_equal_size():
    job = run(
        2,
        "    session.run(hccl_ops.allreduce(tf.zeros([2, 3] if rank == 0 else [3, 2]), 'sum'))",
    )
    job.expect_error(1, "[2,3]")
    job.expect_error(0, "[3,2]")


def test_roots():
    job = run(2, "    session.run(hccl_ops.broadcast([tf.zeros([2])], root_rank=rank))")
    for rank in range(2):
        job.expect_error(rank, "root")


def test_reductions():
    job = run(
        2,
        "    session.run(hccl_ops.allreduce(tf.zeros([2]), 'sum' if rank == 0 else 'max',"
        " fusion=0))",
    )
    for rank in range(2):
        job.expect_error(rank, "sum")
        job.expect_error(rank, "max")


@pytest.mark.parametrize("expected", [3, 2])
def test_receive_counts_that_are_not_what_the_sender_sends(expected):
    job = run(
        2,
        """
    value = tf.constant([1.0, 2.0, 3.0, 4.0])
    if rank == 0:
        counts = hccl_ops.all_to_all_v(value, [0, 1], [0, 0], [0, 0], [0, 0])
    else:
        counts = hccl_ops.all_to_all_v(value, [0, 0], [0, 0], [%d, 0], [0, 0])
    session.run(counts)
"""
        % expected,
    )
    for rank in range(2):
        job.expect_error(rank, "rank 0")
        job.expect_error(rank, "rank 1")
        job.expect_error(rank, str(expected))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("hccl_ops.allgather(value, rank_size=bad(3, 2))", "rank_size"),
        ("hccl_ops.broadcast([value], root_rank=bad(2, 0))", "root_rank"),
        ("hccl_ops.reduce(value, 'sum', root_rank=bad(-1, 0))", "root_rank"),
        ("hccl_ops.reduce_scatter(value[:bad(3, 4)], 'sum', rank_size=2)", "divi"),
        ("hccl_ops.all_to_all_v(value, [1, bad(-1, 1)], [0, 1], [1, 1], [0, 1])", "-1"),
        ("hccl_ops.all_to_all_v(value, [1, 1], [0, bad(4, 1)], [1, 1], [0, 1])", "4"),
        ("hccl_ops.all_to_all_v(value, [1, 1][:bad(1, 2)], [0, 1], [1, 1], [0, 1])", "send_counts"),
        ("hccl_ops.all_to_all_v_c(value, [[1, bad(2**62, 1)], [1, 1]], rank)", "matri"),
        ("hccl_ops.allreduce(value, 'sum', group=bad('nobody', 'hccl_world_group'))", "nobody"),
    ],
)
@pytest.mark.parametrize("where", ["one rank", "all ranks"])
def test_a_refusal_reaches_every_rank(call, text, where):
    """What only rank 1 does wrong must not leave rank 0 waiting."""
    script = scripts.graph(
        """
        def bad(wrong, right):
            return wrong if rank == 1 or %r == "all ranks" else right

        value = tf.placeholder_with_default(np.ones([4], np.float32), [None])
        with tf.Session() as session:
            try:
                result = %s
            except ValueError as error:
                say("refused while building:", error)
                raise
            session.run(result)
        """
        % (where, call)
    )
    job = run_ranks(2, script, limit=60, environment={"HCCL_EXEC_TIMEOUT": "15"})
    for rank in range(2):
        job.expect_failure(rank)
    job.expect_error(1, text)


def test_the_process_lives_on_after_a_mismatch():
    script = scripts.graph(
        """
        with tf.Session() as session:
            for attempt in range(20):
                try:
                    session.run(hccl_ops.allreduce(tf.zeros([2 + rank]), "sum", fusion=0))
                except tf.errors.InvalidArgumentError:
                    pass
                else:
                    raise SystemExit("the mismatch went unnoticed")
                good = session.run(hccl_ops.allreduce(tf.ones([3]), "sum", fusion=0))
                assert (good == size).all(), good
        """
    )
    run_ranks(2, script, limit=60).expect_success()

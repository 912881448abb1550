"""Empty, scalar, uneven, unknown and very large tensors."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts


def test_scalars_keep_their_shape_or_are_refused_in_python():
    script = scripts.graph(
        """
        one = tf.constant(1.0 + rank)
        with tf.Session() as session:
            kept = [
                hccl_ops.allreduce(one, "sum"),
                hccl_ops.reduce(one, "sum", 0),
                hccl_ops.broadcast([one], 0)[0],
            ]
            for value in session.run(kept):
                assert value.shape == (), value
            sent = hccl_ops.send(one, 0, 1 - rank)
            received = hccl_ops.receive([], tf.float32, 0, 1 - rank)
            assert session.run([received, sent])[0] == 2.0 - rank
        for call in (
            lambda: hccl_ops.allgather(one, 2),
            lambda: hccl_ops.reduce_scatter(one, "sum", 2),
        ):
            try:
                call()
            except ValueError as error:
                say("refused:", error)
            else:
                raise SystemExit("a scalar was accepted")
        """
    )
    job = run_ranks(2, script, limit=60)
    job.expect_success()
    assert job.outputs[0].count("refused:") == 2, job.report()


def test_alltoallv_when_one_rank_sends_nothing_and_when_nobody_does():
    script = scripts.graph(
        """
        width = 8
        rows = tf.ones([2, width]) if rank == 0 else tf.zeros([0, width])
        send = np.array([width, width] if rank == 0 else [0, 0], np.int64)
        receive = np.array([width, 0], np.int64)
        places = np.array([0, width], np.int64)
        nothing = np.zeros([2], np.int64)
        with tf.Session() as session:
            got = session.run(hccl_ops.all_to_all_v(rows, send, places if rank == 0 else nothing,
                                                    receive, places))
            assert got.tolist() == [1.0] * width, got
            got = session.run(hccl_ops.all_to_all_v(rows, nothing, nothing, nothing, nothing))
            assert got.shape == (0,), got
        """
    )
    run_ranks(2, script, limit=60).expect_success()


def test_allgather_with_an_unknown_first_dimension():
    script = scripts.eager(
        """
        kernel = tf.ones([8, 3])

        @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32)])
        def gathered_product(value):
            gathered = hccl_ops.allgather(value, size)
            assert gathered.shape.as_list() == [None, 8], gathered.shape
            return tf.matmul(gathered, kernel)

        result = gathered_product(tf.ones([3, 8]))
        assert result.shape.as_list() == [6, 3], result.shape
        assert (result.numpy() == 8).all()
        """
    )
    run_ranks(2, script, limit=60).expect_success()


@pytest.mark.parametrize(
    "body",
    [
        # 1.2 GiB a rank: the gathered bytes pass 2^31.
        """
        count = 1288490188
        value = np.zeros([count], np.int8)
        value[-16:] = np.arange(16) + 16 * rank
        result = hccl_ops.allgather(tf.constant(value), 2)
        for r in range(2):
            tail = result[(r + 1) * count - 16 : (r + 1) * count].numpy()
            assert tail.tolist() == list(range(16 * r, 16 * r + 16)), tail
        """,
        """
        value = np.zeros([2**31 + 8], np.int8)
        value[-16:] = rank + 1
        result = hccl_ops.allreduce(tf.constant(value), "sum")
        assert result[-16:].numpy().tolist() == [3] * 16
        assert not result[:16].numpy().any()
        """,
        """
        value = np.zeros([2**31 + 8], np.int8)
        value[-16:] = 7 + rank
        result = hccl_ops.broadcast([tf.constant(value)], 1)[0]
        assert result[-16:].numpy().tolist() == [8] * 16
        """,
        """
        value = np.zeros([2**31 + 16], np.int8)
        value[-16:] = np.arange(16) + rank
        far = 2**31
        result = hccl_ops.all_to_all_v(tf.constant(value), [8, 8], [far, far + 8], [8, 8], [0, 8])
        expected = [list(np.arange(16)[8 * rank : 8 * rank + 8] + r) for r in range(2)]
        assert result.numpy().tolist() == expected[0] + expected[1], result
        """,
    ],
    ids=["allgather", "allreduce", "broadcast", "all_to_all_v"],
)
def test_more_than_two_gibibytes(body):
    run_ranks(2, scripts.eager(body), limit=240).expect_success()

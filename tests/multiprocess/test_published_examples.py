"""The examples of the published API pages, with the results that the pages give."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts

pytestmark = pytest.mark.core


@pytest.mark.parametrize("ranks", [2, 8])
def test_distribute_broadcast_of_a_scalar_variable(ranks):
    script = scripts.eager(
        """
        import npu_device as npu
        x = tf.Variable(float(rank + 5))
        npu.distribute.broadcast(x, root_rank=0)
        assert x.numpy() == 5.0, x
        """
    )
    run_ranks(ranks, script, limit=240, fresh=ranks == 2).expect_success()


@pytest.mark.parametrize("ranks", [2, 8])
def test_allgather_of_rows(ranks):
    script = scripts.graph(
        """
        tensor = tf.random_uniform((1, 3), minval=1, maxval=10, dtype=tf.float32)
        result = hccl_ops.allgather(tensor, rank_size=size)
        assert result.shape.as_list() == [size, 3], result.shape
        with tf.Session() as session:
            mine, all_rows = session.run([tensor, result])
        assert (all_rows[rank] == mine[0]).all(), (mine, all_rows)
        say("rows", all_rows.tolist())
        """
    )
    job = run_ranks(ranks, script, limit=240, fresh=ranks == 2)
    job.expect_success()
    rows = {line for output in job.outputs for line in output.splitlines() if "rows" in line}
    assert len(rows) == 1, job.report()


def test_all_to_all_v_with_overlapping_blocks():
    script = scripts.graph(
        """
        send = tf.constant([1, 2, 3] if rank == 0 else [4, 5, 6], tf.int64)
        counts = tf.constant([3, 3], tf.int64)
        displacements = tf.constant([0, 0], tf.int64)
        result = hccl_ops.all_to_all_v(send, counts, displacements, counts, displacements)
        with tf.Session() as session:
            value = session.run(result)
        # Blocks are written in rank order, so that the highest rank's stands.
        assert value.tolist() == [4, 5, 6], value
        """
    )
    run_ranks(2, script, limit=150, fresh=True).expect_success()

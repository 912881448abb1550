"""Rounding, overflow, NaN, and results that are the same bits on every rank and in every run."""

from __future__ import annotations

import pytest

from tests.harness import run_ranks
from tests.multiprocess import scripts


def test_float16_sums_overflow_to_infinity_as_on_a_device():
    script = scripts.graph(
        """
        with tf.Session() as session:
            total = session.run(hccl_ops.allreduce(tf.constant([30000.0], tf.float16), "sum"))
        assert np.isinf(total[0]), total
        """
    )
    run_ranks(4, script, limit=60).expect_success()


def test_half_precision_sums_are_rounded_once():
    # 2048 + 1 + 1: added up in float16 each 1 is lost; added up in float32 it is 2050.
    script = scripts.graph(
        """
        value = tf.constant([2048.0 if rank == 0 else 1.0], tf.float16)
        with tf.Session() as session:
            assert session.run(hccl_ops.allreduce(value, "sum"))[0] == 2050
        """
    )
    run_ranks(3, script, limit=60).expect_success()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_min_and_max_propagate_nan_wherever_it_stands(dtype):
    script = scripts.graph(
        """
        values = np.arange(100, dtype=np.float32) * (1 if rank == 0 else -1)
        values[[0, 17, 63, 99][rank]] = np.nan
        with tf.Session() as session:
            for reduction in ("min", "max"):
                tensor = tf.cast(tf.constant(values), tf.%s)
                result = session.run(hccl_ops.allreduce(tensor, reduction)).astype(np.float32)
                assert np.flatnonzero(np.isnan(result)).tolist() == [0, 17, 63, 99], result
        """
        % dtype
    )
    run_ranks(4, script, limit=60).expect_success()


@pytest.mark.parametrize("ranks", [3, 5, 7])
def test_results_are_the_same_bits_on_every_rank_and_in_every_run(ranks):
    script = scripts.graph(
        """
        import hashlib
        hashes = set()
        with tf.Session() as session:
            for dtype in (tf.float32, tf.float16, tf.bfloat16):
                values = np.random.RandomState(rank).standard_normal(1000000).astype(np.float32)
                total = hccl_ops.allreduce(tf.cast(tf.constant(values), dtype), "sum")
                runs = {hashlib.sha1(session.run(total).tobytes()).hexdigest() for _ in range(30)}
                assert len(runs) == 1, runs
                say(dtype.name, runs.pop())
        """
    )
    job = run_ranks(ranks, script, limit=240)
    job.expect_success()
    results = {
        tuple(line for line in output.splitlines() if "float" in line) for output in job.outputs
    }
    assert len(results) == 1 and len(results.pop()) == 3, job.report()

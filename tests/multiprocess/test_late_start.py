"""A rank that starts long after the others: how long they wait, and what they say meanwhile."""

from __future__ import annotations


def test_a_rank_that_comes_130_seconds_late(late_jobs):
    patient, hasty = late_jobs
    for job, limit in ((patient, 600), (hasty, 120)):
        line = job.wait_for_line(0, "npu_bridge: rank 0 has waited 5 s for rank 1 of 2")
        assert f"It waits up to {limit} s (HCCL_CONNECT_TIMEOUT)." in line
    hasty.wait_for_exit(0)
    hasty.kill(1)  # which would wait for rank 0 in its turn
    patient.expect_success()
    assert all("done" in output for output in patient.outputs)
    hasty.expect_exception(
        0, "DeadlineExceededError", r"rank 0 waited 12\d s in vain for rank 1 of 2"
    )
    hasty.expect_error(0, "If they need longer, raise HCCL_CONNECT_TIMEOUT.")
    # Only the lowest rank that is there speaks. In the other job that is rank 1 when it comes: rank 0
    # has given up by then.
    assert "has waited" not in patient.outputs[1]

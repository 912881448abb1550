"""Jobs that do nothing but wait for minutes run beside the other tests."""

from __future__ import annotations

import pytest

from tests.harness import start_ranks
from tests.multiprocess import scripts

_FILE = "test_late_start.py"
# The lateness is what the jobs are given: rank 1 comes to its first op after 130 s.
_LATE = scripts.graph(
    """
    import time
    if rank == 1:
        time.sleep(130)
    with tf.Session() as session:
        assert session.run(hccl_ops.allreduce(tf.ones([2]), "sum")).tolist() == [2, 2]
    say("done")
    """
)


def pytest_collection_modifyitems(items):
    """Puts the test that looks at these jobs behind all others."""
    items.sort(key=lambda item: item.path.name == _FILE)


@pytest.fixture(scope="session", autouse=True)
def late_jobs(request):
    """Two jobs whose rank 1 comes late: one that has been told to wait for it, and one that not.

    They start with the first test of this folder, if the test that looks at them is going to run.
    """
    if all(item.path.name != _FILE for item in request.session.items):
        yield None
        return
    patient = start_ranks(2, _LATE, limit=400, environment={"HCCL_CONNECT_TIMEOUT": "600"})
    hasty = start_ranks(2, _LATE, limit=400)
    yield patient, hasty
    for job in (patient, hasty):
        job.runner.kill()
        job.wait()

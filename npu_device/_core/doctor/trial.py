"""A job of two ranks, to see whether ranks meet on this machine and get right numbers."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import time
from typing import Mapping

from npu_device._core import library
from npu_device._core.doctor.finding import FAILURE, OK, Finding

_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(library.__file__))))
_RANKS = 2
_LIMIT_SECONDS = 120
_SHOWN_LINES = 8
# Both describe another job than the trial.
_OF_THE_JOB = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE", "TF_CONFIG")


def check(environ: Mapping[str, str]) -> list[Finding]:
    """Runs the job and returns whether it went well.

    Args:
        environ: the environment, such as os.environ; what describes a job there is left out.
    """
    variables = {
        name: value
        for name, value in environ.items()
        if name not in _OF_THE_JOB and not name.startswith("CM_")
    }
    variables["TF_CPP_MIN_LOG_LEVEL"] = "3"
    # The packages of this process, whatever stands in the folder that it was started in.
    if _PACKAGES not in sysconfig.get_paths().values():
        paths = [environ.get("PYTHONPATH", ""), _PACKAGES]
        variables["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, "-m", "npurun", "-n", str(_RANKS), "-m", __name__]
    begin = time.monotonic()
    try:
        done = subprocess.run(
            command,
            cwd=os.sep,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_LIMIT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return [Finding(FAILURE, f"two ranks did not end within {_LIMIT_SECONDS} s: {command}")]
    if done.returncode != 0:
        lines = done.stdout.decode("utf-8", "replace").splitlines()[-_SHOWN_LINES:]
        return [Finding(FAILURE, "\n".join(["two ranks failed, and wrote last:", *lines]))]
    seconds = time.monotonic() - begin
    return [
        Finding(OK, f"{_RANKS} ranks met and agreed; they took {seconds:.1f} s to start and end")
    ]


def main() -> int:
    """What each of the ranks runs."""
    import numpy as np
    import tensorflow.compat.v1 as tf

    from npu_device._core import published_ops, runtime

    rank, size = runtime.rank(), runtime.size()
    with tf.Graph().as_default(), tf.Session() as session:
        mine = tf.constant(np.arange(1024, dtype=np.float32) * (rank + 1))
        total = session.run(published_ops.allreduce(mine, "sum"))
    expected = np.arange(1024, dtype=np.float32) * (size * (size + 1) // 2)
    if not np.array_equal(total, expected):
        print(f"rank {rank}: the sum over {size} ranks is {total[:4]}, not {expected[:4]}")
        return 1
    print(f"rank {rank} of {size}: right, {os.getpid()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

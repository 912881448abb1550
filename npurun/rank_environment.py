"""What each rank finds in its environment: the job's description and bounds on its threads."""

from __future__ import annotations

import json
import os
import socket
from typing import Dict, List, Mapping

from npurun import memory_file, tf1_compat

MAX_RANKS = 32768

# Another way to describe a job, refused together with RANK_ID and RANK_TABLE_FILE.
_CHIEF_VARIABLES = (
    "CM_CHIEF_IP",
    "CM_CHIEF_PORT",
    "CM_CHIEF_DEVICE",
    "CM_WORKER_SIZE",
    "CM_WORKER_IP",
)
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")
_MAX_SERVER_ID_BYTES = 64


def available_processors() -> int:
    """Returns the processors that this process may use: its affinity and its cgroup's quota."""
    processors = len(os.sched_getaffinity(0))
    try:
        # A container with a quota of 2 processors on a host of 64 still sees all 64.
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except (OSError, ValueError):
        return processors  # no version 2 cgroup here
    if quota == "max":
        return processors
    return max(1, min(processors, -(-int(quota) // int(period))))


def rank_table(ranks: int) -> str:
    """Returns a rank table (template 1, version 1.0) of one server with `ranks` devices."""
    name = socket.gethostname().encode()[:_MAX_SERVER_ID_BYTES].decode(errors="ignore")
    devices = [
        {"device_id": str(rank), "device_ip": "", "rank_id": str(rank)} for rank in range(ranks)
    ]
    table = {
        "status": "completed",
        "version": "1.0",
        "server_count": "1",
        "server_list": [{"server_id": name or "localhost", "device": devices}],
    }
    return json.dumps(table, indent=1) + "\n"


class RankEnvironment:
    """The environment of every rank of a job.

    The rank table is a memory file named through this process, /proc/<pid>/fd/<number>: children
    of ranks, which inherit no descriptor, can read it too, and no end of the job leaves a file.

    Args:
        ranks: number of ranks.
        inherited: the environment that ranks start from.
        tensorflow_1: whether ranks run TensorFlow 1 scripts (npurun.tf1_compat).

    Attributes:
        notes: sentences for the user about variables that are not passed on.
    """

    def __init__(self, ranks: int, inherited: Mapping[str, str], tensorflow_1: bool = False):
        self.ranks = ranks
        self.notes: List[str] = []
        self._table = memory_file.create("rank_table.json", rank_table(ranks).encode())
        self._common = self._common_variables(inherited)
        if tensorflow_1:
            self._enable_tensorflow_1()

    def of_rank(self, rank: int) -> Dict[str, str]:
        """Returns the whole environment of one rank."""
        number = str(rank)
        return dict(
            self._common,
            RANK_ID=number,
            DEVICE_ID=number,
            DEVICE_INDEX=number,
            ASCEND_DEVICE_ID=number,
        )

    def close(self) -> None:
        """Lets go of the rank table, whose path is then no longer there."""
        os.close(self._table)

    def _common_variables(self, inherited: Mapping[str, str]) -> Dict[str, str]:
        variables = dict(inherited)
        dropped = [name for name in _CHIEF_VARIABLES if variables.pop(name, "")]
        if dropped:
            self.notes.append(
                "{} not passed to the ranks: npurun describes the job itself.".format(
                    ", ".join(dropped)
                )
            )
        variables["RANK_SIZE"] = str(self.ranks)
        variables["RANK_TABLE_FILE"] = f"/proc/{os.getpid()}/fd/{self._table}"
        # Random, since process ids repeat: in containers that share a network, at once.
        variables["JOB_ID"] = f"npurun-{os.getpid()}-{os.urandom(8).hex()}"
        threads = str(max(1, available_processors() // self.ranks))
        for name in _THREAD_VARIABLES:
            variables[name] = variables.get(name) or threads
        # Lines must arrive when they are printed, and a crash must say where it was.
        for name in ("PYTHONUNBUFFERED", "PYTHONFAULTHANDLER"):
            variables[name] = variables.get(name) or "1"
        return variables

    def _enable_tensorflow_1(self) -> None:
        paths = [tf1_compat.STARTUP_FOLDER, self._common.get("PYTHONPATH", "")]
        self._common["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)

"""What the job looks like: from the environment and the rank table to a ClusterDescription.

There are three ways to describe a job, and `describe` takes whichever the environment uses:

* RANK_SIZE and RANK_ID alone: all ranks are on this machine.
* RANK_TABLE_FILE as well: a rank table places the ranks on servers and devices.
* CM_*: a chief's address, a number of ranks, and each rank's own server and device. Ranks have no
  number until they meet.

Nothing set, or RANK_SIZE=1, is a world of one rank, for which no table is read: many scripts set
both, with a path that is not there.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

from npu_device._core import rank_table
from npu_device._core.environment import Environment
from npu_device._core.rank_table import RankTable

# What each variable of CM_* must be told, in the order in which errors name them.
_CM_NAMES = ("CM_CHIEF_IP", "CM_CHIEF_PORT", "CM_CHIEF_DEVICE", "CM_WORKER_SIZE", "CM_WORKER_IP")
_NOT_WITH_CM = ("RANK_TABLE_FILE", "RANK_ID", "RANK_SIZE")

NEEDS_GLOO = "ranks on several hosts need the Gloo transport, which is not in this build"


@dataclasses.dataclass(frozen=True)
class Meeting:
    """How CM_* describes this rank's place in the job."""

    chief_address: str
    chief_port: int
    chief_device: int
    worker_address: str


@dataclasses.dataclass(frozen=True)
class ClusterDescription:
    """What a rank knows of its job before it meets the others."""

    size: int
    rank: int | None  # None: ranks are numbered by the meeting
    device: int  # logical device of this rank on its server
    job_id: str = ""
    table: RankTable | None = None
    meeting: Meeting | None = None  # CM_*
    notes: tuple[str, ...] = ()  # what is odd, but not wrong

    @property
    def servers(self) -> tuple[str, ...]:
        """Names of the servers as the rank table has them; empty without one."""
        return () if self.table is None else tuple(s.server_id for s in self.table.servers)

    def server_ranks(self) -> tuple[int, ...] | None:
        """World ranks on this rank's server, ascending; None if only the meeting can tell.

        The rank table decides, also where its servers are in truth one machine; without one all
        ranks are on this machine.
        """
        if self.rank is None:
            return None
        if self.table is None:
            return tuple(range(self.size))
        return self.table.server_of(self.rank).ranks

    def identity(self) -> str:
        """Text that is equal on all ranks of this job, and differs between jobs where we know."""
        parts = [f"job={self.job_id}", f"size={self.size}"]
        if self.table is not None:
            parts.append(f"table={self.table.digest()}")
        if self.meeting is not None:
            chief = self.meeting
            parts.append(f"chief={chief.chief_address} {chief.chief_port} {chief.chief_device}")
        return ";".join(parts)

    def location(self, rank: int) -> str:
        """Where a rank should be, for the error when it does not come; empty if nothing is known.

        Args:
            rank: a world rank.

        Returns:
            The server and device of the rank table, and that a rank on another host is out of
            reach if its server is not this rank's.
        """
        if self.table is None or self.rank is None:
            return ""
        server = self.table.server_of(rank)
        at = f" ({server.address})" if server.address not in ("", server.server_id) else ""
        text = f"server {server.server_id!r}{at}, device {self.table.devices[rank].device_id}"
        own = self.table.server_of(self.rank)
        if server.server_id != own.server_id:
            text += f", which is not this rank's server {own.server_id!r}: {NEEDS_GLOO}"
        return text

    def to_native(self, settings: dict[str, Any]) -> dict[str, Any]:
        """Returns what the native runtime asks its configuration provider for.

        Args:
            settings: limits and choices, see `settings`.
        """
        meeting = self.meeting or Meeting("", 0, 0, "")
        server_ranks = self.server_ranks()
        several = len(self.servers) > 1
        return {
            "rank": 0 if self.rank is None else self.rank,
            "size": self.size,
            "host_ranks": None if server_ranks is None else list(server_ranks),
            "rank_locations": [self.location(r) for r in range(self.size)] if several else [],
            "identity": self.identity(),
            "unnumbered": self.rank is None,
            "device": self.device,
            "worker_address": meeting.worker_address,
            "chief_address": meeting.chief_address,
            "chief_device": meeting.chief_device,
            "settings": settings,
        }


def settings(env: Environment) -> dict[str, Any]:
    """Returns the limits and choices of the native runtime.

    Args:
        env: the checked environment.

    Returns:
        Integers (seconds, MB) and the transport's name, by the names of csrc/common/settings.h.
    """
    return {
        "connect_timeout_s": env["HCCL_CONNECT_TIMEOUT"],
        "exec_timeout_s": env["HCCL_EXEC_TIMEOUT"],
        "mismatch_timeout_s": env["NPU_BRIDGE_MISMATCH_TIMEOUT"],
        "stall_warn_s": env["NPU_BRIDGE_STALL_WARN"],
        "slow_start_s": 5,
        "buffer_size_mb": env["HCCL_BUFFSIZE"],
        "pool_limit_mb": env["NPU_BRIDGE_POOL_LIMIT"],
        "transport": env["NPU_BRIDGE_TRANSPORT"],
    }


def describe(env: Environment) -> ClusterDescription:
    """Works out the job from the environment, reading the rank table if there is one.

    Args:
        env: the checked environment.

    Returns:
        The description.

    Raises:
        ValueError: the variables contradict each other, one is missing, or the rank table is
            invalid or does not hold this rank.
    """
    if any(env.is_set(name) for name in _CM_NAMES):
        return _from_chief(env)
    if env["RANK_SIZE"] == 1:
        return _world_of_one(env)
    if env.is_set("RANK_TABLE_FILE"):
        return _from_table(env)
    size = env["RANK_SIZE"] or 1
    rank = _rank_id(env, size, "RANK_SIZE is {}".format(env["RANK_SIZE"] or "not set, so 1"))
    return ClusterDescription(size, rank, env.device(), env["JOB_ID"] or "")


def start_failure(
    description: ClusterDescription, text: str, met: Sequence[int] | None = None
) -> str:
    """Adds what the description knows about ranks that did not come to the text of the failure.

    Several servers in a rank table are no error by themselves: ranks are on one host when they
    meet there, whatever the table calls it. Only when some do not come is it worth saying.

    Args:
        description: of the job.
        text: why the start failed, from the native runtime.
        met: world ranks that met on this host, where that is known.

    Returns:
        The text to raise.
    """
    if NEEDS_GLOO in text:
        return text
    meeting = description.meeting
    if meeting is not None and meeting.worker_address != meeting.chief_address:
        return (
            f"{text} This rank's CM_WORKER_IP is {meeting.worker_address} and CM_CHIEF_IP is "
            f"{meeting.chief_address}: {NEEDS_GLOO}."
        )
    table = description.table
    if table is None or len(table.servers) < 2:
        return text
    here = set(range(0) if met is None else met)
    absent = []
    for server in table.servers:
        missing = [rank for rank in server.ranks if rank not in here]
        if missing:
            at = f" ({server.address})" if server.address not in ("", server.server_id) else ""
            absent.append(f"{rank_list(missing)} of server {server.server_id!r}{at}")
    if not absent:
        return text
    did = "The ranks of this job" if met is None else "Ranks that did not come to this host"
    return f"{text} {did} by rank table {table.file!r}: {'; '.join(absent)}. Note: {NEEDS_GLOO}."


def rank_list(ranks: Sequence[int]) -> str:
    """Returns ascending ranks in words: "rank 3", "ranks 0-3,6"."""
    spans: list[list[int]] = []
    for rank in ranks:
        if spans and spans[-1][1] == rank - 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    shown = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return ("rank " if len(ranks) == 1 else "ranks ") + shown


def _world_of_one(env: Environment) -> ClusterDescription:
    notes = []
    if env["RANK_ID"]:
        # Launch scripts number single-card runs by their card.
        notes.append(f"RANK_ID is {env['RANK_ID']} and RANK_SIZE is 1: this process is rank 0.")
    return ClusterDescription(1, 0, env.device(), env["JOB_ID"] or "", notes=tuple(notes))


def _from_table(env: Environment) -> ClusterDescription:
    table = rank_table.load(env["RANK_TABLE_FILE"])
    entries = "$.server_list" if table.template == 1 else "$.group_list[0].instance_list"
    if env.is_set("RANK_SIZE") and env["RANK_SIZE"] != table.size:
        raise ValueError(
            f"Rank table {table.file!r}: {entries} lists {table.size} devices, and RANK_SIZE is "
            f"{env['RANK_SIZE']}; they must be equal. Correct one, or unset RANK_SIZE."
        )
    rank = _rank_id(
        env, table.size, f"rank table {table.file!r} lists {table.size} devices in {entries}"
    )
    device = table.devices[rank].device_id
    return ClusterDescription(table.size, rank, device, env["JOB_ID"] or "", table)


def _from_chief(env: Environment) -> ClusterDescription:
    ours = [name for name in _CM_NAMES if env.is_set(name)]
    others = [name for name in _NOT_WITH_CM if env.is_set(name)]
    if others:
        raise ValueError(
            f"{_and(ours)} and {_and(others)} are set together, and each describes the job in its "
            f"own way. Unset {_and(others)} to have the ranks meet at the chief, or unset "
            f"{_and(ours)} to use {'the rank table' if 'RANK_TABLE_FILE' in others else 'RANK_*'}."
        )
    missing = [name for name in _CM_NAMES if not env.is_set(name)]
    if missing:
        raise ValueError(
            f"{_and(ours)} {'is' if len(ours) == 1 else 'are'} set and {_and(missing)} "
            f"{'is' if len(missing) == 1 else 'are'} not. Set all of {_and(_CM_NAMES)}, or none."
        )
    size = env["CM_WORKER_SIZE"]
    meeting = Meeting(
        chief_address=env["CM_CHIEF_IP"],
        chief_port=env["CM_CHIEF_PORT"],
        chief_device=env["CM_CHIEF_DEVICE"],
        worker_address=env["CM_WORKER_IP"],
    )
    rank = 0 if size == 1 else None
    return ClusterDescription(size, rank, env.device(), env["JOB_ID"] or "", meeting=meeting)


def _rank_id(env: Environment, size: int, because: str) -> int:
    """Returns RANK_ID, which must be a rank of a world of this size."""
    allowed = "0" if size == 1 else f"0 to {size - 1}"
    if not env.is_set("RANK_ID"):
        if size == 1:
            return 0
        raise ValueError(
            f"Environment variable RANK_ID is not set, and {because}. Set it to {allowed}, to a "
            f"different number in each process, or start the script with npurun."
        )
    rank = int(env["RANK_ID"])
    if rank >= size:
        raise ValueError(
            f"Environment variable RANK_ID is {rank}, allowed is {allowed}, since {because}."
        )
    return rank


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]

"""Groups of ranks: create and destroy them, ask for ranks and sizes.

Source of the contract: the pages of hccl.manage.api in the published HCCL Python API reference.
Where the original refuses a call before `initialize_system` has run, these work: rank, size and
groups are known from the environment and the rank table, and nothing here waits for peers. The
exception is a job described by CM_*, whose ranks are numbered when they meet: the first question
about a rank then waits for that.

Everything raises ValueError for a wrong argument or state, naming what was found and is allowed.
Here "server" is one of the rank table; without a rank table all ranks are on one server.
"""

from __future__ import annotations

from npu_device._core import groups as _groups

__all__ = [
    "create_group",
    "destroy_group",
    "get_group_rank_from_world_rank",
    "get_local_rank_id",
    "get_local_rank_size",
    "get_rank_id",
    "get_rank_size",
    "get_world_rank_from_group_rank",
]


def create_group(group: str, rank_num: int, rank_ids: list[int]) -> None:
    """Creates a group of ranks that collectives can name.

    Only the ranks in `rank_ids` call it, each with the same list. Groups of one name with different
    members, each created by its own members, are different groups.

    Args:
        group: name, 1 to 127 bytes in UTF-8, that no group on this rank has.
        rank_num: number of ranks in the group, as long as `rank_ids`.
        rank_ids: world ranks, each once. The position in the list is the rank in the group.

    Raises:
        ValueError: `group` is no str, empty, too long, "hccl_world_group", or exists; `rank_num` is
            no positive int or not the length of `rank_ids`; `rank_ids` is no list, or has an entry
            that is negative, repeated or outside the world; this rank is not in `rank_ids`.
    """
    _groups.create(group, rank_num, rank_ids)


def destroy_group(group: str) -> None:
    """Forgets a group. Its name may be used again.

    Args:
        group: name of a group that `create_group` made on this rank.

    Raises:
        ValueError: `group` is no valid name, is "hccl_world_group", or does not exist.
    """
    _groups.destroy(group)


def get_rank_size(group: str = "hccl_world_group") -> int:
    """Returns the number of ranks of a group.

    Args:
        group: name of the group; the world by default.

    Returns:
        The number of ranks, 1 or more.

    Raises:
        ValueError: `group` is no valid name, or does not exist on this rank.
    """
    return _groups.rank_size(group)


def get_rank_id(group: str = "hccl_world_group") -> int:
    """Returns this process's rank in a group.

    Args:
        group: name of the group; the world by default.

    Returns:
        The rank, from 0 to the group's size less one.

    Raises:
        ValueError: `group` is no valid name, does not exist on this rank, or this rank is not in
            it.
    """
    return _groups.rank_id(group)


def get_local_rank_size(group: str = "hccl_world_group") -> int:
    """Returns the number of ranks of a group that are on this rank's server.

    Args:
        group: name of the group; the world by default.

    Returns:
        The number of ranks.

    Raises:
        ValueError: `group` is no valid name, or does not exist on this rank.
    """
    return len(_groups.local_ranks(group))


def get_local_rank_id(group: str = "hccl_world_group") -> int:
    """Returns this rank's position among the ranks of a group that are on its server.

    Args:
        group: name of the group; the world by default.

    Returns:
        The position, from 0 to the local size less one.

    Raises:
        ValueError: `group` is no valid name, does not exist on this rank, or this rank is not in
            it.
    """
    return _groups.local_rank_id(group)


def get_world_rank_from_group_rank(group: str, group_rank_id: int) -> int:
    """Returns the world rank of a rank of a group.

    Args:
        group: name of the group.
        group_rank_id: a rank in it.

    Returns:
        The world rank.

    Raises:
        ValueError: `group` is no valid name or does not exist on this rank, or it has no rank
            `group_rank_id`.
    """
    return _groups.to_world_rank(group, group_rank_id)


def get_group_rank_from_world_rank(world_rank_id: int, group: str) -> int:
    """Returns the rank in a group of a world rank. Note the order of the arguments.

    Args:
        world_rank_id: a world rank that is in the group.
        group: name of the group.

    Returns:
        The rank in the group.

    Raises:
        ValueError: `group` is no valid name or does not exist on this rank; there is no rank
            `world_rank_id`, or it is not in the group.
    """
    return _groups.to_group_rank(group, world_rank_id)

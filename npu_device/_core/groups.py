"""Groups of ranks: what hccl.manage.api and the ops know about them.

The native registry keeps which group has which ranks. It is local: a group is created by its
members only, and creating one sends nothing and waits for nobody. This side checks arguments,
which needs the world's size and this rank, and so works before the runtime has started (except
with CM_*, where ranks have no number before they meet).

A rank's number in a group is its position in the list that the group was created with.
"""

from __future__ import annotations

import operator
from typing import Any

from npu_device._core import runtime
from npu_device._core.cluster import rank_list

WORLD = "hccl_world_group"
MAX_NAME_BYTES = 127


def check_name(group: Any) -> str:
    """Returns a group's name if it can be one.

    Raises:
        ValueError: it is not a str, is empty, or is longer than 127 bytes in UTF-8.
    """
    if not isinstance(group, str):
        raise ValueError(f"group is {group!r}, allowed is a str of 1 to {MAX_NAME_BYTES} bytes.")
    try:
        length = len(group.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise ValueError(f"group is {group!r}, which has no form in UTF-8: {error}.") from None
    if not 1 <= length <= MAX_NAME_BYTES:
        raise ValueError(
            f"group is {group!r}, which has {length} bytes in UTF-8; allowed are 1 to "
            f"{MAX_NAME_BYTES}."
        )
    return group


def create(group: str, rank_num: int, rank_ids: list[int]) -> None:
    """Creates a group. Only its members may, and each must, with the same list.

    Args:
        group: a name that no group of this rank has, 1 to 127 bytes.
        rank_num: number of ranks.
        rank_ids: their world ranks; the position is the rank in the group.

    Raises:
        ValueError: an argument is not that, or this rank is not in `rank_ids`.
    """
    check_name(group)
    if group == WORLD:
        raise ValueError(
            f"Group {WORLD!r} holds all ranks and exists from the start. Choose another name."
        )
    count = _integer(rank_num)
    if count is None or count < 1:
        raise ValueError(f"rank_num of group {group!r} is {rank_num!r}, allowed is an int above 0.")
    if not isinstance(rank_ids, list):
        raise ValueError(
            f"rank_ids of group {group!r} is {rank_ids!r}, allowed is a list of world ranks."
        )
    if count != len(rank_ids):
        raise ValueError(
            f"rank_num of group {group!r} is {count} and rank_ids has {len(rank_ids)} entries; "
            f"they must be equal."
        )
    ranks = _checked_ranks(group, rank_ids)
    me = runtime.rank()
    if me not in ranks:
        raise ValueError(
            f"Rank {me} creates group {group!r} with rank_ids {ranks} and is not in it. Only the "
            f"ranks of a group create it: call create_group on those alone."
        )
    native = runtime.current().native()
    if group in native.group_names():
        raise ValueError(
            f"Group {group!r} exists already on rank {me}, with world ranks "
            f"{list(native.group_ranks(group))}. Destroy it first, or choose another name."
        )
    native.create_group(group, ranks)


def destroy(group: str) -> None:
    """Forgets a group and its split strategy. Its name may be used again.

    Args:
        group: a group that `create` made.

    Raises:
        ValueError: there is no such group, or it is the world.
    """
    check_name(group)
    if group == WORLD:
        raise ValueError(f"Group {WORLD!r} holds all ranks and cannot be destroyed.")
    world_ranks(group)  # raises for one that does not exist
    process = runtime.current()
    process.native().destroy_group(group)
    process.split_strategies.forget(group)


def world_ranks(group: str) -> tuple[int, ...]:
    """Returns the world ranks of a group, in the order of their ranks in it.

    Raises:
        ValueError: there is no such group on this rank.
    """
    check_name(group)
    if group == WORLD:
        return tuple(range(runtime.size()))
    native = runtime.current().native()
    try:
        return tuple(native.group_ranks(group))
    except KeyError:
        known = [repr(WORLD)]
        known += sorted(repr(name) for name in native.group_names() if name != WORLD)
        raise ValueError(
            f"There is no group {group!r} on rank {runtime.rank()}: it was not created here, or "
            f"was destroyed. Groups that exist: {', '.join(known)}."
        ) from None


def rank_size(group: str) -> int:
    """Returns the number of ranks of a group.

    Raises:
        ValueError: there is no such group on this rank.
    """
    return len(world_ranks(group))


def rank_id(group: str) -> int:
    """Returns this rank's number in a group.

    Raises:
        ValueError: there is no such group, or this rank is not in it.
    """
    return _position(runtime.rank(), world_ranks(group), group)


def require_member(group: str) -> None:
    """Checks that a group exists and this rank is in it.

    Raises:
        ValueError: it does not, or is not.
    """
    if group != WORLD:  # where asking would start the runtime if CM_* describes the job
        rank_id(group)


def local_ranks(group: str) -> list[int]:
    """Returns the world ranks of a group that are on this server, in the group's order.

    Raises:
        ValueError: there is no such group on this rank.
    """
    here = set(runtime.current().server_ranks())
    return [rank for rank in world_ranks(group) if rank in here]


def local_rank_id(group: str) -> int:
    """Returns this rank's position among the ranks of a group that are on this server.

    Raises:
        ValueError: there is no such group, or this rank is not in it.
    """
    return _position(runtime.rank(), local_ranks(group), group)


def to_world_rank(group: str, group_rank: int) -> int:
    """Returns the world rank of a rank of a group.

    Args:
        group: a group that this rank knows.
        group_rank: a rank in it.

    Raises:
        ValueError: there is no such group, or no such rank in it.
    """
    ranks = world_ranks(group)
    number = _integer(group_rank)
    if number is None or not 0 <= number < len(ranks):
        raise ValueError(
            f"group_rank_id is {group_rank!r}, allowed is an int from 0 to {len(ranks) - 1}, "
            f"since group {group!r} has {len(ranks)} ranks."
        )
    return ranks[number]


def to_group_rank(group: str, world_rank: int) -> int:
    """Returns the rank in a group of a world rank.

    Args:
        group: a group that this rank knows.
        world_rank: a world rank that is in it.

    Raises:
        ValueError: there is no such group, no such rank, or the rank is not in the group.
    """
    ranks = world_ranks(group)
    number = _integer(world_rank)
    if number is None or not 0 <= number < runtime.size():
        raise ValueError(
            f"world_rank_id is {world_rank!r}, allowed is an int from 0 to {runtime.size() - 1}, "
            f"since the world has {runtime.size()} ranks."
        )
    return _position(number, ranks, group)


def _checked_ranks(group: str, rank_ids: list[Any]) -> list[int]:
    size = runtime.size()
    ranks: list[int] = []
    seen = set()
    for position, given in enumerate(rank_ids):
        rank = _integer(given)
        if rank is None or rank < 0:
            raise ValueError(
                f"rank_ids[{position}] of group {group!r} is {given!r}, allowed is a world rank, "
                f"an int of 0 or more."
            )
        if rank >= size:
            raise ValueError(
                f"rank_ids[{position}] of group {group!r} is {rank}, which is outside the world: "
                f"it has {size} ranks, 0 to {size - 1}."
            )
        if rank in seen:
            raise ValueError(
                f"rank_ids of group {group!r} holds rank {rank} twice, at positions "
                f"{ranks.index(rank)} and {position}. Each rank may be in a group once."
            )
        ranks.append(rank)
        seen.add(rank)
    return ranks


def _position(rank: int, ranks: Any, group: str) -> int:
    if rank not in ranks:
        raise ValueError(
            f"World rank {rank} is not in group {group!r}, which has {rank_list(sorted(ranks))}."
        )
    return int(list(ranks).index(rank))


def _integer(value: Any) -> int | None:
    """The value as an int, NumPy's integers included; None for bool and all else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None

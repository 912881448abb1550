"""How the gradients of a group are cut into segments, each of which is one allreduce.

Concerns `hccl_ops.allreduce(..., fusion=1)`. Without a call there are two segments, of 96.54 and
3.46 percent of the bytes. Where a group has both kinds of strategy, the one by size stands.

Source of the contract: the pages of hccl.split.api in the published HCCL Python API reference.
Where the original refuses a call before `initialize_system` has run, these work.
"""

from __future__ import annotations

from npu_device._core import groups as _groups
from npu_device._core import runtime as _runtime

__all__ = ["set_split_strategy_by_idx", "set_split_strategy_by_size"]


def set_split_strategy_by_idx(idxList: list[int], group: str = "hccl_world_group") -> None:
    """Cuts a group's gradients, in graph order, after the given indices.

    `set_split_strategy_by_idx([20, 100, 159])` makes three segments of 160 gradients: 0 to 20, 21
    to 100, and 101 to 159.

    Args:
        idxList: index of the last gradient of each segment: 1 to 8 ints, 0 or more, ascending.
        group: name of the group; the world by default.

    Raises:
        ValueError: `idxList` is not that; `group` is no valid name, does not exist on this rank, or
            this rank is not in it.
    """
    _groups.require_member(group)
    _runtime.current().split_strategies.set_by_index(group, idxList)


def set_split_strategy_by_size(dataSizeList: list[float], group: str = "hccl_world_group") -> None:
    """Cuts a group's gradients, in graph order, by shares of their bytes.

    `set_split_strategy_by_size([60, 20, 20])` makes three segments of 150 MB of gradients: the
    first 90 MB, then 30 MB and 30 MB, as near as whole gradients come.

    Args:
        dataSizeList: share of each segment in percent: 1 to 8 numbers, 0 or more, that sum to 100.
        group: name of the group; the world by default.

    Raises:
        ValueError: `dataSizeList` is not that; `group` is no valid name, does not exist on this
            rank, or this rank is not in it.
    """
    _groups.require_member(group)
    _runtime.current().split_strategies.set_by_size(group, dataSizeList)

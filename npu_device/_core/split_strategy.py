"""How the gradients of a group are cut into segments for fusion=1.

The state behind hccl.split.api. Source of the contract: the pages set_split_strategy_by_idx and
set_split_strategy_by_size of the published HCCL Python API reference.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

MAX_SEGMENTS = 8
# Percentages need not be exact in binary: 96.54 and 3.46 are meant to make 100.
_SUM_TOLERANCE = 1e-6


@dataclasses.dataclass(frozen=True)
class SplitStrategy:
    """Where to cut a group's gradients, in graph order.

    Exactly one of the two is not empty.
    """

    last_indices: tuple[int, ...] = ()  # index of the last gradient of each segment, ascending
    percentages: tuple[float, ...] = ()  # of the gradients' bytes, summing to 100


DEFAULT = SplitStrategy(percentages=(96.54, 3.46))


class SplitStrategies:
    """The strategies that were set, by group. One belongs to each runtime."""

    def __init__(self) -> None:
        # No lock: each method makes one change to one dict, which is atomic. A lock could be held
        # by a thread that a forked child does not have.
        self._by_index: dict[str, SplitStrategy] = {}
        self._by_size: dict[str, SplitStrategy] = {}

    def set_by_index(self, group: str, last_indices: list[int]) -> None:
        """Cuts after the gradients with these indices.

        Args:
            group: a group that exists.
            last_indices: index of the last gradient of each segment: 1 to 8 integers, 0 or more,
                each larger than the one before.

        Raises:
            ValueError: the indices are not that.
        """
        indices = _checked_list("idxList", last_indices, group)
        for position, index in enumerate(indices):
            index = _integer(index)
            if index is None or index < 0:
                raise _wrong(
                    f"idxList[{position}]", indices[position], group, "an index, 0 or more"
                )
            if position and index <= indices[position - 1]:
                raise _wrong(
                    f"idxList[{position}]",
                    index,
                    group,
                    f"more than the index before it, {indices[position - 1]}",
                )
            indices[position] = index
        self._by_index[group] = SplitStrategy(last_indices=tuple(indices))

    def set_by_size(self, group: str, percentages: list[float]) -> None:
        """Cuts by shares of the gradients' bytes. Goes before a strategy by index.

        Args:
            group: a group that exists.
            percentages: share of each segment: 1 to 8 numbers, 0 or more, that sum to 100.

        Raises:
            ValueError: the shares are not that.
        """
        shares = _checked_list("dataSizeList", percentages, group)
        for position, share in enumerate(shares):
            number = _number(share)
            if number is None or not 0 <= number <= 100:
                raise _wrong(f"dataSizeList[{position}]", share, group, "a percentage, 0 to 100")
            shares[position] = number
        total = math.fsum(shares)
        if abs(total - 100) > _SUM_TOLERANCE:
            raise ValueError(
                f"dataSizeList of group {group!r} is {percentages}, which sums to {total:g}. The "
                f"percentages must sum to 100."
            )
        self._by_size[group] = SplitStrategy(percentages=tuple(shares))

    def of(self, group: str) -> SplitStrategy:
        """Returns the strategy of a group: by size if set, else by index, else the default."""
        return self._by_size.get(group) or self._by_index.get(group) or DEFAULT

    def to_native(self) -> dict[str, dict[str, list[Any]]]:
        """Returns the strategies by group, as the graph passes take them."""
        return {
            group: {
                "last_indices": list(self.of(group).last_indices),
                "percentages": list(self.of(group).percentages),
            }
            for group in {**self._by_index, **self._by_size}
        }

    def forget(self, group: str) -> None:
        """Drops the strategies of a group that is destroyed."""
        self._by_index.pop(group, None)
        self._by_size.pop(group, None)

    def forget_all(self) -> None:
        """Drops the strategies of all groups."""
        self._by_index.clear()
        self._by_size.clear()


def _checked_list(name: str, values: Any, group: str) -> list[Any]:
    if not isinstance(values, list):
        raise _wrong(name, values, group, "a list")
    if not 1 <= len(values) <= MAX_SEGMENTS:
        raise _wrong(name, values, group, f"a list of 1 to {MAX_SEGMENTS} segments")
    return list(values)


def _wrong(name: str, found: Any, group: str, allowed: str) -> ValueError:
    return ValueError(f"{name} of group {group!r} is {found!r}, allowed is {allowed}.")


def _integer(value: Any) -> int | None:
    """The value as an int, NumPy's integers included; None for bool and all else."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _number(value: Any) -> float | None:
    """The value as a float, NumPy's numbers included; None for bool, text and all else."""
    if isinstance(value, (bool, str, bytes)):
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None

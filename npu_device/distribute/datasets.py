"""Ranks whose data differs in length. Not in the original."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np
import tensorflow as tf

from npu_device._core import groups
from npu_device.distribute import objects

__all__ = ["min_steps"]


def min_steps(dataset: Any, group: str = "hccl_world_group") -> int:
    """Returns how many batches every rank can take: the smallest of the ranks' numbers.

    Ranks that take more batches than others wait for ever in the collectives of the batches that
    the others do not have. With this number all stop together:

        steps = npu.distribute.min_steps(dataset)
        model.fit(dataset.take(steps))

    All ranks of the group call it.

    Args:
        dataset: this rank's tf.data.Dataset of batches, or anything that has a length, or their
            number. A dataset whose length TensorFlow does not know is read once; one that repeats
            for ever leaves the decision to the other ranks.
        group: name of the group.

    Returns:
        The smallest number, the same on all ranks.

    Raises:
        TypeError: `dataset` is none of these; on this rank.
        ValueError: it is a negative number, on this rank; or the datasets of all ranks repeat for
            ever, on every rank.
    """
    numbers = objects.allgather_object(_steps(dataset), group)
    finite = [number for number in numbers if number is not None]
    if not finite:
        raise ValueError(
            f"min_steps in group {group!r}: the datasets of all {groups.rank_size(group)} ranks "
            f"repeat for ever. Choose a number of steps, or leave out repeat()."
        )
    return min(finite)


def _steps(dataset: Any) -> Optional[int]:
    """Returns the number of batches, None for infinitely many."""
    if isinstance(dataset, (int, np.integer)) and not isinstance(dataset, bool):
        if dataset < 0:
            raise ValueError(f"min_steps: a number of batches is 0 or more, got {dataset}.")
        return int(dataset)
    if not isinstance(dataset, tf.data.Dataset):
        if hasattr(dataset, "__len__") and not isinstance(dataset, (str, bytes)):
            return len(dataset)
        raise TypeError(
            f"min_steps: dataset must be a tf.data.Dataset, have a length, or be a number of "
            f"batches, got {dataset!r}."
        )
    known = int(tf.data.experimental.cardinality(dataset))
    if known == tf.data.experimental.INFINITE_CARDINALITY:
        return None
    if known == tf.data.experimental.UNKNOWN_CARDINALITY:
        return sum(1 for _ in dataset)
    return known

"""Keras callbacks for several ranks: averages, stopping and checkpoints. Not in the original.

Pass the same ones on every rank, in the same order.
"""

from __future__ import annotations

import collections.abc
from typing import Any, Dict, Optional

import tensorflow as tf

from npu_device._core import groups
from npu_device._core.keras_callback import ForAnyKeras
from npu_device.distribute import objects

__all__ = ["MetricAverageCallback", "SyncEarlyStopping", "SyncModelCheckpoint", "average_metrics"]


def average_metrics(logs: Dict[str, Any], group: str = groups.WORLD) -> Dict[str, Any]:
    """Returns the mean of the ranks' metrics. Not in the original.

    Args:
        logs: numbers by name; the same names on all ranks. What is no number stays as it is.
        group: the ranks, which all call.

    Returns:
        The means: float, the same on all ranks, bit for bit.

    Raises:
        TypeError: `logs` is no mapping; on this rank.
        ValueError: ranks have different names; on every rank.
    """
    if not isinstance(logs, collections.abc.Mapping):
        raise TypeError(f"average_metrics: logs must map names to numbers, got {logs!r}.")
    numbers = {name: float(value) for name, value in logs.items() if _is_number(value)}
    everyones = objects.allgather_object(numbers, group)
    for rank, other in enumerate(everyones):
        if sorted(other) != sorted(everyones[0]):
            raise ValueError(
                f"average_metrics in group {group!r}: rank 0 has {sorted(everyones[0])}, rank "
                f"{rank} has {sorted(other)}. All ranks must pass the same metrics: is validation "
                f"data given on some ranks only?"
            )
    means = {name: sum(one[name] for one in everyones) / len(everyones) for name in everyones[0]}
    return {name: means.get(name, value) for name, value in logs.items()}


class MetricAverageCallback(ForAnyKeras, tf.keras.callbacks.Callback):
    """Gives callbacks after it, and the history, the ranks' mean metrics. Not in the original.

    Each rank computes its metrics over its own rows. At the end of an epoch they are averaged, each
    rank counting the same.

    Args:
        group: the ranks that fit the model.
    """

    def __init__(self, group: str = groups.WORLD) -> None:
        super().__init__()
        self._npu_group = groups.check_name(group)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Averages.

        Args:
            epoch: its number.
            logs: the metrics, changed in place.
        """
        del epoch
        if logs:
            logs.update(average_metrics(logs, self._npu_group))


class SyncEarlyStopping(ForAnyKeras, tf.keras.callbacks.EarlyStopping):
    """tf.keras.callbacks.EarlyStopping that stops all ranks in the same epoch. Not in the original.

    The value that it watches is the mean of the ranks' values. If any callback before it has told
    one rank to stop, all stop.

    Args:
        *args: those of tf.keras.callbacks.EarlyStopping.
        group: the ranks that fit the model.
        **kwargs: those of tf.keras.callbacks.EarlyStopping.
    """

    def __init__(self, *args: Any, group: str = groups.WORLD, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._npu_group = groups.check_name(group)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Decides with the other ranks.

        Args:
            epoch: its number.
            logs: the metrics.
        """
        super().on_epoch_end(epoch, average_metrics(logs or {}, self._npu_group))
        # Keras keeps no flag before something sets it.
        stops = bool(getattr(self.model, "stop_training", False))
        if any(objects.allgather_object(stops, self._npu_group)):
            self.model.stop_training = True


class SyncModelCheckpoint(ForAnyKeras, tf.keras.callbacks.ModelCheckpoint):
    """tf.keras.callbacks.ModelCheckpoint that one rank writes. Not in the original.

    At the end of an epoch the ranks' mean metrics decide whether a model is the best, rank 0 of the
    group writes it, and the others go on when it is written, so that each may read it.

    Args:
        *args: those of tf.keras.callbacks.ModelCheckpoint.
        group: the ranks that fit the model.
        **kwargs: those of tf.keras.callbacks.ModelCheckpoint.
    """

    def __init__(self, *args: Any, group: str = groups.WORLD, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._npu_group = groups.check_name(group)

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Saves if it is time.

        Args:
            epoch: its number.
            logs: the metrics.
        """
        super().on_epoch_end(epoch, average_metrics(logs or {}, self._npu_group))
        objects.allgather_object(None, self._npu_group)

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if groups.rank_id(self._npu_group) == 0:
            super()._save_model(*args, **kwargs)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True

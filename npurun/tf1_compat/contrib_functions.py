"""Names of tf.contrib that TensorFlow 2 has as an argument of another function."""

from __future__ import annotations

from typing import Any, Callable


def batch_and_drop_remainder(batch_size: Any) -> Callable[[Any], Any]:
    """tf.contrib.data.batch_and_drop_remainder: for Dataset.apply."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(
    batch_size: Any, padded_shapes: Any, padding_values: Any = None
) -> Callable[[Any], Any]:
    """tf.contrib.data.padded_batch_and_drop_remainder: for Dataset.apply."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )

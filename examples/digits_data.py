"""scikit-learn's handwritten digits, split the same way for every number of ranks.

A step's global batch depends on the step alone. Each rank takes its own rows of it, so N ranks
together see in every step what one process would see by itself.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

# Divisible by every rank count up to 6, and by 8, 10, 12, 15, 16: shards then have equal sizes, and
# the mean of the shards' mean gradients is the mean gradient of the whole batch.
GLOBAL_BATCH = 240


def load():
    """Returns train images, train labels, test images, test labels.

    Images are float32 [rows, 64] in [0, 1], labels int64 [rows].
    """
    digits = load_digits()
    images = (digits.images.reshape(-1, 64) / 16.0).astype(np.float32)
    labels = digits.target.astype(np.int64)
    order = np.random.RandomState(0).permutation(len(labels))
    images, labels = images[order], labels[order]
    return images[:1440], labels[:1440], images[1440:], labels[1440:]


def shard_of_batch(step, rows, rank, rank_size):
    """Returns the row numbers that `rank` takes in `step`: int64 [GLOBAL_BATCH / rank_size]."""
    if GLOBAL_BATCH % rank_size:
        raise ValueError(
            "the global batch of %d rows does not split evenly over %d ranks"
            % (GLOBAL_BATCH, rank_size)
        )
    steps_per_epoch = rows // GLOBAL_BATCH
    order = np.random.RandomState(1 + step // steps_per_epoch).permutation(rows)
    start = (step % steps_per_epoch) * GLOBAL_BATCH
    batch = order[start : start + GLOBAL_BATCH]
    share = GLOBAL_BATCH // rank_size
    return batch[rank * share : (rank + 1) * share]

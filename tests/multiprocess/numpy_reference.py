"""What every collective must return, in NumPy: the answer book of the multi-process tests.

Written from the contract alone: sums run in rank order, float16 and bfloat16 are accumulated in
float32 and rounded once, integers wrap, min and max propagate NaN.
"""

from __future__ import annotations

import numpy as np


def reduce_in_rank_order(values, reduction):
    """Reduces a list of arrays (one a rank, equal shapes and dtypes) as the contract says."""
    dtype = values[0].dtype
    # bfloat16 is no NumPy type of its own; its kind is 'V' or 'f' with two bytes.
    half = dtype.itemsize == 2 and dtype.kind not in "iu"
    work = [value.astype(np.float32) if half else value for value in values]
    step = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}[reduction]
    result = work[0].copy()
    with np.errstate(over="ignore", invalid="ignore"):
        for value in work[1:]:
            result = step(result, value, dtype=result.dtype)
        return result.astype(dtype)


def allreduce(inputs, rank, reduction):
    del rank
    return reduce_in_rank_order(inputs, reduction)


def reduce(inputs, rank, reduction, root):
    return reduce_in_rank_order(inputs, reduction) if rank == root else inputs[rank]


def reduce_scatter(inputs, rank, reduction):
    rows = inputs[0].shape[0] // len(inputs)
    return reduce_in_rank_order(inputs, reduction)[rank * rows : (rank + 1) * rows]


def allgather(inputs, rank):
    del rank
    return np.concatenate(inputs, axis=0)


def broadcast(inputs, rank, root):
    del rank
    return inputs[root]


def all_to_all_v(inputs, rank, send_counts, send_displacements, receive_counts, displacements):
    """Arguments after `rank` are [N][N] nested: one vector a rank."""
    counts, places = receive_counts[rank], displacements[rank]
    length = max([c + d for c, d in zip(counts, places)] + [0])
    result = np.zeros([length], inputs[rank].dtype)
    for source, (count, place) in enumerate(zip(counts, places)):
        start = send_displacements[source][rank]
        block = inputs[source].reshape(-1)[start : start + send_counts[source][rank]]
        result[place : place + count] = block
    return result

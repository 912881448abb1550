"""Where the elements of an alltoallv's blocks lie: index arithmetic for its gradient.

A buffer holds one block a rank, block i having `counts[i]` elements from `displacements[i]` on.
Packed order lists the elements of block 0, then those of block 1, and so on, each block whole even
where blocks overlap. All tensors here are int64.
"""

from __future__ import annotations

from typing import Tuple

import tensorflow.compat.v1 as tf


def starts(counts: tf.Tensor) -> tf.Tensor:
    """Returns where each block begins in packed order, [N], from counts [N]."""
    return tf.cumsum(counts, exclusive=True)


def packed_positions(counts: tf.Tensor, displacements: tf.Tensor) -> Tuple[tf.Tensor, tf.Tensor]:
    """Finds the elements of all blocks.

    Args:
        counts: elements of each block, [N].
        displacements: where each block begins in the buffer, [N].

    Returns:
        For each element in packed order, [sum of counts]: its block, and its place in the buffer.
    """
    element = tf.range(tf.reduce_sum(counts))
    # Blocks without elements end where they begin and are passed over. tf.searchsorted is the same
    # op behind a reshape that fails when there are no elements at all.
    block = tf.raw_ops.UpperBound(
        sorted_inputs=tf.cumsum(counts)[tf.newaxis], values=element[tf.newaxis], out_type=tf.int64
    )[0]
    place = element - tf.gather(starts(counts), block) + tf.gather(displacements, block)
    return block, place


def stands(block: tf.Tensor, place: tf.Tensor, size: tf.Tensor) -> tf.Tensor:
    """Says which elements were not overwritten by a later block.

    Args:
        block: see `packed_positions`.
        place: see `packed_positions`.
        size: elements in the buffer, a scalar.

    Returns:
        bool, in packed order.
    """
    last_writer = tf.math.unsorted_segment_max(block, place, size)
    return tf.equal(tf.gather(last_writer, place), block)

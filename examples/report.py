"""What the training examples print and write at their end."""

from __future__ import annotations

import zlib

import numpy as np


def add_arguments(parser, steps):
    """Adds the options that the training examples share to an argparse parser."""
    parser.add_argument("--steps", type=int, default=steps, help="default %(default)s")
    parser.add_argument(
        "--weights-file",
        help="write the weights after the last step to this .npz; {rank} stands for the rank",
    )


def report(rank, rank_size, accuracy, weights, weights_file=None):
    """Prints the accuracy and a sum over the bits of all weights; both are equal on all ranks.

    Args:
        rank: of this process.
        rank_size: number of ranks.
        accuracy: on the test data, in [0, 1].
        weights: a dict from names to arrays.
        weights_file: where to write the weights, with {rank} for the rank; None for nowhere.
    """
    crc = 0
    for name in sorted(weights):
        crc = zlib.crc32(np.ascontiguousarray(weights[name]).tobytes(), crc)
    print(
        "rank %d of %d: accuracy %.4f, weights crc32 %08x" % (rank, rank_size, accuracy, crc),
        flush=True,
    )
    if weights_file:
        np.savez(weights_file.format(rank=rank), **weights)

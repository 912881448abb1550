"""Gradients of collectives by differences: the forward results of all ranks, in NumPy, float64.

The loss is the sum over ranks of local losses that are polynomials in the collectives' results.
Nothing here knows a gradient rule, so none can be wrong in the same way as the code.
"""

from __future__ import annotations

import numpy as np

_STEP = 1e-3


def total_loss(forward, local_loss, inputs):
    """Returns the loss of all ranks.

    Args:
        forward: (inputs, rank) -> the list of that rank's results.
        local_loss: (results, rank) -> its loss.
        inputs: by rank, the list of that rank's arrays.
    """
    return sum(local_loss(forward(inputs, rank), rank) for rank in range(len(inputs)))


def gradients(loss, inputs, rank, step=_STEP):
    """Differentiates a function of all ranks' inputs by those of one rank.

    Args:
        loss: inputs -> number.
        inputs: by rank, the list of that rank's float64 arrays.
        rank: whose.
        step: half the distance of the two points of a difference.

    Returns:
        The list of gradients.
    """
    found = []
    for index, array in enumerate(inputs[rank]):
        gradient = np.zeros_like(array)
        for place in np.ndindex(*array.shape):
            values = []
            for sign in (1, -1):
                moved = [list(arrays) for arrays in inputs]
                moved[rank][index] = array.copy()
                moved[rank][index][place] += sign * step
                values.append(loss(moved))
            gradient[place] = (values[0] - values[1]) / (2 * step)
        found.append(gradient)
    return found


def second_gradients(loss, inputs, directions, rank):
    """Differentiates sum over ranks of <directions, gradient of the loss> by one rank's inputs."""

    def along(inputs_now):
        values = []
        for sign in (1, -1):
            moved = [
                [x + sign * _STEP * v for x, v in zip(arrays, vectors)]
                for arrays, vectors in zip(inputs_now, directions)
            ]
            values.append(loss(moved))
        return (values[0] - values[1]) / (2 * _STEP)

    # A wider step outside: the inner difference has lost half the digits.
    return gradients(along, inputs, rank, step=1e-2)

"""Which rank updates which weights: gradients divided over ranks by their size.

The same gradients in the same order give the same division on every rank.
"""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

NO_RANK = -1


class GradDivisionItem:
    """A gradient with its variable, and the rank that updates it.

    Args:
        grad: the gradient, a tensor or IndexedSlices.
        var: the variable.

    Attributes:
        size: bytes of the gradient, were it dense.
        root_rank_id: the rank that updates the variable, -1 where none has been chosen.

    Source of the contract: CANN TF Adapter API, util.GradDivisionItem.
    """

    def __init__(self, grad: Any, var: Any) -> None:
        self.grad = grad
        self.var = var
        self.size = self._bytes()
        self.root_rank_id = NO_RANK

    def _bytes(self) -> int:
        # A sparse gradient may know its own shape only when it is computed.
        shape = self.var.shape if isinstance(self.grad, tf.IndexedSlices) else self.grad.shape
        if not shape.is_fully_defined():
            shape = self.var.shape
        return int(shape.num_elements()) * int(self.grad.dtype.size)


_items: List[GradDivisionItem] = []


def fair_division(inputs: List[GradDivisionItem], number: int) -> List[GradDivisionItem]:
    """Divides items over ranks: neighbours stay together, and sums of sizes are near each other.

    Args:
        inputs: the items, whose root_rank_id this sets.
        number: how many ranks there are, from 0 to the number of items. Each gets an item.

    Returns:
        The items.

    Raises:
        ValueError: `number` is negative, or above the number of items.

    Source of the contract: CANN TF Adapter API, util.fair_division.
    """
    if not 0 <= number <= len(inputs):
        raise ValueError(
            f"number is {number}, allowed is 0 to {len(inputs)}: each rank updates at least one "
            f"of the {len(inputs)} variables. Train without weight update sharding on more ranks."
        )
    first = 0
    for rank in range(number):
        last = len(inputs) - (number - rank - 1)  # each later rank needs an item
        end = last if rank == number - 1 else _end_of_part(inputs, first, last, number - rank)
        for item in inputs[first:end]:
            item.root_rank_id = rank
        first = end
    return inputs


def _end_of_part(inputs: Sequence[GradDivisionItem], first: int, last: int, parts: int) -> int:
    """Returns where the first of `parts` parts of inputs[first:] ends, `last` at most."""
    rest = sum(item.size for item in inputs[first:])
    taken = inputs[first].size
    end = first + 1
    while end < last:
        size = inputs[end].size
        # In whole numbers: is the sum nearer to the average with the next item, or without it?
        if 2 * parts * taken + parts * size > 2 * rest:
            break
        taken += size
        end += 1
    return end


def add_grads_and_vars(grads_and_vars: Sequence[Tuple[Any, Any]], rank_size: int) -> None:
    """Divides gradients over ranks, in place of those divided before.

    Args:
        grads_and_vars: (gradient, variable) pairs; those whose gradient is None are left out.
        rank_size: number of ranks.

    Raises:
        ValueError: there are fewer gradients than ranks.

    Source of the contract: CANN TF Adapter API, util.add_grads_and_vars.
    """
    found = [GradDivisionItem(grad, var) for grad, var in grads_and_vars if grad is not None]
    _items[:] = fair_division(found, rank_size)


def get_gid_by_grad(grad: Any) -> int:
    """Returns the rank that updates a gradient's variable.

    Args:
        grad: the gradient.

    Returns:
        A world rank; -1 if `add_grads_and_vars` has not seen a gradient of this name.

    Source of the contract: CANN TF Adapter API, util.get_gid_by_grad.
    """
    return _rank_of([item for item in _items if item.grad.name == grad.name])


def get_gid_by_weight(weight: Any) -> int:
    """Returns the rank that updates a variable.

    Args:
        weight: the variable.

    Returns:
        A world rank; -1 if `add_grads_and_vars` has not seen a variable of this name.

    Source of the contract: CANN TF Adapter API, util.get_gid_by_weight.
    """
    return _rank_of([item for item in _items if item.var.name == weight.name])


def get_all_grad_item() -> List[GradDivisionItem]:
    """Returns all gradients that `add_grads_and_vars` has divided, with their ranks.

    Source of the contract: CANN TF Adapter API, util.get_all_grad_item.
    """
    return _items


def _rank_of(items: Sequence[GradDivisionItem]) -> int:
    return items[-1].root_rank_id if items else NO_RANK

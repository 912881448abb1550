"""Which rank updates which weights: gradients divided over ranks by their size.

The same gradients in the same order give the same division on every rank.
"""

from __future__ import annotations

import numbers
from typing import Any, List, Sequence, Tuple

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.argument_checks import check_nonnegative_integer, listed

NO_RANK = -1


class GradDivisionItem:
    """A gradient with its variable, and the rank that updates it.

    Args:
        grad: the gradient, a tensor or IndexedSlices.
        var: the variable.

    Attributes:
        size: bytes of the gradient, were it dense.
        root_rank_id: the rank that updates the variable, -1 where none has been chosen.

    Raises:
        TypeError: `grad` is no gradient, or `var` no variable where its shape is needed.
        ValueError: neither's shape is known.

    Source of the contract: CANN TF Adapter API, util.GradDivisionItem.
    """

    def __init__(self, grad: Any, var: Any) -> None:
        self.grad = grad
        self.var = var
        self.size = self._bytes()
        self.root_rank_id = NO_RANK

    def _bytes(self) -> int:
        sparse = isinstance(self.grad, tf.IndexedSlices)
        if not sparse and not _has_shape(self.grad):
            raise TypeError(
                f"GradDivisionItem: grad is {self.grad!r}, allowed is a tensor or IndexedSlices."
            )
        # A sparse gradient may know its own shape only when it is computed.
        shape = None if sparse else self.grad.shape
        if shape is None or not shape.is_fully_defined():
            if not _has_shape(self.var):
                raise TypeError(f"GradDivisionItem: var is {self.var!r}, allowed is a variable.")
            shape = self.var.shape
        if not shape.is_fully_defined():
            raise ValueError(
                f"GradDivisionItem: grad {self.grad!r} and var {self.var!r} have no known shape, "
                f"which says how large they are. Give the variable one."
            )
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
        TypeError: `inputs` is no list of GradDivisionItems, or `number` no integer.
        ValueError: `number` is negative, or above the number of items.

    Source of the contract: CANN TF Adapter API, util.fair_division.
    """
    _check_items(inputs)
    if isinstance(number, bool) or not isinstance(number, numbers.Integral):
        raise TypeError(f"fair_division: number is {number!r}, allowed is an int of 0 or more.")
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
        TypeError: grads_and_vars is no list of pairs, a gradient or variable is none, or rank_size
            is no integer.
        ValueError: there are fewer gradients than ranks, or rank_size is negative.

    Source of the contract: CANN TF Adapter API, util.add_grads_and_vars.
    """
    check_nonnegative_integer(rank_size, "rank_size")
    pairs = "(gradient, variable) pairs"
    grads_and_vars = listed("add_grads_and_vars", "grads_and_vars", grads_and_vars, pairs)
    for pair in grads_and_vars:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"add_grads_and_vars: grads_and_vars holds {pair!r}, allowed are {pairs}."
            )
        if pair[0] is not None and getattr(pair[1], "name", None) is None:
            raise TypeError(
                f"add_grads_and_vars: grads_and_vars holds {pair!r}, whose second is no variable."
            )
    found = [GradDivisionItem(grad, var) for grad, var in grads_and_vars if grad is not None]
    _items[:] = fair_division(found, rank_size)


def get_gid_by_grad(grad: Any) -> int:
    """Returns the rank that updates a gradient's variable.

    Args:
        grad: the gradient.

    Returns:
        A world rank; -1 if `add_grads_and_vars` has not seen a gradient of this name.

    Raises:
        TypeError: `grad` has no name, as nothing has that is executed eagerly.

    Source of the contract: CANN TF Adapter API, util.get_gid_by_grad.
    """
    name = _name_of("get_gid_by_grad: grad", grad, "a gradient")
    return _rank_of([item for item in _items if item.grad.name == name])


def get_gid_by_weight(weight: Any) -> int:
    """Returns the rank that updates a variable.

    Args:
        weight: the variable.

    Returns:
        A world rank; -1 if `add_grads_and_vars` has not seen a variable of this name.

    Raises:
        TypeError: `weight` has no name.

    Source of the contract: CANN TF Adapter API, util.get_gid_by_weight.
    """
    name = _name_of("get_gid_by_weight: weight", weight, "a variable")
    return _rank_of([item for item in _items if item.var.name == name])


def get_all_grad_item() -> List[GradDivisionItem]:
    """Returns all gradients that `add_grads_and_vars` has divided, with their ranks.

    Source of the contract: CANN TF Adapter API, util.get_all_grad_item.
    """
    return _items


def _check_items(inputs: Any) -> None:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"fair_division: inputs is {inputs!r}, allowed is a list of GradDivisionItems."
        )
    for item in inputs:
        if not isinstance(item, GradDivisionItem):
            raise TypeError(f"fair_division: inputs holds {item!r}, allowed are GradDivisionItems.")


def _has_shape(value: Any) -> bool:
    return isinstance(getattr(value, "shape", None), tf.TensorShape)


def _name_of(what: str, value: Any, wanted: str) -> str:
    # Tensors raise AttributeError where they are executed eagerly.
    name = getattr(value, "name", None)
    if name is None:
        raise TypeError(f"{what} is {value!r}, allowed is {wanted} of a graph.")
    return name


def _rank_of(items: Sequence[GradDivisionItem]) -> int:
    return items[-1].root_rank_id if items else NO_RANK

"""Weight update sharding: each rank updates some of the variables, and sends them to the others.

A variable's gradient is reduced to its owner only, which applies it and broadcasts the variable.
What the optimizer keeps for it (momentum and the like) travels with it, so that a checkpoint of any
rank is whole.
"""

from __future__ import annotations

from typing import Any, Dict, List, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core import collectives, gradient_reduction, groups, value_reduction
from npu_device._core.gradient_reduction import GradientAndVariable


class Owners:
    """Which rank of a group owns which variable."""

    def __init__(self) -> None:
        self._by_variable: Dict[int, int] = {}
        # The keys are ids of these, which must not be given to others.
        self._variables: List[Any] = []

    def assign(self, variables: Sequence[Any], ranks: int) -> None:
        """Divides variables over ranks so that each has about the same number of bytes.

        Args:
            variables: in the same order on all ranks.
            ranks: their number.

        Raises:
            ValueError: there are fewer variables than ranks.
        """
        if len(variables) < ranks:
            raise ValueError(
                f"Weight update sharding needs a variable with a gradient for each rank: there are "
                f"{len(variables)} such variables and {ranks} ranks. Pass "
                f"is_weight_update_sharding=False, or start fewer ranks."
            )
        loads = [(0, 0)] * ranks  # bytes, variables
        largest_first = sorted(range(len(variables)), key=lambda i: (-_bytes(variables[i]), i))
        for i in largest_first:
            rank = min(range(ranks), key=lambda r: (loads[r], r))
            loads[rank] = (loads[rank][0] + _bytes(variables[i]), loads[rank][1] + 1)
            self._by_variable[id(variables[i])] = rank
        self._variables.extend(variables)

    def knows(self, variables: Sequence[Any]) -> bool:
        """Returns whether all of the variables have an owner."""
        return all(id(variable) in self._by_variable for variable in variables)

    def of(self, variable: Any) -> int:
        """Returns a variable's owner."""
        return self._by_variable[id(variable)]


def reduce_to_owners(
    grads_and_vars: Sequence[GradientAndVariable], owners: Owners, group: str, scope: str
) -> List[GradientAndVariable]:
    """Gives each gradient's mean over the ranks to the owner of its variable.

    Args:
        grads_and_vars: gradients (dense, IndexedSlices or None) and their variables.
        owners: learns who owns what.
        group: the ranks.
        scope: the name scope of the ops.

    Returns:
        Pairs as they came. The gradient of a variable that another rank owns is this rank's own;
        a sparse one is the mean on every rank, since its rows are not summed anywhere.

    Raises:
        ValueError: there are fewer variables than ranks.
    """
    ranks = groups.rank_size(group)
    pairs = list(grads_and_vars)
    owners.assign([v for g, v in pairs if g is not None], ranks)
    sparse = [(g, v) for g, v in pairs if isinstance(g, tf.IndexedSlices)]
    joined = iter(gradient_reduction.reduce_gradients(sparse, group=group, scope=scope))
    reduced: List[GradientAndVariable] = []
    with gradient_reduction.root_scope(scope):
        for gradient, variable in pairs:
            if isinstance(gradient, tf.IndexedSlices):
                gradient, _ = next(joined)
            elif gradient is not None and not gradient_reduction.is_reduced(gradient, group):
                owner = owners.of(variable)
                # One exchange for each owner.
                total = collectives.reduce(
                    gradient,
                    "sum",
                    owner,
                    fusion=2,
                    fusion_id=owner,
                    group=group,
                    name=f"HcomReduce/{gradient_reduction.op_name(variable)}",
                )
                if owner == groups.rank_id(group):
                    total = value_reduction.divided(total, ranks)
                gradient = gradient_reduction.mark_reduced(total, group)
            reduced.append((gradient, variable))
    return reduced


def apply_sharded(
    optimizer: Any,
    grads_and_vars: Sequence[GradientAndVariable],
    owners: Owners,
    group: str,
    global_step: Any,
    name: Any,
) -> Any:
    """Applies the gradients of own variables, and exchanges all.

    Args:
        optimizer: a tf.train.Optimizer, which applies.
        grads_and_vars: what `reduce_to_owners` returned, or gradients that all ranks have.
        owners: of the variables. Divides them if they have none.
        group: the ranks.
        global_step: a variable that counts steps, or None.
        name: of the op that applies.

    Returns:
        The op; None eagerly.

    Raises:
        ValueError: there are fewer variables than ranks.
    """
    pairs = [(g, v) for g, v in grads_and_vars if g is not None]
    variables = [v for _, v in pairs]
    if not owners.knows(variables):
        owners.assign(variables, groups.rank_size(group))
    rank = groups.rank_id(group)
    with tf.init_scope():
        # On all ranks for all variables: graphs, checkpoints and broadcasts must not differ.
        optimizer._create_slots(variables)
    own = [(g, v) for g, v in pairs if owners.of(v) == rank]
    applied = optimizer.apply_gradients(own, global_step, name)
    # Ranks that do not own a variable have no use for its gradient, but must take part in the
    # exchanges that it comes from.
    finished: List[Any] = [part for g, _ in pairs for part in _parts(g)]
    if not tf.executing_eagerly():
        finished.append(applied)
    scope = gradient_reduction.root_scope("Broadcast_Weight_Update_Sharding")
    with tf.control_dependencies(finished), scope:
        for owner in range(groups.rank_size(group)):
            sent = _with_slots(optimizer, [v for v in variables if owners.of(v) == owner])
            if not sent:
                continue
            # Read here: a ref variable as an op's input may be a value from before the update.
            values = collectives.broadcast(
                [variable.read_value() for variable in sent],
                owner,
                fusion=0,
                group=group,
                name=f"HcomBroadcast_from_{owner}",
            )
            if owner == rank:
                finished.extend(values)
            else:
                finished.extend(variable.assign(new) for variable, new in zip(sent, values))
    return tf.group(*finished)


def _with_slots(optimizer: Any, variables: Sequence[Any]) -> List[Any]:
    """Returns variables and what an optimizer keeps for each."""
    slots = [
        optimizer.get_slot(variable, slot)
        for slot in sorted(optimizer.get_slot_names())
        for variable in variables
    ]
    return list(variables) + [slot for slot in slots if slot is not None]


def _bytes(variable: Any) -> int:
    elements = variable.shape.num_elements()
    return int(elements or 0) * int(variable.dtype.base_dtype.size)


def _parts(gradient: Any) -> List[tf.Tensor]:
    """Returns the tensors that a gradient consists of."""
    if isinstance(gradient, tf.IndexedSlices):
        return [gradient.values, gradient.indices]
    return [gradient]

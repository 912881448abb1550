"""Weight update grouping: each rank updates some of the variables, and sends them to the others."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core import collectives, gradient_reduction, groups, model_broadcast, op_arguments
from npu_device._core.autograph import unconverted
from npu_device._core.distributed_optimizers import Reducing
from npu_device.distribute import hccl
from npu_device.npu_device import global_npu_ctx, npu_compat_function

__all__ = [
    "GroupingVars",
    "global_npu_ctx",
    "grouping_broadcast",
    "grouping_gradients_apply",
    "hccl",
    "npu_compat_function",
]

_NO_RANK = -1


class GroupingVars:
    """Which rank updates which variable: runs of neighbours of about the same number of bytes.

    Args:
        variables: in the same order on all ranks; None entries are left out.
        rank_size: number of ranks, 1 to the number of variables.

    Raises:
        ValueError: `rank_size` is none of these.

    Source of the contract: CANN TF Adapter API, npu.distribute.grouping_gradients_apply.
    """

    def __init__(self, variables: Iterable[Any], rank_size: int) -> None:
        self._vars = [variable for variable in variables if variable is not None]
        if not 1 <= rank_size <= len(self._vars):
            raise ValueError(
                f"Weight update grouping gives each rank a variable at least: rank_size is "
                f"{rank_size}, allowed is 1 to {len(self._vars)}, the number of variables. Apply "
                f"the gradients on all ranks instead, or start fewer ranks."
            )
        self._ranks = _divide([_bytes(variable) for variable in self._vars], rank_size)

    def get_gid_by_var(self, var: Any) -> int:
        """Returns the rank that updates a variable; -1 for one that is not known."""
        for known, rank in zip(self._vars, self._ranks):
            if known is var:
                return rank
        return _NO_RANK


@unconverted
def grouping_gradients_apply(
    apply_func: Callable, grads_and_vars: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Applies the gradients of this rank's variables, and gets the others from their ranks.

    In a world of one rank it is `apply_func(grads_and_vars, *args, **kwargs)`. What the optimizer
    keeps for a variable (momentum and the like) is right on the rank that updates it only: use
    this for runs that need no optimizer state in their checkpoints.

    Args:
        apply_func: applies pairs, such as `optimizer.apply_gradients`. The gradients are those that
            all ranks have reduced; if the optimizer reduces itself (see
            npu_distributed_keras_optimizer_wrapper), it does so here.
        grads_and_vars: pairs of gradient and variable, in the same order on all ranks. Where the
            gradient is None, the variable is left alone.
        *args: passed to `apply_func`.
        **kwargs: passed to `apply_func`.

    Returns:
        In a graph the op that does all of it; eagerly None.

    Raises:
        TypeError: `apply_func` cannot be called, or `grads_and_vars` are no pairs.
        ValueError: fewer variables have gradients than there are ranks.

    Source of the contract: CANN TF Adapter API, npu.distribute.grouping_gradients_apply.
    """
    pairs = list(grads_and_vars)
    if not callable(apply_func):
        raise TypeError(
            f"grouping_gradients_apply: apply_func must be a function that applies pairs of "
            f"gradient and variable, such as optimizer.apply_gradients, got {apply_func!r}."
        )
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise TypeError(
                f"grouping_gradients_apply: grads_and_vars must be pairs of gradient and variable, "
                f"got {pair!r} among them. Use zip(gradients, variables)."
            )
    ranks = groups.rank_size(groups.WORLD)
    if ranks == 1:
        return apply_func(pairs, *args, **kwargs)
    optimizer = getattr(apply_func, "__self__", None)
    if isinstance(optimizer, Reducing):
        pairs = optimizer._npu_reduced(pairs)
    pairs = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
    variables = [variable for _, variable in pairs]
    division = GroupingVars(variables, ranks)
    own_rank = groups.rank_id(groups.WORLD)
    if optimizer is not None:
        with tf.init_scope():
            # For all variables on all ranks: what ranks broadcast later must not differ.
            model_broadcast.create_optimizer_variables(optimizer, variables)
    own = [pair for pair in pairs if division.get_gid_by_var(pair[1]) == own_rank]
    if isinstance(optimizer, Reducing):
        with optimizer._npu_reduced_outside():
            applied = apply_func(own, *args, **kwargs)
    else:
        applied = apply_func(own, *args, **kwargs)
    if tf.executing_eagerly():
        _broadcast(variables, division, ranks)
        return None
    # Ranks that do not update a variable must take part in the exchange of its gradient.
    first = [applied] if isinstance(applied, (tf.Operation, tf.Tensor)) else []
    for gradient, _ in pairs:
        first += [gradient.values, gradient.indices] if _sparse(gradient) else [gradient]
    with tf.control_dependencies(first):
        return tf.group(*first, *_broadcast(variables, division, ranks))


@unconverted
def grouping_broadcast(variables: Sequence[Any]) -> Any:
    """Gives all ranks each variable's value on the rank that updates it.

    Args:
        variables: those whose gradients `grouping_gradients_apply` applies, in the same order.

    Returns:
        In a world of one rank, and eagerly, the variables; in a graph the op that does it.

    Raises:
        TypeError: `variables` is no list or tuple.
        ValueError: there are fewer variables than ranks.

    Source of the contract: CANN TF Adapter API, npu.distribute.grouping_broadcast.
    """
    if not isinstance(variables, (list, tuple)):
        raise TypeError(
            f"grouping_broadcast: variables must be a list of variables, got {variables!r}."
        )
    ranks = groups.rank_size(groups.WORLD)
    if ranks == 1:
        return variables
    sent = _broadcast(list(variables), GroupingVars(variables, ranks), ranks)
    return variables if tf.executing_eagerly() else tf.group(*sent)


def _broadcast(variables: List[Any], division: GroupingVars, ranks: int) -> List[Any]:
    by_rank: Dict[int, List[Any]] = {rank: [] for rank in range(ranks)}
    for variable in variables:
        by_rank[division.get_gid_by_var(variable)].append(variable)
    sent: List[Any] = []
    with gradient_reduction.root_scope("Broadcast_Weight_Update_Grouping"):
        for rank, own in by_rank.items():
            name = f"HcomBroadcast_from_{rank}"
            sent += collectives.broadcast(own, rank, fusion=0, fusion_id=-1, name=name)
    return sent


def _sparse(gradient: Any) -> bool:
    return isinstance(gradient, tf.IndexedSlices)


def _divide(sizes: List[int], parts: int) -> List[int]:
    """Returns the part of each of some neighbours, so that parts are about equally large.

    Args:
        sizes: their sizes.
        parts: how many, none of which is empty.
    """
    chosen: List[int] = []
    for part in range(parts):
        left = sizes[len(chosen) :]
        later = parts - part - 1
        share = sum(left) / (later + 1)
        taken, total = 0, 0
        while len(left) - taken > later:
            # The rest must go somewhere, and a size goes to where more of it fits.
            if later and taken and total + left[taken] / 2 > share:
                break
            total += left[taken]
            taken += 1
        chosen += [part] * taken
    return chosen


def _bytes(variable: Any) -> int:
    inner = op_arguments.keras_variable(variable)
    return int(inner.shape.num_elements() or 0) * int(inner.dtype.base_dtype.size)

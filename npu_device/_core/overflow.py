"""Whether all gradients of a step are finite, on all ranks: what loss scaling decides by.

Ranks must decide alike, or some would update their weights while others skip the step. So each
first tells the others, in one tiny allreduce that every rank reaches in every step.
"""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional

import tensorflow.compat.v1 as tf

from npu_device._core import collectives, gradient_reduction, groups


def all_finite(
    gradients: Iterable[Any], group: Optional[str] = None, name: str = "all_gradients_finite"
) -> tf.Tensor:
    """Returns whether no gradient holds an infinity or NaN on any rank of a group.

    Args:
        gradients: dense, IndexedSlices, or None; of any dtype.
        group: the ranks that decide together; None for this rank alone.
        name: of the exchange, equal on all ranks.

    Returns:
        bool, []; equal on all ranks of the group.
    """
    flags = [
        tf.reduce_all(tf.is_finite(values))
        for values in (_values(gradient) for gradient in gradients if gradient is not None)
        if values.dtype.is_floating or values.dtype.is_complex
    ]
    here = tf.reduce_all(tf.stack(flags)) if flags else tf.constant(True)
    if group is None or groups.rank_size(group) == 1:
        return here
    with gradient_reduction.root_scope("Loss_Scale"):
        flag = tf.cast(here, tf.int32)
        return tf.equal(collectives.all_reduce(flag, "min", group=group, name=name), 1)


def only_if(finite: tf.Tensor, apply: Callable[[], Any]) -> Any:
    """Runs an update in steps whose gradients are finite, and nothing in others.

    Args:
        finite: bool, []; what `all_finite` returned.
        apply: makes the update; called once in a graph.

    Returns:
        The op of both cases; None eagerly.
    """
    return tf.cond(finite, apply, tf.no_op)


def _values(gradient: Any) -> tf.Tensor:
    if isinstance(gradient, tf.IndexedSlices):
        gradient = gradient.values
    return tf.convert_to_tensor(gradient)

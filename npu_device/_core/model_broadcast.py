"""Sends everything that a Keras model trains with from one rank to all.

That is its weights with what batch normalization keeps, and its optimizer's variables: slots, the
count of iterations and the learning rate. A rank that restored a checkpoint so brings all others to
where it is.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterable, List, Sequence

import tensorflow.compat.v1 as tf

from npu_device._core import collectives, common_names, gradient_reduction, groups, op_arguments
from npu_device._core.op_arguments import Variable


def model_variables(model: Any) -> List[Any]:
    """Returns the variables of a model and of its optimizer, each once, in a fixed order.

    Args:
        model: a tf.keras.Model; need not be compiled.
    """
    optimizer = getattr(model, "optimizer", None)
    weights = list(model.weights)
    return _unique(weights + ([] if optimizer is None else optimizer_variables(optimizer, weights)))


def is_built(model: Any) -> bool:
    """Returns whether a model has its weights, which some get with their first batch."""
    return bool(getattr(model, "built", True) and model.weights)


def optimizer_variables(optimizer: Any, weights: Sequence[Any] = ()) -> List[Any]:
    """Returns what an optimizer of tf.train or Keras keeps in variables.

    Args:
        optimizer: an optimizer; those that it wraps count as well.
        weights: those of the model, which give the order of what is kept for each.
    """
    found: List[Any] = []
    for inner in ("inner_optimizer", "optimizer", "_optimizer", "_opt"):
        wrapped = optimizer.__dict__.get(inner)
        if wrapped is not None:
            found += optimizer_variables(wrapped, weights)
    iterations = getattr(optimizer, "iterations", None)
    found += [] if iterations is None else [iterations]
    # Keras 2 keeps the learning rate and the like apart from its weights.
    hyperparameters = getattr(optimizer, "_hyper", None) or {}
    found += [hyperparameters[name] for name in sorted(hyperparameters)]
    found.append(getattr(optimizer, "_learning_rate", None))
    # Loss scaling of Keras 2 keeps its factor apart, too.
    scale = optimizer.__dict__.get("_loss_scale")
    found += [getattr(scale, name, None) for name in ("current_loss_scale", "counter")]
    found += _slots_in_order(optimizer, weights)
    variables = getattr(optimizer, "variables", ())
    found += list(variables() if callable(variables) else variables)
    return _unique(found)


def create_optimizer_variables(optimizer: Any, trainable: List[Any]) -> None:
    """Makes what Keras optimizers otherwise make when they first apply gradients.

    Args:
        optimizer: an optimizer of Keras, or any other, which is left as it is.
        trainable: the model's trainable variables.
    """
    inner = getattr(optimizer, "inner_optimizer", None)
    # Loss scaling of Keras 3 has variables of its own, and builds the optimizer inside.
    builds_both = hasattr(optimizer, "check_finite") and not getattr(inner, "built", True)
    if inner is not None and not builds_both:
        create_optimizer_variables(inner, trainable)
    elif hasattr(optimizer, "_create_hypers"):
        # As apply_gradients does; the getter of `iterations` makes that variable.
        with tf.name_scope(optimizer._name):
            optimizer.iterations  # noqa: B018
            optimizer._create_hypers()
            optimizer._create_slots(trainable)
    elif hasattr(optimizer, "build") and not getattr(optimizer, "built", False):
        optimizer.build(trainable)


def broadcast(variables: List[Any], root_rank: int, group: str = groups.WORLD) -> Any:
    """Gives variables the root's values.

    Args:
        variables: equal in number, dtypes and shapes on all ranks.
        root_rank: whose values, a rank of the group.
        group: the ranks.

    Returns:
        In a graph the op that does it; eagerly None, and it is done.
    """
    if not variables or groups.rank_size(group) == 1:
        return None if tf.executing_eagerly() else tf.no_op()
    with gradient_reduction.root_scope("Broadcast_Global_Variables"):
        done = tf.group(*collectives.broadcast(variables, root_rank, group=group))
    common_names.agree(variables, root_rank, group)
    return done


def _slots_in_order(optimizer: Any, weights: Sequence[Any]) -> List[Any]:
    """Returns what an older optimizer of Keras 2 keeps for each weight.

    Its own list is in the order in which they were made: a rank that restored a checkpoint has
    another one, in which momentums of equal shapes would get each other's values.
    """
    if not hasattr(optimizer, "_hyper") or not hasattr(optimizer, "get_slot_names"):
        return []
    found: List[Any] = []
    for weight in weights:
        for slot in sorted(optimizer.get_slot_names()):
            with contextlib.suppress(KeyError):  # it has none, such as a frozen weight
                found.append(optimizer.get_slot(weight, slot))
    return found


def _unique(values: Iterable[Any]) -> List[Any]:
    """Returns the variables among the values, without repetitions."""
    seen = set()
    unique = []
    for value in values:
        inner = op_arguments.keras_variable(value)
        if isinstance(inner, Variable) and id(inner) not in seen:
            seen.add(id(inner))
            unique.append(value)
    return unique

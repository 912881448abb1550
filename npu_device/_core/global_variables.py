"""All global variables of a graph, broadcast from one rank."""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Tuple

import tensorflow.compat.v1 as tf

from npu_device._core import collectives, logging

_NAME = "npu_broadcast_global_variables"

# A graph that is finalized already can be broadcast again with the op that it has.
_made: Any = weakref.WeakKeyDictionary()


def broadcast(root_rank: int) -> tf.Operation:
    """Makes the op that gives all global variables of the default graph the root's values.

    Local variables, such as those of metrics, stay each rank's own, and so do variables that hold
    no numbers.

    Args:
        root_rank: world rank whose values they are.

    Returns:
        The op. Running it waits until all ranks run theirs.
    """
    graph = tf.get_default_graph()
    variables = _numbers(tf.global_variables())
    key = (root_rank, tuple(variable.name for variable in variables))
    # By name: a reference to the op would keep the graph.
    known: Dict[Tuple[int, Tuple[str, ...]], str] = _made.setdefault(graph, {})
    if key in known:
        return graph.get_operation_by_name(known[key])
    with tf.init_scope(), tf.name_scope(f"{_NAME}_{root_rank}"):
        results = collectives.broadcast(variables, root_rank)
        op = tf.group(*results, name="all")
    known[key] = op.name
    return op


def _numbers(variables: List[Any]) -> List[Any]:
    seen = set()
    found = []
    for variable in variables:
        if id(variable) in seen:
            continue
        seen.add(id(variable))
        if variable.dtype.base_dtype == tf.string:
            logging.info_from_rank_0(
                "Variable %s holds texts, which are not broadcast: each rank keeps its own.",
                variable.name,
            )
            continue
        found.append(variable)
    return found

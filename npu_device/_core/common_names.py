"""Names of variables that all ranks use, where each calls its own differently.

Gradients are paired by the names of their variables. Keras numbers layers as a process makes them,
so that a rank which has made a further model calls the weights of the next one otherwise. When
ranks broadcast variables they say which belong together, and the root's names become everyone's.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, Sequence

import numpy as np
import tensorflow.compat.v1 as tf

from npu_device._core import collectives, groups, input_names, op_arguments
from npu_device._core.op_arguments import Variable

_COMMON_NAME = "_npu_common_name"


def of(variable: Any) -> str:
    """Returns the name that all ranks use for a variable, by default this rank's own."""
    common = getattr(op_arguments.keras_variable(variable), _COMMON_NAME, None)
    return input_names.name(variable) if common is None else common


def agree(values: Sequence[Any], root_rank: int, group: str) -> None:
    """Makes the root's names of variables those of all ranks, after a broadcast of them.

    Does nothing in a graph, where no rank can know another's names.

    Args:
        values: what was broadcast: equal in number, dtypes and shapes on all ranks.
        root_rank: whose names, a rank of the group.
        group: the ranks.
    """
    ranks = groups.rank_size(group)
    # The same on all ranks: only the root's values need be variables.
    if ranks == 1 or not tf.executing_eagerly() or not values:
        return
    names = [of(value) for value in values]
    digest = hashlib.sha256(json.dumps(names).encode("utf-8")).digest()
    row = np.frombuffer(digest, np.uint8)[np.newaxis]
    everyones = collectives.all_gather(row, ranks, group=group).numpy()
    if (everyones == everyones[root_rank]).all():
        return
    text = json.dumps(names).encode("utf-8") if groups.rank_id(group) == root_rank else b""
    length = int(collectives.all_reduce(np.int64(len(text)), "max", group=group))
    padded = np.frombuffer(text.ljust(length, b" "), np.uint8)
    told = collectives.broadcast(padded, root_rank, group=group).numpy().tobytes()
    for value, name in zip(values, json.loads(told.decode("utf-8"))):
        inner = op_arguments.keras_variable(value)
        if isinstance(inner, Variable) and name:
            setattr(inner, _COMMON_NAME, name)

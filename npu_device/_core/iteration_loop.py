"""Several iterations of a training step inside one Session.run.

What a script trains with is tied to an internal op, `_NpuIterations`, which reads the number of
iterations from a variable. When a session compiles a graph that runs this op, a pass of ours puts
all that the step runs into a loop: input pipeline, forward and backward pass, collectives, updates.
What is fetched with it is of the last iteration.
"""

from __future__ import annotations

import operator
from typing import Any, Optional

import tensorflow.compat.v1 as tf

from npu_device._core import library

#: Name of the variable in its graph.
VARIABLE = "npu_runconfig/iterations_per_loop"

_OP = "_NpuIterations"
_COUNT = VARIABLE + "/count"


def create(train_op: Any) -> tf.Operation:
    """Makes the op that runs a training step several times.

    How often is what `load` was last called with for the session, once before that.

    Args:
        train_op: an operation or tensor of a TF1 graph, or several in a list, tuple or dict.

    Returns:
        An operation of the same graph. Session.run of it runs `train_op`, and everything else that
        is fetched with it, that many times, one after the other; what is fetched has the values of
        the last time. A fetch of `train_op` without it runs once.

    Raises:
        ValueError: `train_op` holds nothing.
        TypeError: it holds what is no operation or tensor of a graph.
    """
    ops = [_operation(one) for one in tf.nest.flatten(train_op)]
    if not ops:
        raise ValueError(f"iterations per loop: expected an op to train with, got {train_op!r}.")
    library.ops()
    graph = ops[0].graph
    # Whatever scopes the caller is in are not the variable's.
    with graph.as_default(), tf.control_dependencies(None), tf.name_scope(None), tf.device("CPU:0"):
        count = _count(graph)
        with tf.control_dependencies(ops):
            return graph.create_op(_OP, [count], [], name="IterationOp")


def load(session: Any, iterations: Any) -> None:
    """Sets how many iterations the steps of a session's graph run.

    Args:
        session: a tf.Session, or one of tf.train's that hands out its graph.
        iterations: at least 1.

    Raises:
        TypeError: `session` is no session, or `iterations` is not an integer.
        ValueError: it is less than 1, or the session's graph has no op of `create`.
    """
    checked = check(iterations)
    if not isinstance(getattr(session, "graph", None), tf.Graph) or not hasattr(session, "run"):
        raise TypeError(f"iterations per loop: expected a session, got {session!r}.")
    variable = iterations_variable(session.graph)
    if variable is None:
        raise ValueError(
            "iterations per loop: the session's graph has no op that runs several iterations. "
            "Call create_iteration_per_loop_var(train_op) on that graph first."
        )
    # A graph may be finalised by now: the initializer's own input takes the value.
    session.run(variable.initializer, {variable.initializer.inputs[1]: checked})


def check(iterations: Any) -> int:
    """Returns a number of iterations as a Python int.

    Raises:
        TypeError: it is not an integer.
        ValueError: it is less than 1 or does not fit 32 bits.
    """
    if isinstance(iterations, bool):
        raise TypeError(f"iterations_per_loop must be an integer, got {iterations!r}.")
    try:
        number = operator.index(iterations)
    except TypeError:
        raise TypeError(f"iterations_per_loop must be an integer, got {iterations!r}.") from None
    if not 1 <= number < 2**31:
        raise ValueError(f"iterations_per_loop must be from 1 to 2147483647, got {number}.")
    return number


def iterations_variable(graph: tf.Graph) -> Optional[tf.Variable]:
    """Returns the variable that holds a graph's iterations per loop; None without one."""
    # By name, so that it is also found in a graph that was imported.
    for variable in graph.get_collection(tf.GraphKeys.LOCAL_VARIABLES):
        if variable.op.name == VARIABLE:
            return variable
    return None


def _count(graph: tf.Graph) -> tf.Tensor:
    """Returns the one tensor that reads that variable; makes both at the first call.

    One tensor, so that two ops of one step ask for the same count.
    """
    if iterations_variable(graph) is None:
        variable = tf.Variable(
            1,
            dtype=tf.int32,
            trainable=False,
            # Local: a checkpoint of a script without the loop must fit one with it.
            collections=[tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
            name=VARIABLE,
        )
        return tf.identity(variable.read_value(), name=_COUNT)
    return graph.get_tensor_by_name(_COUNT + ":0")


def _operation(value: Any) -> tf.Operation:
    operation = value if isinstance(value, tf.Operation) else getattr(value, "op", None)
    if not isinstance(operation, tf.Operation):
        raise TypeError(
            "iterations per loop: expected an operation or tensor of a graph to train with, got "
            f"{value!r}."
        )
    return operation

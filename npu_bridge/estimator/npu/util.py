"""Helpers of training scripts: several steps in a run, checks, attributes of ops and so on."""

from __future__ import annotations

from typing import Any, Dict, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.core.framework import variable_pb2
from tensorflow.python.framework import ops
from tensorflow.python.ops import resource_variable_ops

from npu_bridge.estimator.npu.argument_checks import (
    check_aoe_mode,
    check_bool_type,
    check_nonnegative_integer,
    check_not_none,
    check_path,
    check_positive_integer,
    check_profiling_options,
    convert_bool_to_int,
    format_string,
    listed,
    session,
)
from npu_bridge.estimator.npu.gradient_division import (
    GradDivisionItem,
    add_grads_and_vars,
    fair_division,
    get_all_grad_item,
    get_gid_by_grad,
    get_gid_by_weight,
)
from npu_bridge.estimator.npu.op_attributes import (
    keep_tensors_dtypes,
    set_graph_exec_config,
    set_op_input_tensor_multi_dims,
    set_op_tensor_max_range,
    set_op_tensor_max_size,
)
from npu_bridge.estimator.npu.option_groups import ExperimentalConfig, GraphMemoryOptimizeConfig
from npu_device._core import iteration_loop, runtime

__all__ = [
    "ExperimentalConfig",
    "GradDivisionItem",
    "GraphMemoryOptimizeConfig",
    "IterationPerLoop",
    "add_grads_and_vars",
    "check_aoe_mode",
    "check_bool_type",
    "check_nonnegative_integer",
    "check_not_none",
    "check_path",
    "check_positive_integer",
    "check_profiling_options",
    "convert_bool_to_int",
    "create_or_get_var",
    "fair_division",
    "format_string",
    "get_all_grad_item",
    "get_gid_by_grad",
    "get_gid_by_weight",
    "get_ranksize",
    "get_value",
    "global_dict_init",
    "keep_tensors_dtypes",
    "npu_compile",
    "register_func",
    "set_graph_exec_config",
    "set_iteration_per_loop",
    "set_op_input_tensor_multi_dims",
    "set_op_tensor_max_range",
    "set_op_tensor_max_size",
    "set_value",
    "variable_initializer_in_host",
]

_COLLECTION_PREFIX = "npu_runconfig"
_global_dict: Dict[Any, Any] = {}


def register_func(var_name: str) -> None:
    """Lets a graph that is exported keep what `create_or_get_var` made.

    Args:
        var_name: the name that is passed to `create_or_get_var`.

    Raises:
        TypeError: it is no text.

    Source of the contract: CANN TF Adapter API, util.register_func.
    """
    collection = _collection(var_name)
    if ops.get_collection_proto_type(collection) is None:
        ops.register_proto_function(
            collection,
            proto_type=variable_pb2.VariableDef,
            to_proto=lambda variable, export_scope=None: variable.to_proto(export_scope),
            from_proto=resource_variable_ops.ResourceVariable.from_proto,
        )


def create_or_get_var(var_name: str) -> Any:
    """Returns the number that the default graph keeps under a name.

    Args:
        var_name: the name.

    Returns:
        A local resource variable, int64 of shape [], which begins as 0.

    Raises:
        TypeError: the name is no text.

    Source of the contract: CANN TF Adapter API, util.create_or_get_var.
    """
    found = tf.get_default_graph().get_collection(_collection(var_name))
    if found:
        return found[0]
    with tf.init_scope(), tf.variable_scope(_COLLECTION_PREFIX, reuse=tf.AUTO_REUSE):
        return tf.get_variable(
            var_name,
            shape=[],
            dtype=tf.int64,
            initializer=tf.zeros_initializer(),
            trainable=False,
            collections=[_collection(var_name), tf.GraphKeys.LOCAL_VARIABLES],
            use_resource=True,
        )


def set_iteration_per_loop(
    sess: tf.Session, train_op: tf.Operation, iterations_per_loop: int = 1
) -> tf.Operation:
    """Makes an op that trains several steps in one Session.run.

    Each step runs everything that `train_op` needs, collectives and the next batch of an iterator
    included, and what else is fetched in the same Session.run, whose values are those of the last
    step. What is fed stays the same.

    Args:
        sess: the session that will run the op.
        train_op: the op that trains one step.
        iterations_per_loop: number of steps, 1 or more.

    Returns:
        The op to run in place of `train_op`, which is `train_op` itself for one step.

    Raises:
        ValueError: `train_op` is no op, or the number is below 1.
        TypeError: the number is no int, or `sess` no session.

    Source of the contract: CANN TF Adapter API, set_iteration_per_loop.
    """
    _check_train_op(train_op)
    check_positive_integer(iterations_per_loop, "iterations_per_loop")
    if iterations_per_loop == 1:
        return train_op
    session("set_iteration_per_loop", sess)
    looped = iteration_loop.create(train_op)
    iteration_loop.load(sess, iterations_per_loop)
    return looped


class IterationPerLoop:
    """`set_iteration_per_loop` in two steps: the op first, the number when there is a session.

    Source of the contract: CANN TF Adapter API, IterationPerLoop constructor.
    """

    def __init__(self) -> None:
        pass

    def create_iteration_per_loop_var(self, train_op: tf.Operation) -> tf.Operation:
        """Makes an op that trains several steps in one Session.run, see `set_iteration_per_loop`.

        Args:
            train_op: the op that trains one step.

        Returns:
            The op to run in place of `train_op`.

        Raises:
            ValueError: `train_op` is no op.

        Source of the contract: CANN TF Adapter API, create_iteration_per_loop_var.
        """
        _check_train_op(train_op)
        return iteration_loop.create(train_op)

    def load_iteration_per_loop_var(self, sess: tf.Session, iterations_per_loop: int = 1) -> None:
        """Sets how many steps the op trains from now on.

        Args:
            sess: the session that runs the op, after local variables have been initialized.
            iterations_per_loop: number of steps, 1 or more.

        Raises:
            TypeError: the number is no int, or `sess` no session.
            ValueError: the number is below 1, or `create_iteration_per_loop_var` has not been
                called for the session's graph.

        Source of the contract: CANN TF Adapter API, load_iteration_per_loop_var.
        """
        check_positive_integer(iterations_per_loop, "iterations_per_loop")
        session("load_iteration_per_loop_var", sess)
        iteration_loop.load(sess, iterations_per_loop)


def get_ranksize() -> str:
    """Returns the number of ranks.

    Returns:
        A text, as in the original: int(get_ranksize()) is the number.

    Raises:
        ValueError: a variable or the rank table is wrong.

    Source of the contract: CANN TF Adapter API, util.get_ranksize.
    """
    return str(runtime.size())


def variable_initializer_in_host(var_list: Sequence[Any]) -> tf.Operation:
    """Makes an op that initializes variables, on the host as everything here.

    Args:
        var_list: the variables; None for none.

    Returns:
        The op, named var_in_host.

    Raises:
        TypeError: it is no list of variables.

    Source of the contract: CANN TF Adapter API, variable_initializer_in_host.
    """
    where = "variable_initializer_in_host"
    found = [] if var_list is None else listed(where, "var_list", var_list, "variables")
    for one in found:
        if not hasattr(one, "initializer"):
            raise TypeError(f"{where}: var_list holds {one!r}, allowed are variables.")
    return tf.variables_initializer(found, name="var_in_host")


def npu_compile(sess: tf.Session, *fetches: Any) -> None:
    """Runs a graph once, which is what compiles it.

    As in the original, what is fetched is run: ops that change variables change them.

    Args:
        sess: the session.
        *fetches: ops and tensors.

    Raises:
        TypeError: `sess` is no session.

    Source of the contract: CANN TF Adapter API, util.npu_compile.
    """
    session("npu_compile", sess).run(fetches)


def global_dict_init() -> None:
    """Forgets all values that `set_value` has kept.

    Source of the contract: CANN TF Adapter API, util.global_dict_init.
    """
    _global_dict.clear()


def set_value(key: Any, value: Any) -> None:
    """Keeps a value for the whole process.

    Args:
        key: what `get_value` finds it by.
        value: the value.

    Source of the contract: CANN TF Adapter API, util.set_value.
    """
    _global_dict[key] = value


def get_value(key: Any, def_value: Any = None) -> Any:
    """Returns a value that `set_value` has kept.

    Args:
        key: of the value.
        def_value: what to return where there is none.

    Source of the contract: CANN TF Adapter API, util.get_value.
    """
    return _global_dict.get(key, def_value)


def _collection(var_name: str) -> str:
    if not isinstance(var_name, str):
        raise TypeError(f"var_name is {var_name!r}, allowed is a str.")
    return f"{_COLLECTION_PREFIX}_{var_name}"


def _check_train_op(train_op: Any) -> None:
    if not isinstance(train_op, tf.Operation):
        raise ValueError(
            f"train_op is {train_op!r}, allowed is an op, such as optimizer.minimize(loss) returns."
        )

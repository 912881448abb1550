"""Functions of npu_init: what a script puts around its sessions, hooks and optimizers."""

from __future__ import annotations

from typing import Any, Iterable, List, Optional, Tuple

import tensorflow.compat.v1 as tf
from tensorflow.core.protobuf import config_pb2
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from hccl.manage.api import get_local_rank_id, get_local_rank_size, get_rank_id, get_rank_size
from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu import argument_checks, estimator_classes, npu_config, util
from npu_bridge.estimator.npu.npu_callbacks import NPUBroadcastGlobalVariablesCallback
from npu_bridge.estimator.npu.npu_hook import NPUBroadcastGlobalVariablesHook
from npu_bridge.estimator.npu.npu_optimizer import (
    KerasDistributeOptimizer,
    NPUDistributedOptimizer,
)

#: Grappler's optimizers, for scripts that turn them off one by one.
experimental_options = {
    "disable_model_pruning": False,
    "function_optimization": RewriterConfig.ON,
    "constant_folding": RewriterConfig.ON,
    "shape_optimization": RewriterConfig.ON,
    "arithmetic_optimization": RewriterConfig.ON,
    "loop_optimization": RewriterConfig.ON,
    "dependency_optimization": RewriterConfig.ON,
    "layout_optimizer": RewriterConfig.ON,
}


class NpuEmptyHook(tf.train.SessionRunHook):
    """A hook that does nothing.

    Source of the contract: CANN TF Adapter API, npu_init.NpuEmptyHook.
    """


def npu_hooks_append(hooks_list: Iterable[Any] = ()) -> List[Any]:
    """Adds the hook that gives all ranks rank 0's variables.

    Args:
        hooks_list: SessionRunHooks. A list is changed.

    Returns:
        The list, or a new one.

    Raises:
        TypeError: hooks_list is no list, nor anything else that holds hooks.

    Source of the contract: CANN TF Adapter API, npu_hooks_append.
    """
    hooks = _list_of("npu_hooks_append", "hooks_list", hooks_list, "SessionRunHooks")
    hooks.append(NPUBroadcastGlobalVariablesHook(0, get_rank_id()))
    return hooks


def npu_callbacks_append(callbacks_list: Iterable[Any] = ()) -> List[Any]:
    """Adds the Keras callback that gives all ranks rank 0's variables.

    Args:
        callbacks_list: callbacks. A list is changed.

    Returns:
        The list, or a new one.

    Raises:
        TypeError: callbacks_list is no list, nor anything else that holds callbacks.

    Source of the contract: CANN TF Adapter API, npu_callbacks_append.
    """
    callbacks = _list_of(
        "npu_callbacks_append", "callbacks_list", callbacks_list, "Keras callbacks"
    )
    callbacks.append(NPUBroadcastGlobalVariablesCallback(0))
    return callbacks


def npu_config_proto(config_proto: Any = None) -> tf.ConfigProto:
    """Puts NpuOptimizer into the configuration of a session.

    Args:
        config_proto: the configuration, which is changed; a new one for anything else.

    Returns:
        The configuration.

    Source of the contract: CANN TF Adapter API, npu_config_proto.
    """
    if not isinstance(config_proto, config_pb2.ConfigProto):
        config_proto = tf.ConfigProto()
    npu_config.set_for_npu(config_proto)
    return config_proto


def npu_graph_options(graph_options: Any = None) -> tf.GraphOptions:
    """Turns XLA off in graph options.

    Args:
        graph_options: the options, which are changed; new ones for anything else.

    Returns:
        The options.

    Source of the contract: CANN TF Adapter API, npu_graph_options.
    """
    if not isinstance(graph_options, config_pb2.GraphOptions):
        graph_options = tf.GraphOptions()
    npu_optimizer_options(graph_options.optimizer_options)
    return graph_options


def npu_optimizer_options(optimizer_options: Any = None) -> tf.OptimizerOptions:
    """Turns XLA off in optimizer options.

    Args:
        optimizer_options: the options, which are changed; new ones for anything else.

    Returns:
        The options.

    Source of the contract: CANN TF Adapter API, npu_optimizer_options.
    """
    if not isinstance(optimizer_options, config_pb2.OptimizerOptions):
        optimizer_options = tf.OptimizerOptions()
    optimizer_options.global_jit_level = tf.OptimizerOptions.OFF
    return optimizer_options


def npu_run_config_init(run_config: Any = None) -> Any:
    """Puts NpuOptimizer into the sessions' configuration of a tf.estimator.RunConfig.

    Args:
        run_config: the RunConfig, which is changed; a new one for anything else.

    Returns:
        The RunConfig.

    Raises:
        RuntimeError: this TensorFlow has no tf.estimator.

    Source of the contract: CANN TF Adapter API, npu_run_config_init.
    """
    estimator_classes.require("npu_run_config_init")
    if not isinstance(run_config, estimator_classes.RunConfig):
        run_config = estimator_classes.RunConfig()
    run_config._session_config = npu_config_proto(run_config.session_config)
    return run_config


def set_keras_session_npu_config(config: Any = None) -> tf.Session:
    """Makes a session with NpuOptimizer the one that Keras uses.

    Args:
        config: its configuration, which is changed; a new one for anything else.

    Returns:
        The session.

    Raises:
        RuntimeError: this TensorFlow has Keras 3 only, which uses no sessions.

    Source of the contract: CANN TF Adapter API, set_keras_session_npu_config.
    """
    keras_session = tf.Session(config=npu_config_proto(config))
    _keras_backend("set_keras_session_npu_config").set_session(keras_session)
    return keras_session


def npu_clear_session(config: Any = None) -> None:
    """Gives Keras a new graph and a new session with NpuOptimizer.

    Args:
        config: its configuration, which is changed; a new one for anything else.

    Raises:
        RuntimeError: this TensorFlow has Keras 3 only, which uses no sessions.

    Source of the contract: CANN TF Adapter API, npu_clear_session.
    """
    backend = _keras_backend("npu_clear_session")
    backend.clear_session()
    backend.set_session(tf.Session(config=npu_config_proto(config)))


def init_resource(config: Any = None) -> Tuple[tf.Session, Any]:
    """Meets the other ranks of the job.

    Args:
        config: configuration of the session, which is changed; a new one for anything else.

    Returns:
        A session, and the op for `shutdown_resource`.

    Raises:
        tf.errors.DeadlineExceededError: ranks are missing; names them.

    Source of the contract: CANN TF Adapter API, init_resource.
    """
    util.global_dict_init()
    # Where ops run eagerly, there is no default graph that a session could run.
    graph = tf.Graph() if tf.executing_eagerly() else tf.get_default_graph()
    with graph.as_default():
        initialize = npu_ops.initialize_system()
        shutdown = npu_ops.shutdown_system()
        session = tf.Session(config=npu_config_proto(config), graph=graph)
    session.run(initialize)
    util.set_value("npu_rank_id", get_rank_id())
    util.set_value("npu_local_rank_id", get_local_rank_id())
    util.set_value("npu_rank_size", get_rank_size())
    util.set_value("npu_local_rank_size", get_local_rank_size())
    return session, shutdown


def shutdown_resource(sess: tf.Session, npu_shutdown: Any) -> None:
    """Leaves the job.

    Args:
        sess: the session that `init_resource` returned.
        npu_shutdown: the op that it returned.

    Raises:
        TypeError: `sess` is no session.

    Source of the contract: CANN TF Adapter API, shutdown_resource.
    """
    argument_checks.session("shutdown_resource", sess).run(npu_shutdown)


def close_session(sess: tf.Session) -> None:
    """Closes a session.

    Args:
        sess: the session.

    Raises:
        TypeError: it is none.

    Source of the contract: CANN TF Adapter API, close_session.
    """
    argument_checks.session("close_session", sess, "close").close()


def get_npu_rank_id() -> int:
    """Returns this process's world rank.

    Source of the contract: CANN TF Adapter API, get_npu_rank_id.
    """
    return _known("npu_rank_id", get_rank_id)


def get_npu_local_rank_id() -> int:
    """Returns this process's rank among those on its server.

    Source of the contract: CANN TF Adapter API, get_npu_local_rank_id.
    """
    return _known("npu_local_rank_id", get_local_rank_id)


def get_npu_rank_size() -> int:
    """Returns the number of ranks.

    Source of the contract: CANN TF Adapter API, get_npu_rank_size.
    """
    return _known("npu_rank_size", get_rank_size)


def get_npu_local_rank_size() -> int:
    """Returns the number of ranks on this server.

    Source of the contract: CANN TF Adapter API, get_npu_local_rank_size.
    """
    return _known("npu_local_rank_size", get_local_rank_size)


def npu_keras_optimizer(opt: Any) -> Any:
    """Makes a Keras optimizer exchange gradients between ranks.

    Args:
        opt: the optimizer.

    Returns:
        A KerasDistributeOptimizer.

    Source of the contract: CANN TF Adapter API, npu_keras_optimizer.
    """
    return KerasDistributeOptimizer(opt)


def npu_tf_optimizer(opt: Any) -> Any:
    """Makes an optimizer of TensorFlow 1 exchange gradients between ranks.

    Args:
        opt: the optimizer.

    Returns:
        An NPUDistributedOptimizer.

    Source of the contract: CANN TF Adapter API, npu_tf_optimizer.
    """
    return NPUDistributedOptimizer(opt)


def _list_of(where: str, name: str, value: Any, items: str) -> List[Any]:
    if isinstance(value, list):
        return value
    # Nothing at all, such as None, stands for an empty list.
    return argument_checks.listed(where, name, value, items) if value else []


def _known(key: str, ask: Any) -> int:
    """What `init_resource` has kept, or what holds where it has not been called."""
    kept: Optional[int] = util.get_value(key)
    return ask() if kept is None else kept


def _keras_backend(name: str) -> Any:
    backend = tf.keras.backend
    if not hasattr(backend, "set_session"):
        raise RuntimeError(
            f"Keras 3, which TensorFlow {tf.__version__} has, uses no sessions, so that {name} can "
            f"do nothing. It needs one of TensorFlow 1.15 to 2.15."
        )
    return backend

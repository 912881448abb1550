"""What NPUEstimator makes of the spec that a model function returns."""

from __future__ import annotations

from typing import Any, List

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.estimator_classes import ModeKeys
from npu_bridge.estimator.npu.npu_estimator_spec import host_call_of
from npu_bridge.estimator.npu.npu_hook import NPUInfeedOutfeedSessionHook, SetIterationsVarHook
from npu_device._core import iteration_loop, logging

_LOSS = "npu_bridge_loss_of_last_step"


def augmented(spec: Any, mode: str, iterations_per_loop: int, writes: bool) -> Any:
    """Adds to a spec: the loop over steps, and the part of the host.

    Args:
        spec: what the model function returned.
        mode: a tf.estimator.ModeKeys.
        iterations_per_loop: steps that one Session.run trains.
        writes: whether this rank runs the host's part, which writes summaries.

    Returns:
        The spec to train, evaluate or predict with.
    """
    hooks: List[Any] = []
    if mode == ModeKeys.TRAIN:
        with tf.control_dependencies([spec.train_op]):
            host_ops = _host_ops(spec)
        train_op = spec.train_op
        if host_ops and writes:
            hooks.append(NPUInfeedOutfeedSessionHook([], mode))
            train_op = tf.group(train_op, *host_ops)
        if iterations_per_loop > 1:
            spec = _looped(spec, train_op)
            hooks.append(SetIterationsVarHook(iterations_per_loop))
        else:
            spec = spec._replace(train_op=train_op)
        return spec._replace(training_hooks=tuple(hooks) + tuple(spec.training_hooks or ()))
    if mode == ModeKeys.EVAL:
        host_ops = _host_ops(spec)
        if host_ops and writes:
            hooks.append(NPUInfeedOutfeedSessionHook([], mode))
            with tf.control_dependencies(host_ops):
                loss = tf.identity(spec.loss)
            return spec._replace(
                loss=loss, evaluation_hooks=tuple(hooks) + tuple(spec.evaluation_hooks or ())
            )
    return spec


def _host_ops(spec: Any) -> List[Any]:
    """Makes the ops of a spec's host_call, on all ranks so that graphs are alike."""
    host_call = host_call_of(spec)
    if host_call is None:
        return []
    function, tensors = host_call
    made = function(**tensors) if isinstance(tensors, dict) else function(*tensors)
    return [one for one in tf.nest.flatten(made) if one is not None]


def _looped(spec: Any, train_op: Any) -> Any:
    """Returns a spec whose train op trains several steps, and whose loss is that of the last.

    Fetching the model's own loss beside the loop would compute it again, from a batch of its own.
    """
    last_loss = tf.get_variable(
        _LOSS,
        shape=spec.loss.shape,
        dtype=spec.loss.dtype,
        initializer=tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES],
        use_resource=True,
    )
    step = tf.group(train_op, last_loss.assign(spec.loss, read_value=False), name="step")
    loop = iteration_loop.create(step)
    with tf.control_dependencies([loop]):
        loss = tf.identity(last_loss.read_value(), name="loss_of_last_step")
    if tf.get_collection(tf.GraphKeys.SUMMARIES):
        logging.info_from_rank_0(
            "Summaries of the model are not written in training with iterations_per_loop above 1, "
            "except the loss: they would be computed from a batch of their own. NPUEstimatorSpec's "
            "host_call writes summaries of each step."
        )
        tf.get_default_graph().clear_collection(tf.GraphKeys.SUMMARIES)
    return spec._replace(train_op=loop, loss=loss)

"""What NPUEstimator makes of the spec that a model function returns."""

from __future__ import annotations

from typing import Any, List

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.estimator_classes import ModeKeys
from npu_bridge.estimator.npu.npu_estimator_spec import host_call_of
from npu_bridge.estimator.npu.npu_hook import NPUInfeedOutfeedSessionHook, SetIterationsVarHook
from npu_device._core import iteration_loop


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
            train_op = iteration_loop.create(train_op)
            hooks.append(SetIterationsVarHook(iterations_per_loop))
        return spec._replace(
            train_op=train_op, training_hooks=tuple(hooks) + tuple(spec.training_hooks or ())
        )
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

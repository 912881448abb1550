"""NPUEstimatorSpec: what a model function returns to NPUEstimator."""

from __future__ import annotations

import inspect
from typing import Any, Optional

from npu_bridge.estimator.npu import estimator_classes


class NPUEstimatorSpec(estimator_classes.EstimatorSpec):
    """tf.estimator.EstimatorSpec, with a function that writes summaries.

    Args:
        mode: a tf.estimator.ModeKeys.
        predictions: tensor, or dict of tensors.
        loss: scalar tensor; needed to train and evaluate.
        train_op: op that trains one step; needed to train.
        eval_metric_ops: metrics by name.
        export_outputs: what is exported, by name.
        training_chief_hooks: hooks for the process that writes.
        training_hooks: hooks for all.
        scaffold: a tf.train.Scaffold.
        evaluation_hooks: hooks of evaluations.
        prediction_hooks: hooks of predictions.
        host_call: (function, tensors): a function and the list, tuple or dict of tensors that it
            takes. It makes ops, such as those that write summaries, which rank 0 runs after each
            step of training or evaluation.

    Raises:
        ValueError: host_call is something else, or something that the mode needs is missing.
        TypeError: host_call[0] is not callable.
        RuntimeError: host_call's function takes another number of tensors, or this TensorFlow has
            no tf.estimator.

    Source of the contract: CANN TF Adapter API, NPUEstimatorSpec constructor.
    """

    _host_call: Any

    def __new__(
        cls,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
        host_call: Any = None,
    ) -> NPUEstimatorSpec:
        """Checks and makes it; see the class."""
        estimator_classes.require("NPUEstimatorSpec")
        if host_call is not None:
            _check_host_call(host_call)
        spec = super().__new__(
            cls,
            mode=mode,
            predictions=predictions,
            loss=loss,
            train_op=train_op,
            eval_metric_ops=eval_metric_ops,
            export_outputs=export_outputs,
            training_chief_hooks=training_chief_hooks,
            training_hooks=training_hooks,
            scaffold=scaffold,
            evaluation_hooks=evaluation_hooks,
            prediction_hooks=prediction_hooks,
        )
        spec._host_call = host_call
        return spec

    # For the signature: a tuple is made by __new__.
    def __init__(
        self,
        mode: str,
        predictions: Any = None,
        loss: Any = None,
        train_op: Any = None,
        eval_metric_ops: Any = None,
        export_outputs: Any = None,
        training_chief_hooks: Any = None,
        training_hooks: Any = None,
        scaffold: Any = None,
        evaluation_hooks: Any = None,
        prediction_hooks: Any = None,
        host_call: Any = None,
    ) -> None:
        pass


def host_call_of(spec: Any) -> Optional[Any]:
    """Returns the (function, tensors) of a spec, None where it has none.

    Args:
        spec: an EstimatorSpec or NPUEstimatorSpec.
    """
    return getattr(spec, "_host_call", None)


def _check_host_call(host_call: Any) -> None:
    if not isinstance(host_call, (list, tuple)) or len(host_call) != 2:
        raise ValueError(f"host_call is {host_call!r}, allowed is a pair (function, tensors).")
    function, tensors = host_call
    if not callable(function):
        raise TypeError(f"host_call[0] is {function!r}, allowed is a function.")
    if not isinstance(tensors, (list, tuple, dict)):
        raise ValueError(
            f"host_call[1] is {tensors!r}, allowed is a list, tuple or dict of tensors."
        )
    arguments = ((), tensors) if isinstance(tensors, dict) else (tensors, {})
    try:
        inspect.signature(function).bind(*arguments[0], **arguments[1])
    except TypeError as error:
        raise RuntimeError(
            f"host_call[0] does not take the {len(tensors)} tensors of host_call[1]: {error}."
        ) from None

"""A Keras model as an NPUEstimator."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from typing import Any, Dict, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import estimator_classes
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.estimator.npu.npu_estimator import NPUEstimator
from npu_device._core import runtime

__all__ = ["NPUEstimator", "model_to_npu_estimator"]


def model_to_npu_estimator(
    keras_model: Any = None,
    keras_model_path: Optional[str] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    model_dir: Optional[str] = None,
    checkpoint_format: str = "saver",
    config: Optional[NPURunConfig] = None,
    job_start_file: str = "",
) -> NPUEstimator:
    """Makes an NPUEstimator that trains a Keras model, beginning with the weights that it has.

    Args:
        keras_model: a compiled model, whose optimizer exchanges gradients between ranks; either
            this or keras_model_path.
        keras_model_path: a saved model.
        custom_objects: classes and functions of the model by name.
        model_dir: folder for checkpoints; config.model_dir, or a temporary one, if None.
        checkpoint_format: "saver" or "checkpoint", how the model's first weights are written.
        config: an NPURunConfig.
        job_start_file: a scheduler's job file, see npu_common.NPUBasics.

    Returns:
        The NPUEstimator.

    Raises:
        ValueError: config is no NPURunConfig, or there is not exactly one model, or it is not
            compiled.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source of the contract: CANN TF Adapter API, model_to_npu_estimator.
    """
    estimator_classes.require("model_to_npu_estimator")
    if not isinstance(config, NPURunConfig):
        raise ValueError(f"config is {config!r}, allowed is an NPURunConfig.")
    model_dir = model_dir or config.model_dir
    # The first weights are written there; other ranks than 0 write none into model_dir.
    follows = runtime.size() > 1 and runtime.rank() != 0 and not config.horovod_mode
    first_weights = model_dir
    if model_dir is None or follows:
        first_weights = tempfile.mkdtemp(prefix="npu_bridge_keras_")
    converted = tf.keras.estimator.model_to_estimator(
        keras_model=keras_model,
        keras_model_path=keras_model_path,
        custom_objects=custom_objects,
        model_dir=first_weights,
        config=estimator_classes.RunConfig(model_dir=first_weights),
        checkpoint_format=checkpoint_format,
    )
    estimator = NPUEstimator(
        model_fn=converted._model_fn,
        model_dir=model_dir or first_weights,
        config=config,
        job_start_file=job_start_file,
        warm_start_from=converted._warm_start_settings,
    )
    if follows:
        weakref.finalize(estimator, shutil.rmtree, first_weights, ignore_errors=True)
    return estimator

"""NPUEstimator: tf.estimator.Estimator for ranks. Rank 0 writes, all train the same weights."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable, Dict, Iterator, List, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu import estimator_classes, estimator_model, run_config_options, util
from npu_bridge.estimator.npu import util as util_lib
from npu_bridge.estimator.npu.estimator_hooks import SharingSaverHook, StopAtStepHook
from npu_bridge.estimator.npu.npu_common import NPUBasics
from npu_bridge.estimator.npu.npu_config import NPURunConfig
from npu_bridge.estimator.npu.npu_estimator_spec import NPUEstimatorSpec
from npu_bridge.estimator.npu.npu_hook import (
    NPUBroadcastGlobalVariablesHook,
    NPUCheckpointSaverHook,
    NPUInfeedOutfeedSessionHook,
    NPULogOutfeedSessionHook,
    SetIterationsVarHook,
)
from npu_bridge.estimator.npu.npu_saver import NPUSaver
from npu_bridge.estimator.npu.rank_files import RankFiles
from npu_device._core import environment, job_values, logging, runtime

__all__ = [
    "NPUBasics",
    "NPUBroadcastGlobalVariablesHook",
    "NPUCheckpointSaverHook",
    "NPUEstimator",
    "NPUEstimatorSpec",
    "NPUInfeedOutfeedSessionHook",
    "NPULogOutfeedSessionHook",
    "NPURunConfig",
    "NPUSaver",
    "SetIterationsVarHook",
    "no_check_override",
    "npu_ops",
    "util",
    "util_lib",
]


@contextlib.contextmanager
def no_check_override() -> Iterator[None]:
    """Lets a subclass of tf.estimator.Estimator override its public methods, in a `with` statement.

    Raises:
        RuntimeError: this TensorFlow has no tf.estimator.

    Source of the contract: CANN TF Adapter API, npu_estimator.no_check_override.
    """
    estimator_classes.require("no_check_override")
    before = estimator_classes.Estimator._assert_members_are_not_overridden
    estimator_classes.Estimator._assert_members_are_not_overridden = lambda self: None
    try:
        yield
    finally:
        estimator_classes.Estimator._assert_members_are_not_overridden = before


class NPUEstimator(estimator_classes.Estimator):
    """Trains a model on all ranks of the job; alone, it is a tf.estimator.Estimator.

    All ranks call `train`, or tf.estimator.train_and_evaluate, together. The model function makes
    the train op with NPUDistributedOptimizer or another optimizer that exchanges gradients.

    * Ranks begin with rank 0's variables: those of the checkpoint in rank 0's model_dir, or those
      that it has initialized. It need not be the same folder on all ranks.
    * Rank 0 alone writes into model_dir: checkpoints, graph, summaries and evaluations. Other
      ranks never write there.
    * `evaluate`, `predict` and `export_saved_model` send nothing, so that a script may call them on
      one rank only. After `train` every rank uses rank 0's latest checkpoint, of which ranks that
      cannot see it have a copy. An export of another rank than 0 goes to a temporary folder.

    Args:
        model_fn: function of features, and of labels, mode, params and config if it has such
            parameters; returns an EstimatorSpec or NPUEstimatorSpec.
        model_dir: folder for checkpoints; config.model_dir, or a temporary one, if None.
        config: an NPURunConfig.
        params: dict that is passed to the model function.
        job_start_file: a scheduler's job file, see npu_common.NPUBasics.
        warm_start_from: a checkpoint or WarmStartSettings to start from where model_dir has no
            checkpoint; LOCAL_CHECKPOINT_DIR or RESTORE_FROM of the environment if None.

    Raises:
        TypeError: model_fn is not callable.
        ValueError: config is no NPURunConfig, there is no model_fn, model_dir differs from
            config.model_dir, or model_fn does not take features.
        RuntimeError: this TensorFlow has no tf.estimator.

    Source of the contract: CANN TF Adapter API, NPUEstimator constructor.
    """

    # Of the base class.
    _model_dir: str
    _warm_start_settings: Any

    def __init__(
        self,
        model_fn: Optional[Callable[..., Any]] = None,
        model_dir: Optional[str] = None,
        config: Optional[NPURunConfig] = None,
        params: Optional[Dict[str, Any]] = None,
        job_start_file: str = "",
        warm_start_from: Any = None,
    ) -> None:
        estimator_classes.require("NPUEstimator")
        if not isinstance(config, NPURunConfig):
            raise ValueError(f"config is {config!r}, allowed is an NPURunConfig.")
        if model_fn is not None and not callable(model_fn):
            raise TypeError(
                f"model_fn is {model_fn!r}, allowed is what is callable: a function of features."
            )
        job = NPUBasics(job_start_file).jobinfo
        if not warm_start_from:
            warm_start_from = job._local_checkpoint_dir or environment.value("RESTORE_FROM")
        options = run_config_options.parameter_map(config)
        session_config = run_config_options.write(config.session_config, options)
        self._horovod_mode = config.horovod_mode
        self._files = RankFiles()
        self._saver_hook: Optional[SharingSaverHook] = None
        with no_check_override():
            super().__init__(
                model_fn=model_fn,
                model_dir=model_dir,
                config=config.replace(session_config=session_config),
                params=params,
                warm_start_from=warm_start_from or None,
            )

    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Any = None,
        steps: Optional[int] = None,
        max_steps: Optional[int] = None,
        saving_listeners: Any = None,
    ) -> NPUEstimator:
        """Trains. All ranks call, with the same number of steps; each with data of its own.

        Args:
            input_fn: returns the data of this rank.
            hooks: SessionRunHooks.
            steps: number of steps to train; either this or max_steps, or none for all data.
            max_steps: the global step to train to; ranks that are there do nothing.
            saving_listeners: CheckpointSaverListeners, which are called on all ranks.

        Returns:
            This NPUEstimator.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        hooks = list(hooks or [])
        if not self._together():
            super().train(input_fn, hooks, steps, max_steps, saving_listeners)
            return self
        latest = super().latest_checkpoint() if runtime.rank() == 0 else None
        start = job_values.from_rank(_global_step(latest))
        if max_steps is None or start < max_steps:
            # First, since hooks after it may look at the global step.
            own: List[Any] = [NPUBroadcastGlobalVariablesHook(0, runtime.rank())]
            self._saver_hook = self._make_saver_hook()
            if self._saver_hook is not None:
                own.append(self._saver_hook)
            with self._writing_elsewhere():
                super().train(input_fn, own + hooks, steps, max_steps, saving_listeners)
        else:
            logging.info_from_rank_0(
                "Training is skipped: global step %d has reached max_steps %d.", start, max_steps
            )
        self._share_latest()
        return self

    def latest_checkpoint(self) -> Optional[str]:
        """Returns the path of the newest checkpoint, on other ranks than 0 of that after training.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        if self._follows() and self._files.checkpoint is not None:
            return self._files.checkpoint
        return super().latest_checkpoint()

    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: Optional[int] = None,
        hooks: Any = None,
        checkpoint_path: Optional[str] = None,
        name: Optional[str] = None,
    ) -> Dict[str, Any]:
        """Evaluates on this rank alone, with the data that input_fn gives here.

        Args:
            input_fn: returns the data.
            steps: number of batches; None for all.
            hooks: SessionRunHooks.
            checkpoint_path: the newest checkpoint if None.
            name: of the evaluation, if there are several.

        Returns:
            The metrics by name.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        if not self._follows():
            return super().evaluate(input_fn, steps, hooks, checkpoint_path, name)
        checkpoint_path = checkpoint_path or self._latest_or_warn()
        with self._model_dir_set_to(self._files.folder("model")):
            return super().evaluate(input_fn, steps, hooks, checkpoint_path, name)

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Any = None,
        hooks: Any = None,
        checkpoint_path: Optional[str] = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Predicts on this rank alone, with the data that input_fn gives here.

        Args:
            input_fn: returns the data.
            predict_keys: names of the predictions wanted; None for all.
            hooks: SessionRunHooks.
            checkpoint_path: the newest checkpoint if None.
            yield_single_examples: whether batches are taken apart.

        Returns:
            An iterator over predictions.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        if self._follows():
            checkpoint_path = checkpoint_path or self._latest_or_warn()
        return super().predict(
            input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples
        )

    def get_variable_value(self, name: str) -> Any:
        """Returns the value of a variable in the newest checkpoint.

        Args:
            name: of the variable.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        if self._follows() and self._files.checkpoint is not None:
            return tf.train.load_variable(self._files.checkpoint, name)
        return super().get_variable_value(name)

    def get_variable_names(self) -> List[str]:
        """Returns the names of all variables in the newest checkpoint.

        Source of the contract: CANN TF Adapter API, NPUEstimator.
        """
        if self._follows() and self._files.checkpoint is not None:
            return [name for name, _ in tf.train.list_variables(self._files.checkpoint)]
        return super().get_variable_names()

    def _export_all_saved_models(
        self, export_dir_base: str, input_receiver_fn_map: Any, *args: Any, **kwargs: Any
    ) -> Any:
        # All ways to export come through here, and it has the same parameters in all versions.
        given = dict(
            zip(("assets_extra", "as_text", "checkpoint_path", "strip_default_attrs"), args)
        )
        given.update(kwargs)
        if self._follows():
            given["checkpoint_path"] = given.get("checkpoint_path") or self.latest_checkpoint()
            own = self._files.folder("")
            if os.path.commonpath([own, os.path.abspath(export_dir_base)]) != own.rstrip(os.sep):
                export_dir_base = self._files.folder("export")
        return super()._export_all_saved_models(export_dir_base, input_receiver_fn_map, **given)

    def _convert_train_steps_to_hooks(
        self, steps: Optional[int], max_steps: Optional[int]
    ) -> List[Any]:
        loops = self._config.iterations_per_loop
        if loops == 1 or (steps is None and max_steps is None):
            return super()._convert_train_steps_to_hooks(steps, max_steps)
        return [StopAtStepHook(loops, steps, max_steps)]

    def _call_model_fn(self, features: Any, labels: Any, mode: str, config: Any) -> Any:
        spec = super()._call_model_fn(features, labels, mode, config)
        loops = self._config.iterations_per_loop
        spec = estimator_model.augmented(spec, mode, loops, writes=not self._follows())
        if mode == estimator_classes.ModeKeys.TRAIN and self._together():
            if not (spec.scaffold.saver or tf.get_collection(tf.GraphKeys.SAVERS)):
                tf.add_to_collection(tf.GraphKeys.SAVERS, self._make_saver())
            if self._saver_hook is not None:
                self._saver_hook.use(spec.scaffold.saver)
        return spec

    def _make_saver(self) -> NPUSaver:
        return NPUSaver(
            sharded=True,
            max_to_keep=self._config.keep_checkpoint_max,
            keep_checkpoint_every_n_hours=self._config.keep_checkpoint_every_n_hours,
            defer_build=True,
            save_relative_paths=True,
        )

    def _make_saver_hook(self) -> Optional[SharingSaverHook]:
        if not (self._config.save_checkpoints_secs or self._config.save_checkpoints_steps):
            return None
        return SharingSaverHook(
            self._share_latest,
            self._model_dir,
            self._config.save_checkpoints_secs,
            self._config.save_checkpoints_steps,
        )

    def _together(self) -> bool:
        """Whether there are other ranks that train the same model."""
        return runtime.size() > 1 and not self._horovod_mode

    def _follows(self) -> bool:
        return self._together() and runtime.rank() != 0

    def _share_latest(self) -> None:
        latest = super().latest_checkpoint() if runtime.rank() == 0 else None
        self._files.share(latest)

    def _latest_or_warn(self) -> Optional[str]:
        latest = self.latest_checkpoint()
        if latest is None:
            tf.logging.warning(
                "Rank %d finds no checkpoint in model_dir %s, and has not trained: it uses initial "
                "values of the variables.",
                runtime.rank(),
                self._model_dir,
            )
        return latest

    @contextlib.contextmanager
    def _writing_elsewhere(self) -> Iterator[None]:
        """Lets other ranks than 0 train with a folder of their own in place of model_dir.

        They do all that rank 0 does, so that collectives which a summary needs run on all ranks.
        """
        if not self._follows():
            yield
            return
        # What variables start from comes from rank 0.
        warm_start, self._warm_start_settings = self._warm_start_settings, None
        try:
            with self._model_dir_set_to(self._files.folder("model")):
                yield
        finally:
            self._warm_start_settings = warm_start

    @contextlib.contextmanager
    def _model_dir_set_to(self, folder: str) -> Iterator[None]:
        before, self._model_dir = self._model_dir, folder
        try:
            yield
        finally:
            self._model_dir = before


def _global_step(checkpoint: Optional[str]) -> int:
    if checkpoint is None:
        return 0
    reader = tf.train.load_checkpoint(checkpoint)
    step = tf.GraphKeys.GLOBAL_STEP
    return int(reader.get_tensor(step)) if reader.has_tensor(step) else 0

"""Hooks that tell others how the training goes."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import util


class NPUOutputTensorHook(tf.train.LoggingTensorHook):
    """Calls a function with what tensors have been, every few steps and at the end.

    Args:
        tensors: dict of tensors or their names, by a word for each; or an iterable of them.
        dependencies: ops or tensors that are computed before. Only for a dict of tensors.
        output_fn: is called with a list of dicts, the values by word of each step since it was
            called last; None logs them.
        output_every_n_steps: steps after which it is called; 0 only at the end.

    Raises:
        TypeError: output_fn is not callable, or there are dependencies and no dict.

    Source of the contract: CANN TF Adapter API, NPUOutputTensorHook constructor.
    """

    def __init__(
        self,
        tensors: Any,
        dependencies: Any = None,
        output_fn: Optional[Callable[[List[Dict[str, Any]]], Any]] = None,
        output_every_n_steps: int = 0,
    ) -> None:
        if output_fn is not None and not callable(output_fn):
            raise TypeError(f"output_fn is {output_fn!r}, allowed is a function or None.")
        util.check_nonnegative_integer(output_every_n_steps, "output_every_n_steps")
        self._output_fn = output_fn or _log_outputs
        self._output_every_n_steps = output_every_n_steps
        self._outputs: List[Dict[str, Any]] = []
        self._steps = 0
        self._has_tensors = tensors is not None
        if tensors is None:
            return
        if dependencies is not None:
            if not isinstance(tensors, dict):
                raise TypeError(f"tensors is {tensors!r}, allowed with dependencies is a dict.")
            if not isinstance(dependencies, (list, tuple)):
                dependencies = [dependencies]
            with tf.control_dependencies(dependencies):
                tensors = {word: tf.identity(tensor) for word, tensor in tensors.items()}
        # LoggingTensorHook finds the tensors, and must not print them itself.
        super().__init__(tensors, every_n_iter=1 << 31)

    def begin(self) -> None:
        """Finds the tensors, in the graph that is about to be finalized."""
        self._steps = 0
        if self._has_tensors:
            super().begin()

    def before_run(self, run_context: Any) -> Any:
        """Fetches the tensors.

        Args:
            run_context: of the step that is about to run.

        Returns:
            What to fetch; None without tensors.
        """
        return tf.train.SessionRunArgs(self._current_tensors) if self._has_tensors else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Keeps the values, and calls the function if it is time.

        Args:
            run_context: of the step that has run.
            run_values: of the step that has run.
        """
        if self._has_tensors:
            self._outputs.append({word: run_values.results[word] for word in self._tag_order})
        self._steps += 1
        if self._output_every_n_steps and self._steps % self._output_every_n_steps == 0:
            self._call()

    def end(self, session: tf.Session) -> None:
        """Calls the function with what is left.

        Args:
            session: the session that ends.
        """
        if self._outputs:
            self._call()

    def _call(self) -> None:
        outputs, self._outputs = self._outputs, []
        self._output_fn(outputs)


def _log_outputs(outputs: Sequence[Dict[str, Any]]) -> None:
    for values in outputs:
        tf.logging.info(", ".join(f"{word} = {value}" for word, value in values.items()))


class TellMeStepOrLossHook(tf.train.SessionRunHook):
    """Tells tools outside of the program how far the training is, in environment variables.

    STEP_NOW and LOSS_NOW are set after each step, TOTAL_STEP and TARGET_LOSS at once.

    Args:
        step: tensor of the step's number, or None.
        total_step: number of steps, or None.
        loss: tensor of the loss, or None. One of step and loss is needed.
        final_loss: the loss to reach, or None.

    Raises:
        ValueError: both step and loss are None.

    Source of the contract: CANN TF Adapter API, TellMeStepOrLossHook constructor.
    """

    def __init__(
        self, step: Any = None, total_step: Any = None, loss: Any = None, final_loss: Any = None
    ) -> None:
        if step is None and loss is None:
            raise ValueError("step and loss are both None. Pass the tensor of one of them.")
        fetches = {"STEP_NOW": step, "LOSS_NOW": loss}
        self._fetches = {name: value for name, value in fetches.items() if value is not None}
        begin = {
            "STEP_NOW": None if step is None else "0",
            "TOTAL_STEP": total_step,
            "LOSS_NOW": None if loss is None else "0.0",
            "TARGET_LOSS": final_loss,
        }
        os.environ.update({name: str(value) for name, value in begin.items() if value is not None})

    def before_run(self, run_context: Any) -> Any:
        """Fetches step and loss.

        Args:
            run_context: of the step that is about to run.

        Returns:
            What to fetch.
        """
        return tf.train.SessionRunArgs(self._fetches)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Sets the environment variables.

        Args:
            run_context: of the step that has run.
            run_values: of the step that has run.
        """
        os.environ.update({name: str(value) for name, value in run_values.results.items()})

"""Hooks that NPUEstimator adds by itself."""

from __future__ import annotations

from typing import Any, Callable, Optional

import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.npu_hook import AgreedTimer, NPUCheckpointSaverHook, tell_of_save
from npu_device._core import iteration_loop, job_values


class SharingSaverHook(NPUCheckpointSaverHook):
    """Saves on rank 0, and lets all ranks read the checkpoint before listeners are called.

    What a listener does on all ranks, such as an evaluation, then finds the same checkpoint. Those
    of tf.estimator.train_and_evaluate look at a clock of their own: rank 0's counts.

    Args:
        share: is called on all ranks when a checkpoint has been written.
        checkpoint_dir: folder for the checkpoints, which only rank 0 needs.
        save_secs: seconds between checkpoints; either this or save_steps.
        save_steps: steps between checkpoints.
    """

    def __init__(
        self,
        share: Callable[[], None],
        checkpoint_dir: str,
        save_secs: Optional[int],
        save_steps: Optional[int],
    ) -> None:
        super().__init__(checkpoint_dir, save_secs, save_steps)
        self._saver: Optional[tf.train.Saver] = None
        self._share = share

    def use(self, saver: Optional[tf.train.Saver]) -> None:
        """Takes a saver that is made after the hook.

        Args:
            saver: the saver; None for that of the graph.
        """
        self._saver = saver

    def begin(self) -> None:
        """Prepares."""
        super().begin()
        for listener in self._listeners:
            timer = getattr(listener, "_timer", None)
            if isinstance(timer, tf.train.SecondOrStepTimer):
                listener._timer = AgreedTimer(timer)

    def _save(self, session: tf.Session, step: int) -> bool:
        # The listeners' part comes after the checkpoint is shared, and so is done here.
        listeners, self._listeners = self._listeners, []
        try:
            for listener in listeners:
                listener.before_save(session, step)
            super()._save(session, step)
        finally:
            self._listeners = listeners
        if not listeners:
            return False
        self._share()
        return job_values.any_rank(tell_of_save(listeners, session, step))


class StopAtStepHook(tf.train.SessionRunHook):
    """Ends a training whose Session.run trains several steps, at the exact step.

    Args:
        iterations_per_loop: steps of one Session.run; fewer are left to the last one.
        num_steps: number of steps to train; either this or last_step.
        last_step: the global step to train to.
    """

    def __init__(
        self, iterations_per_loop: int, num_steps: Optional[int], last_step: Optional[int]
    ) -> None:
        self._iterations = iterations_per_loop
        self._num_steps = num_steps
        self._last_step = last_step
        self._global_step: Any = None

    def begin(self) -> None:
        """Finds the global step, in the graph that is about to be finalized."""
        self._global_step = tf.train.get_global_step()

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Works out the last step.

        Args:
            session: the session that has been created.
            coord: its coordinator.
        """
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = int(session.run(self._global_step)) + self._num_steps

    def before_run(self, run_context: Any) -> None:
        """Sets the number of steps of this run.

        Args:
            run_context: of the run.
        """
        left = self._left(run_context.session)
        if 0 < left < self._iterations:
            iteration_loop.load(run_context.session, left)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the training if it is time.

        Args:
            run_context: of the run.
            run_values: of the run.
        """
        if self._left(run_context.session) <= 0:
            run_context.request_stop()

    def _left(self, session: tf.Session) -> int:
        assert self._last_step is not None
        return self._last_step - int(session.run(self._global_step))

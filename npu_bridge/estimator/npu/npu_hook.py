"""Hooks of MonitoredTrainingSession and Estimator for training on ranks."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_bridge.estimator.npu import util
from npu_bridge.estimator.npu import util as util_lib
from npu_bridge.estimator.npu.outfeed_hooks import (
    NPUInfeedOutfeedSessionHook,
    NPULogOutfeedSessionHook,
)
from npu_bridge.estimator.npu.output_hooks import NPUOutputTensorHook, TellMeStepOrLossHook
from npu_bridge.hccl import hccl_ops
from npu_device._core import global_variables, groups, iteration_loop, job_values, runtime

__all__ = [
    "NPUBroadcastGlobalVariablesHook",
    "NPUCheckpointSaverHook",
    "NPUInfeedOutfeedSessionHook",
    "NPULogOutfeedSessionHook",
    "NPUOutputTensorHook",
    "NPUShutDownHook",
    "SetIterationsVarHook",
    "TellMeStepOrLossHook",
    "broadcast_global_variables",
    "hccl_ops",
    "npu_ops",
    "util",
    "util_lib",
]


class NPUShutDownHook(tf.train.SessionRunHook):
    """Leaves the job when the session ends, as npu_ops.shutdown_system does.

    Args:
        scaffold: has no effect.

    Source of the contract: CANN TF Adapter API, npu_hook.NPUShutDownHook.
    """

    def __init__(self, scaffold: Optional[tf.train.Scaffold] = None) -> None:
        self._scaffold = scaffold
        self._shutdown: Any = None

    def begin(self) -> None:
        """Makes the op, before the graph is finalized."""
        if self._shutdown is None or self._shutdown.graph is not tf.get_default_graph():
            self._shutdown = npu_ops.shutdown_system()

    def end(self, session: tf.Session) -> None:
        """Runs the op.

        Args:
            session: the session that ends.
        """
        session.run(self._shutdown)


class NPUBroadcastGlobalVariablesHook(tf.train.SessionRunHook):
    """Gives all ranks one rank's variables, once, when the session has been created.

    Without it, ranks train what each has initialized or restored for itself. All global variables
    are broadcast, so that slots of optimizers, statistics of batch normalization, learning rate and
    global step are the root's, too; local variables are not. Where only the root has a checkpoint,
    all ranks go on from it.

    All ranks need the hook, in front of hooks that look at the global step when the session is
    created, such as StopAtStepHook.

    Args:
        root_rank: world rank whose variables they are.
        index: this process's rank, which the job knows by itself.

    Source of the contract: CANN TF Adapter API, NPUBroadcastGlobalVariablesHook constructor.
    """

    def __init__(self, root_rank: Optional[int] = None, index: Optional[int] = None) -> None:
        self._root_rank = root_rank
        self._index = index
        self._broadcast: Any = None

    def begin(self) -> None:
        """Makes the op, before the graph is finalized.

        Raises:
            ValueError: there are several ranks, and root_rank is none of them.
        """
        self._broadcast = None
        if runtime.size() > 1:
            self._broadcast = broadcast_global_variables(self._root_rank)

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Broadcasts; waits for all ranks.

        Args:
            session: the session that has been created.
            coord: its coordinator.
        """
        if self._broadcast is not None:
            session.run(self._broadcast)


class NPUCheckpointSaverHook(tf.train.CheckpointSaverHook):
    """Saves checkpoints on rank 0. The hook of other ranks writes nothing.

    All ranks have the hook, and the same interval: where weights are divided over ranks
    (util.add_grads_and_vars), they are brought together when one is saved. An interval in seconds
    is rank 0's.

    Args:
        checkpoint_dir: folder for the checkpoints, which only rank 0 needs.
        save_secs: seconds between checkpoints; either this or save_steps.
        save_steps: steps between checkpoints.
        saver: the saver; that of the scaffold, or of the graph, if None.
        checkpoint_basename: beginning of the files' names.
        scaffold: the scaffold whose saver is used.
        listeners: CheckpointSaverListeners, which are called on all ranks.

    Source of the contract: CANN TF Adapter API, NPUCheckpointSaverHook constructor.
    """

    # Of the base class.
    _timer: Any
    _listeners: Any

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: Optional[int] = None,
        save_steps: Optional[int] = None,
        saver: Optional[tf.train.Saver] = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Optional[tf.train.Scaffold] = None,
        listeners: Optional[Sequence[Any]] = None,
    ) -> None:
        self._by_seconds = save_secs is not None
        super().__init__(
            checkpoint_dir=checkpoint_dir,
            save_secs=save_secs,
            save_steps=save_steps,
            saver=saver,
            checkpoint_basename=checkpoint_basename,
            scaffold=scaffold,
            listeners=listeners,
        )

    def begin(self) -> None:
        """Prepares; other ranks than 0 open no file."""
        if self._by_seconds and not isinstance(self._timer, AgreedTimer):
            self._timer = AgreedTimer(self._timer)
        if runtime.rank() == 0:
            super().begin()
            return
        self._global_step_tensor = tf.train.get_global_step()
        if self._global_step_tensor is None:
            raise RuntimeError("NPUCheckpointSaverHook needs a global step, and there is none.")
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Saves what the session begins with.

        Args:
            session: the session that has been created.
            coord: its coordinator.
        """
        if runtime.rank() == 0:
            super().after_create_session(session, coord)
            return
        global_step = session.run(self._global_step_tensor)
        self._save(session, global_step)
        self._timer.update_last_triggered_step(global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves if it is time.

        Args:
            run_context: of the step that has run.
            run_values: of the step that has run.
        """
        # What the step has fetched may be from before or after it, which would differ by rank.
        global_step = run_context.session.run(self._global_step_tensor)
        if self._timer.should_trigger_for_step(global_step):
            self._timer.update_last_triggered_step(global_step)
            if self._save(run_context.session, global_step):
                run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        """Saves what the session ends with.

        Args:
            session: the session that ends.
        """
        super().end(session)

    def _save(self, session: tf.Session, step: int) -> bool:
        if runtime.rank() == 0:
            return bool(super()._save(session, step))
        for listener in self._listeners:
            listener.before_save(session, step)
        gathering = getattr(self._get_saver(), "gathering_op", None)
        if gathering is not None:
            session.run(gathering)
        return tell_of_save(self._listeners, session, step)


def tell_of_save(listeners: Sequence[Any], session: tf.Session, step: int) -> bool:
    """Calls `after_save` of all listeners.

    Args:
        listeners: CheckpointSaverListeners.
        session: the session whose variables have been saved.
        step: the global step.

    Returns:
        Whether one of them asks for the end of the training.
    """
    stop = False
    for listener in listeners:
        stop = bool(listener.after_save(session, step)) or stop
    return stop


class SetIterationsVarHook(tf.train.SessionRunHook):
    """Sets how many steps a loop of `util.IterationPerLoop` trains in one Session.run.

    Args:
        iterations_per_loop: number of steps, 1 or more.

    Source of the contract: CANN TF Adapter API, npu_hook.SetIterationsVarHook.
    """

    def __init__(self, iterations_per_loop: Optional[int] = None) -> None:
        self._iterations_per_loop = iterations_per_loop

    def begin(self) -> None:
        """Checks the number, before the session is created.

        Raises:
            TypeError: iterations_per_loop is no int.
            ValueError: it is below 1.
        """
        util.check_positive_integer(self._iterations_per_loop, "iterations_per_loop")

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Writes the number.

        Args:
            session: the session that has been created.
            coord: its coordinator.

        Raises:
            ValueError: the graph has no op of `util.IterationPerLoop`.
        """
        iteration_loop.load(session, self._iterations_per_loop)


def broadcast_global_variables(root_rank: Optional[int]) -> tf.Operation:
    """Makes an op that gives all ranks one rank's global variables.

    Args:
        root_rank: world rank whose variables they are.

    Returns:
        The op, for all ranks to run once their variables have been initialized.

    Raises:
        ValueError: root_rank is no rank of the job.

    Source of the contract: CANN TF Adapter API, npu_hook.broadcast_global_variables.
    """
    try:
        rank = groups.to_world_rank(groups.WORLD, root_rank)  # type: ignore[arg-type]
    except ValueError:
        raise ValueError(
            f"root_rank is {root_rank!r}, allowed is an int from 0 to {runtime.size() - 1}: the "
            f"rank whose variables all others get."
        ) from None
    return global_variables.broadcast(rank)


class AgreedTimer:
    """A timer of hooks that goes off on all ranks when rank 0's does.

    Args:
        timer: a SecondOrStepTimer. All ranks must ask theirs equally often.
    """

    def __init__(self, timer: Any) -> None:
        self._timer = timer

    def should_trigger_for_step(self, step: int) -> bool:
        """Returns whether rank 0's timer goes off. Waits for all ranks."""
        return bool(job_values.from_rank(bool(self._timer.should_trigger_for_step(step))))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._timer, name)

"""Hooks that a device's queues to the host need. CPU ranks have no such queues."""

from __future__ import annotations

import threading
from typing import Any, List

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import gen_summary_ops, summary_ops_v2

from npu_device._core import logging, session_options


class NPULogOutfeedSessionHook(tf.train.SessionRunHook):
    """Prints what ops on the device log. Nothing logs there on CPU ranks.

    Accepted without effect on CPU ranks.

    Args:
        output_stream: where it is printed, such as sys.stderr.

    Source of the contract: CANN TF Adapter API, npu_hook.NPULogOutfeedSessionHook.
    """

    def __init__(self, output_stream: Any) -> None:
        self._output_stream = output_stream

    def begin(self) -> None:
        """Says, once, that there is nothing to print."""
        logging.info_from_rank_0("NPULogOutfeedSessionHook %s.", session_options.NPU_ONLY)

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Does nothing.

        Args:
            session: the session that has been created.
            coord: its coordinator.
        """

    def end(self, session: tf.Session) -> None:
        """Does nothing.

        Args:
            session: the session that ends.
        """


class NPUInfeedOutfeedSessionHook(tf.train.SessionRunHook):
    """Runs ops beside the training, again and again until their queue is closed.

    It also initializes the graph's summary writers, and flushes them at the end.

    Args:
        dequeue_ops: ops or tensors, in any structure; none for only the writers.
        channel_name: name of the device's queue, for messages.

    Source of the contract: CANN TF Adapter API, npu_hook.NPUInfeedOutfeedSessionHook.
    """

    def __init__(self, dequeue_ops: Any, channel_name: str) -> None:
        self._dequeue_ops = dequeue_ops
        self._channel_name = channel_name
        self._initializers: List[Any] = []
        self._flushes: List[Any] = []

    def begin(self) -> None:
        """Finds the summary writers, before the graph is finalized."""
        self._initializers = list(summary_ops_v2.summary_writer_initializer_op())
        self._flushes = [
            gen_summary_ops.flush_summary_writer(writer=initializer.inputs[0])
            for initializer in self._initializers
        ]

    def after_create_session(self, session: tf.Session, coord: Any) -> None:
        """Initializes the writers, and starts the thread that runs the ops.

        Args:
            session: the session that has been created.
            coord: its coordinator.
        """
        session.run(self._initializers)
        if tf.nest.flatten(self._dequeue_ops):
            # The session's end cancels what the thread waits for.
            name = f"outfeed {self._channel_name}"
            threading.Thread(target=self._run, args=(session,), name=name, daemon=True).start()

    def end(self, session: tf.Session) -> None:
        """Flushes the writers.

        Args:
            session: the session that ends.
        """
        session.run(self._flushes)

    def _run(self, session: tf.Session) -> None:
        try:
            while True:
                session.run(self._dequeue_ops)
        except (tf.errors.OutOfRangeError, tf.errors.CancelledError):
            pass  # the queue is closed, or the session
        except RuntimeError as error:
            if "Session is closed" not in str(error) and "closed Session" not in str(error):
                raise

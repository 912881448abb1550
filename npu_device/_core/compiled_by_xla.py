"""Says in one sentence that XLA cannot compile what ranks do together."""

from __future__ import annotations

import tensorflow.compat.v1 as tf
from tensorflow.python.ops import control_flow_util


def refuse(op: tf.Operation) -> None:
    """Raises if an op stands in a function that XLA is going to compile.

    Args:
        op: a collective that was made just now.

    Raises:
        ValueError: it does.
    """
    if control_flow_util.GraphOrParentsInXlaContext(op.graph):
        raise ValueError(
            f"{op.type} '{op.name}' is in a function with jit_compile=True, and XLA cannot compile "
            f"exchanges between ranks. Use jit_compile=False, in tf.function or in Keras's compile."
        )

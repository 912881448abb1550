"""Classes of Keras that ours are derived from, in whichever TensorFlow runs."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

_keras_optimizer = tf.keras.optimizers.Optimizer

#: Whether Keras has the optimizers of TensorFlow 1 and 2, which Keras 3 gave up.
HAS_OPTIMIZER_V2 = _keras_optimizer.__name__ == "OptimizerV2"

if HAS_OPTIMIZER_V2:
    OptimizerV2: Any = _keras_optimizer
else:
    # Nothing but a base: Keras does not take its instances.
    from tensorflow.python.keras.optimizer_v2 import optimizer_v2

    OptimizerV2 = optimizer_v2.OptimizerV2


def require_keras_2(what: str) -> None:
    """Checks that this TensorFlow has Keras 2.

    Args:
        what: what needs it, for the error.

    Raises:
        RuntimeError: it has not.
    """
    if not HAS_OPTIMIZER_V2:
        raise RuntimeError(
            f"{what} needs the Keras optimizers of TensorFlow 1.15 to 2.15; this is TensorFlow "
            f"{tf.__version__}, which has Keras 3. Use npu_distributed_optimizer_wrapper."
        )

"""Variables as arguments of a broadcast: they hold the root's values afterwards.

Ascend's graph engine writes what a broadcast receives into the variable that it was given, and
scripts rely on it: they run the result and assign nothing. Here the assignment is made explicitly.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence

import tensorflow.compat.v1 as tf
from tensorflow.python.ops.variables import PartitionedVariable

from npu_device._core import op_arguments

Assign = Callable[[tf.Tensor], Any]


def target(value: Any) -> Optional[Assign]:
    """Returns what writes a tensor into `value`; None where that is no variable.

    Args:
        value: a variable of TensorFlow (ref, resource or partitioned) or Keras, the ref tensor
            that a ref variable consists of, or anything else.
    """
    value = op_arguments.keras_variable(value)
    if isinstance(value, (op_arguments.Variable, PartitionedVariable)):
        return value.assign
    if isinstance(value, tf.Tensor) and value.dtype._is_ref_dtype:
        return lambda new: tf.assign(value, new)
    return None


def assign(targets: Sequence[Optional[Assign]], results: List[tf.Tensor]) -> List[tf.Tensor]:
    """Writes each result into its target.

    Args:
        targets: what `target` returned for each result.
        results: the tensors to write.

    Returns:
        The results. In a graph, running any of those that have a target runs all assignments.
    """
    written = [t(result) for t, result in zip(targets, results) if t is not None]
    if not written or tf.executing_eagerly():
        return results
    with tf.control_dependencies([tf.group(*_operations(written))]):
        return [result if t is None else tf.identity(result) for t, result in zip(targets, results)]


def reference(value: Any) -> tf.Tensor:
    """Returns the ref tensor of a ref variable.

    Raises:
        TypeError: the value is no ref variable.
    """
    ref = getattr(value, "_ref", None)
    tensor = ref() if callable(ref) else value
    if isinstance(tensor, tf.Tensor) and tensor.dtype._is_ref_dtype:
        return tensor
    raise TypeError(
        f"A ref variable of a TensorFlow 1 graph is needed (tf.get_variable with "
        f"use_resource=False), got {value!r}."
    )


def _operations(written: Sequence[Any]) -> List[Any]:
    flat: List[Any] = []
    for made in written:
        # A partitioned variable is assigned part by part.
        flat.extend(made if isinstance(made, (list, tuple)) else [made])
    return flat

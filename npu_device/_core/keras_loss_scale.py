"""The LossScaleOptimizer of whichever Keras runs, as a base of ours.

* TensorFlow 1.15 to 2.3: only an older one, which is of no use here.
* Keras 2: one class, or, since 2.11, two: for the older optimizers and for the newer ones.
* Keras 3: one class, whose scale is always dynamic.
"""

from __future__ import annotations

from typing import Any, Dict, Tuple, Type

import tensorflow as tf

_MIXED = getattr(tf.keras, "mixed_precision", None)
_ORIGINAL: Any = getattr(_MIXED, "LossScaleOptimizer", None)

#: Whether Keras has what ours is made of. TensorFlow 1.15 to 2.3 have not.
IS_THERE = _ORIGINAL is not None
#: Whether this is Keras 3.
IS_KERAS_3 = IS_THERE and hasattr(_ORIGINAL, "check_finite")

_FOR_INSTANCES = "_npu_for_instances"
_made: Dict[Tuple[Type[Any], Type[Any]], Type[Any]] = {}


def _base() -> Type[Any]:
    if not IS_THERE:
        return type("LossScaleOptimizer", (), {"__doc__": "Keras has none here."})
    if _ORIGINAL.__name__ == "LossScaleOptimizer":
        return _ORIGINAL
    # Calling the class makes an instance of it, whatever the names of the arguments.
    choosing = type("Choosing", (type(_ORIGINAL),), {"__call__": type.__call__})
    return choosing("LossScaleOptimizer", (_ORIGINAL,), {"__doc__": _ORIGINAL.__doc__})


#: What ours is derived from; isinstance of tf.keras.mixed_precision.LossScaleOptimizer.
LossScaleOptimizer: Any = _base()


def class_for(cls: Type[Any], inner_optimizer: Any) -> Type[Any]:
    """Returns the class of an instance of ours: of the kind that the optimizer inside needs.

    It has the name of Keras's own, so that a saved model loads in a process without this package.

    Args:
        cls: a class derived from LossScaleOptimizer.
        inner_optimizer: what it is going to wrap.

    Raises:
        RuntimeError: Keras has no LossScaleOptimizer.
    """
    if not IS_THERE:
        raise RuntimeError(
            f"{cls.__name__} needs the Keras of TensorFlow 2.4 or later; this is TensorFlow "
            f"{tf.__version__}. Use npu_bridge's NPULossScaleOptimizer."
        )
    if _FOR_INSTANCES in cls.__dict__:
        return cls
    kind = _kind(inner_optimizer)
    if (cls, kind) not in _made:
        members = {
            "__module__": kind.__module__,
            "__qualname__": kind.__qualname__,
            "__doc__": cls.__doc__,
            _FOR_INSTANCES: True,
        }
        bases = (cls,) if issubclass(cls, kind) else (cls, kind)
        make: Any = type(cls)
        _made[cls, kind] = make(kind.__name__, bases, members)
    return _made[cls, kind]


def _kind(inner_optimizer: Any) -> Type[Any]:
    if LossScaleOptimizer is _ORIGINAL:
        return _ORIGINAL
    kinds = _ORIGINAL.__subclasses__()
    older = isinstance(inner_optimizer, tf.keras.optimizers.legacy.Optimizer)
    name = "LossScaleOptimizer" if older else "LossScaleOptimizerV3"
    module = _ORIGINAL.__module__
    return next(one for one in kinds if one.__name__ == name and one.__module__ == module)

"""The classes of tf.estimator, or what stands in for them where TensorFlow has none any more."""

from __future__ import annotations

from typing import Any, NoReturn, Type

import tensorflow.compat.v1 as tf

__all__ = ["Estimator", "EstimatorSpec", "ModeKeys", "RunConfig", "require"]

_HAVE_IT = (
    "TensorFlow {version} has no tf.estimator: the last version with it is 2.15. {name} needs one "
    "of TensorFlow 1.15 to 2.15."
)


def _find() -> Any:
    try:
        found = tf.estimator
        found.Estimator  # noqa: B018  (the module is loaded when a name of it is asked for)
    except (AttributeError, ImportError):
        return None
    return found


_estimator = _find()


def require(name: str) -> None:
    """Checks that this TensorFlow has tf.estimator.

    Args:
        name: what needs it.

    Raises:
        RuntimeError: it has not; names the versions that have.
    """
    if _estimator is None:
        raise RuntimeError(_HAVE_IT.format(version=tf.__version__, name=name))


def _stand_in(name: str, *bases: Type[Any]) -> Any:
    def new(cls: Type[Any], *args: Any, **kwargs: Any) -> NoReturn:
        require(cls.__name__)
        raise AssertionError(f"{name} stands in for nothing")

    return type(name, bases, {"__new__": new, "__doc__": f"Stands in for tf.estimator.{name}."})


class _ModeKeys:
    """The values of tf.estimator.ModeKeys."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = "infer"


Estimator: Any = _stand_in("Estimator") if _estimator is None else _estimator.Estimator
EstimatorSpec: Any = (
    _stand_in("EstimatorSpec", tuple) if _estimator is None else _estimator.EstimatorSpec
)
RunConfig: Any = _stand_in("RunConfig") if _estimator is None else _estimator.RunConfig
ModeKeys: Any = _ModeKeys if _estimator is None else _estimator.ModeKeys

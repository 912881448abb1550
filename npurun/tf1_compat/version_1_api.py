"""The module that scripts written for TensorFlow 1 get for `import tensorflow`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, List

# Not public, but reachable in TensorFlow 1 as well, and used.
_INTERNAL_PARTS = ("python", "core", "compiler", "tools")


class Version1Api(ModuleType):
    """The compat.v1 API under the name tensorflow, with tf.contrib and the internal packages.

    Args:
        real: TensorFlow 2.
    """

    def __init__(self, real: Any):
        super().__init__("tensorflow", real.__doc__)
        self._real = real
        self._version_1 = real.compat.v1
        self.__version__ = real.__version__
        self.__file__ = real.__file__
        self.__path__ = real.__path__
        self.__package__ = "tensorflow"
        self.__spec__ = real.__spec__
        # The API's own `compat` lacks parts of its v1 and v2.
        self.compat = real.compat
        self.__all__ = [name for name in dir(self._version_1) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        """Finds a name where it is first used: much of TensorFlow is loaded that late."""
        if name == "contrib" or name in _INTERNAL_PARTS:
            value: Any = importlib.import_module("tensorflow." + name)
        elif name == "layers" and _has_keras_3_only(self._version_1):
            value = _NeedsKeras2(self.__version__)
        else:
            value = self._find(name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> List[str]:
        return sorted(set(self.__all__) | {"contrib"})

    def _find(self, name: str) -> Any:
        try:
            return getattr(self._version_1, name)
        except AttributeError:
            if name != "estimator":
                raise AttributeError(f"module 'tensorflow' has no attribute '{name}'")
            raise AttributeError(
                f"TensorFlow {self.__version__} has no tf.estimator any more: use a version up to "
                "2.15, or lane tf1.15 (TensorFlow 1.15 on Python 3.7)."
            )


class _NeedsKeras2(ModuleType):
    """tf.layers where it cannot work: every name says what to install."""

    def __init__(self, version: str):
        super().__init__("tensorflow.layers")
        self._version = version

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        minor = ".".join(self._version.split(".")[:2])
        raise AttributeError(
            f"tf.layers.{name} needs Keras 2, which TensorFlow {self._version} has in a package of "
            f"its own: pip install tf-keras~={minor}.0"
        )


def _has_keras_3_only(version_1: Any) -> bool:
    try:
        return not hasattr(version_1.layers, "dense")
    except ImportError:
        return True  # no Keras at all

"""tf.contrib on TensorFlow 2: the names that have an equal, and a sentence for all others."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import Any, Dict, List, Optional

from npurun.tf1_compat.contrib_names import MODULES, SAME_MODULES, SAME_PACKAGES

_ROOT = "tensorflow.contrib"


def find_spec(name: str) -> importlib.machinery.ModuleSpec:
    """Returns the spec of tensorflow.contrib or a module in it.

    Raises:
        ImportError: it has no equal. Not ModuleNotFoundError, which `from ... import` swallows.
    """
    inner = name[len(_ROOT) + 1 :]
    if not inner or inner in MODULES or _same_module(inner) or _is_folder(inner):
        return importlib.machinery.ModuleSpec(name, _Loader(), is_package=True)
    raise ImportError(_why_not_there(inner), name=name)


def _why_not_there(inner: str) -> str:
    """Returns a sentence on tf.contrib.<inner>, which is no module and was not found as a name."""
    module, _, name = inner.rpartition(".")
    target = equals_of(module).get(name)
    if target is not None:
        # `from ... import` comes here after it has dropped the error that said this.
        try:
            _resolve("tf.contrib." + inner, target)
        except AttributeError as error:
            return str(error)
    return _no_equal("tf.contrib." + inner)


class _Loader(importlib.abc.Loader):
    """Makes a module of tf.contrib."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Implements importlib.abc.Loader."""
        return ContribModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Implements importlib.abc.Loader."""
        target = _same_module(module.__name__[len(_ROOT) + 1 :])
        if target is None:
            return
        try:
            stand_in = importlib.import_module(target)
        except ImportError as error:
            raise ImportError(
                _cannot_load(_public(module.__name__), target, error), name=module.__name__
            )
        module.stand_in = stand_in  # type: ignore[attr-defined]
        module.__doc__ = stand_in.__doc__
        module.__all__ = [  # type: ignore[attr-defined]
            name for name in dir(stand_in) if not name.startswith("_")
        ]


class ContribModule(ModuleType):
    """tensorflow.contrib or a module in it, whose names are found when they are used.

    Attributes:
        stand_in: the existing module that has all the names, or None.
    """

    stand_in: Optional[ModuleType] = None

    def __init__(self, name: str):
        super().__init__(name)
        self.__path__: List[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            value = self._find_in_stand_in(name) if self.stand_in else self._find(name)
        except ImportError as error:
            raise AttributeError(str(error))
        setattr(self, name, value)
        return value

    def __dir__(self) -> List[str]:
        return sorted(set(self.__dict__) | set(self._names()))

    def _find(self, name: str) -> Any:
        full_name = self.__name__ + "." + name
        inner = full_name[len(_ROOT) + 1 :]
        if inner in MODULES or _same_module(inner) or _is_folder(inner):
            return importlib.import_module(full_name)
        names = self._names()
        if name in names:
            return _resolve(_public(full_name), names[name])
        raise AttributeError(_no_equal(_public(full_name)))

    def _find_in_stand_in(self, name: str) -> Any:
        assert self.stand_in is not None
        full_name = self.__name__ + "." + name
        if not hasattr(self.stand_in, name):
            # A module that nobody has imported yet, or a sentence that says that there is none.
            return importlib.import_module(full_name)
        value = getattr(self.stand_in, name)
        is_inside = getattr(value, "__name__", "").startswith(self.stand_in.__name__ + ".")
        if isinstance(value, ModuleType) and is_inside:
            return importlib.import_module(full_name)
        return value

    def _names(self) -> Dict[str, str]:
        """Returns the names in this module, each with the full name of its equal."""
        return equals_of(self.__name__[len(_ROOT) + 1 :])


def equals_of(inner: str) -> Dict[str, str]:
    """Returns the names of tf.contrib.<inner>, each with the full name of its equal."""
    found: Dict[str, str] = {}
    for prefix, text in MODULES.get(inner, {}).items():
        for entry in text.split():
            name, _, other = entry.partition("=")
            found[name] = prefix + "." + (other or name)
    return found


def _resolve(name: str, target: str) -> Any:
    """Returns the object with a full name, such as tensorflow.train.Saver.

    Raises:
        AttributeError: it is not there; the text says why and what to do about `name`.
    """
    package, _, rest = target.partition(".")
    try:
        if package == "tensorflow" and not rest.startswith("python."):
            found: Any = sys.modules["tensorflow"].compat.v1
            for part in rest.split("."):
                found = getattr(found, part)
            return found
        module, _, attribute = target.rpartition(".")
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise AttributeError(_cannot_load(name, target, error))


def _same_module(inner: str) -> Optional[str]:
    """Returns the existing module that serves as tf.contrib.<inner>, or None."""
    if inner in SAME_MODULES:
        return SAME_MODULES[inner]
    # Packages stand inside packages: the innermost decides.
    for package, target in sorted(SAME_PACKAGES.items(), reverse=True):
        if (inner + ".").startswith(package + ".") and not _is_folder(inner):
            return target + inner[len(package) :]
    return None


def _is_folder(inner: str) -> bool:
    """Whether tf.contrib.<inner> only leads to other modules."""
    known = (*MODULES, *SAME_MODULES, *SAME_PACKAGES)
    return inner not in known and any(name.startswith(inner + ".") for name in known)


def _public(full_name: str) -> str:
    return "tf." + full_name.partition(".")[2]


def _no_equal(name: str) -> str:
    return (
        f"{name} has no equal in TensorFlow {_tensorflow_version()} or tf_slim. Run the script in "
        "lane tf1.15 (TensorFlow 1.15 on Python 3.7)."
    )


def _cannot_load(name: str, target: str, error: Exception) -> str:
    missing = (error.name or "") if isinstance(error, ImportError) else ""
    if missing == "tf_slim":
        return f"{name} needs the package tf_slim, which is not installed: pip install tf_slim"
    if missing == target:
        return _no_equal(name)
    return (
        f"{name} is {target} in TensorFlow 2, which TensorFlow {_tensorflow_version()} cannot give "
        f"({error}). Run the script in lane tf2.15 or tf1.15 (TensorFlow 1.15 on Python 3.7)."
    )


def _tensorflow_version() -> str:
    return str(getattr(sys.modules.get("tensorflow"), "__version__", "2"))

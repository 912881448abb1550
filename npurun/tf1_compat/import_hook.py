"""Gives importers written for TensorFlow 1 its API, and leaves the real module to the others.

sys.modules keeps the real TensorFlow 2: what decides is who imports. That takes two hooks: one on
the import of TensorFlow itself, which turns version 2 behaviour off as soon as it is loaded, by
whomever, and one on `import` statements, which alone knows the importer.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import logging
import os
import sys
from types import ModuleType
from typing import Any, Mapping, Optional, Sequence

from npurun.tf1_compat import contrib

# Written for TensorFlow 2, or for both: they get what they would get without this. The rest, user
# scripts and their modules, gets the API of TensorFlow 1.
LIBRARIES = frozenset(
    [
        "absl",
        "google",
        "hccl",
        "horovod",
        "keras",
        "keras_core",
        "keras_cv",
        "keras_nlp",
        "npu_bridge",
        "npu_device",
        "npurun",
        "official",
        "tensorboard",
        "tensorboard_plugin_profile",
        "tensorboard_plugin_wit",
        "tensorboardX",
        "tensorflow",
        "tensorflow_addons",
        "tensorflow_datasets",
        "tensorflow_estimator",
        "tensorflow_hub",
        "tensorflow_io",
        "tensorflow_metadata",
        "tensorflow_probability",
        "tensorflow_text",
        "tensorflow_transform",
        "tf2onnx",
        "tf_keras",
        "tf_slim",
        "transformers",
        "wandb",
    ]
)

# Parts of the real package that the compat.v1 API does not have, or has less of.
_REAL_PARTS = frozenset(["_api", "compat", "compiler", "contrib", "core", "python", "tools"])

_original_import = builtins.__import__
_prepared = False  # whether TensorFlow 2 is loaded, with version 2 behaviour off
_api: Optional[ModuleType] = None


def install() -> None:
    """Installs both hooks, before TensorFlow is imported. A second call does nothing."""
    if not any(isinstance(finder, _TensorFlowFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TensorFlowFinder())
        builtins.__import__ = _import


def uninstall() -> None:
    """Removes both hooks."""
    sys.meta_path[:] = [f for f in sys.meta_path if not isinstance(f, _TensorFlowFinder)]
    if builtins.__import__ is _import:
        builtins.__import__ = _original_import


class _TensorFlowFinder:
    """Finds tensorflow, to prepare it once it is loaded, and tensorflow.contrib."""

    def find_spec(
        self, name: str, path: Optional[Sequence[str]] = None, target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """Implements importlib.abc.MetaPathFinder."""
        if name == "tensorflow":
            return self._find_tensorflow(path, target)
        if _prepared and (name + ".").startswith("tensorflow.contrib."):
            return contrib.find_spec(name)
        return None

    def _find_tensorflow(
        self, path: Optional[Sequence[str]], target: Optional[ModuleType]
    ) -> Optional[importlib.machinery.ModuleSpec]:
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec("tensorflow", path, target)
            if spec is not None:
                _call_after_load(spec)
                return spec
        return None


def _call_after_load(spec: importlib.machinery.ModuleSpec) -> None:
    """Makes the loader of TensorFlow prepare it."""
    loader: Any = spec.loader
    load = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        _prefer_keras_2()
        load(module)
        _prepare(module)

    loader.exec_module = exec_module


def _prefer_keras_2() -> None:
    """Makes TensorFlow use the package tf_keras, if it is there, in place of Keras 3.

    Keras 3 has neither graph mode nor tf.layers. Older TensorFlow versions do not read this.
    """
    if importlib.util.find_spec("tf_keras") is not None:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def _prepare(tensorflow: Any) -> None:
    global _prepared
    if tensorflow.__version__.startswith("1."):
        uninstall()
        return
    # It says that resource variables may not be turned off for ever: nothing a user can act on.
    logger = logging.getLogger("tensorflow")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        tensorflow.compat.v1.disable_v2_behavior()
    finally:
        logger.setLevel(level)
    _prepared = True


def _is_library(importer: Optional[Mapping[str, Any]]) -> bool:
    name = (importer or {}).get("__name__") or ""
    return name.partition(".")[0] in LIBRARIES


def _import(
    name: str,
    globals: Optional[Mapping[str, Any]] = None,  # noqa: A002  (the names of __import__)
    locals: Optional[Mapping[str, Any]] = None,  # noqa: A002
    fromlist: Optional[Sequence[str]] = (),
    level: int = 0,
) -> Any:
    """Stands in for builtins.__import__, with its arguments and results."""
    ours = level == 0 and (name == "tensorflow" or name.startswith("tensorflow."))
    if not ours or _is_library(globals):
        return _original_import(name, globals, locals, fromlist or (), level)
    _original_import("tensorflow")
    if not _prepared:
        # TensorFlow 1; or TensorFlow 2 while it loads, which runs code under names of no library.
        return _original_import(name, globals, locals, fromlist or (), level)
    api = _version_1_api()
    parts = name.split(".")[1:]
    module = api if not parts else _find_in_api(api, parts)
    if module is None:
        module = _original_import(name, globals, locals, fromlist or (), level)
    return module if fromlist else api


def _find_in_api(api: ModuleType, parts: Sequence[str]) -> Any:
    """Returns what is called tensorflow.<parts> in TensorFlow 1's API, or None."""
    if parts[0] in _REAL_PARTS:
        return None
    found: Any = api
    for part in parts:
        found = getattr(found, part, None)
    return found


def _version_1_api() -> ModuleType:
    global _api
    if _api is None:
        # Not at the top: this module is loaded in every Python process, also without TensorFlow.
        from npurun.tf1_compat.version_1_api import Version1Api

        _api = Version1Api(sys.modules["tensorflow"])
    return _api

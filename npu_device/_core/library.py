"""Loads the native libraries: the only place that does.

There are two, and both use libnpu_bridge_core.so beside them:

* `native()`: the Python bindings, for groups and start-up. Needs no TensorFlow.
* `ops()`: the TensorFlow ops. They run with the one TensorFlow they were built for, so that one
  is compared with the one that runs before anything of ours is mapped into the process; a plugin
  of another version would fail with a missing C++ symbol, or crash later.
"""

from __future__ import annotations

import importlib
import os
import threading
from types import ModuleType
from typing import Any, Optional

_FOLDER = os.path.dirname(os.path.abspath(__file__))

#: What to run, from the folder that holds the sources, when the libraries do not fit.
REBUILD_COMMAND = "pip install --force-reinstall --no-deps --no-cache-dir ."

_lock = threading.Lock()
_ops_module: Optional[Any] = None


def native() -> ModuleType:
    """Returns the bindings, `npu_device._core._native`.

    Raises:
        ImportError: they were never built, or were built for another Python.
    """
    try:
        return importlib.import_module("npu_device._core._native")
    except ModuleNotFoundError as error:
        if error.name != "npu_device._core._native":
            raise
        raise ImportError(_absent("_native")) from None


def ops() -> Any:
    """Returns the module of Python functions that TensorFlow made for our ops.

    The first call registers the ops, kernels and graph passes with TensorFlow; later calls return
    the same module.

    Raises:
        ImportError: TensorFlow is not there, is not the one the ops were built for, or the
            libraries were never built.
    """
    global _ops_module
    if _ops_module is not None:  # asked by every eager call
        return _ops_module
    with _lock:
        if _ops_module is None:
            module = _load_ops(os.path.join(_FOLDER, "_npu_ops.so"))
            # A graph may run the ops before anything else of ours is called: native code then
            # starts by itself, and needs to know whom to ask for the configuration.
            from npu_device._core import fusion, runtime, session_options

            runtime.current().native()
            native().set_fusion_hooks(fusion.settings, fusion.record)
            native().set_session_options_hook(session_options.record)
            _ops_module = module
        return _ops_module


def _load_ops(path: str) -> Any:
    built_for = _build_information()
    if not os.path.isfile(path):
        raise ImportError(_absent(os.path.basename(path)))
    import tensorflow as tf

    _check_tensorflow(built_for, tf.__version__, tf.sysconfig.CXX11_ABI_FLAG)
    try:
        return tf.load_op_library(path)
    except tf.errors.NotFoundError as error:
        # dlopen failed: its text names the file or symbol, and a rebuild is what helps.
        raise ImportError(
            f"The TensorFlow ops of npu-bridge in {path} do not load: {error.message}. "
            f"Rebuild them from the source folder with: {REBUILD_COMMAND}"
        ) from error


def _build_information() -> ModuleType:
    try:
        return importlib.import_module("npu_device._core.build_information")
    except ModuleNotFoundError as error:
        if error.name != "npu_device._core.build_information":
            raise
        raise ImportError(_absent("build_information.py")) from None


def _check_tensorflow(built_for: Any, version: str, cxx11_abi: int) -> None:
    """Compares the TensorFlow that runs with the one the ops were built for.

    Args:
        built_for: has TENSORFLOW_VERSION and CXX11_ABI.
        version: tf.__version__ of the one that runs.
        cxx11_abi: its tf.sysconfig.CXX11_ABI_FLAG.

    Raises:
        ImportError: they differ.
    """
    if built_for.TENSORFLOW_VERSION != version:
        difference = f"built for TensorFlow {built_for.TENSORFLOW_VERSION}, {version} runs"
    elif int(built_for.CXX11_ABI) != int(cxx11_abi):
        difference = (
            f"built for a TensorFlow {version} with C++ ABI {built_for.CXX11_ABI}, "
            f"one with ABI {int(cxx11_abi)} runs"
        )
    else:
        return
    raise ImportError(
        f"The ops of npu-bridge were {difference}. "
        f"Rebuild them from the source folder with: {REBUILD_COMMAND}"
    )


def _absent(name: str) -> str:
    """Returns the text for a library that is not in this folder, with what is there instead."""
    stem = name.split(".")[0]
    others = sorted(
        f for f in os.listdir(_FOLDER) if f.startswith(stem + ".") and f.endswith(".so")
    )
    if others:
        return (
            f"The native library {name} of npu-bridge was built for another Python: {_FOLDER} has "
            f"{', '.join(others)}. Rebuild it from the source folder with: {REBUILD_COMMAND}"
        )
    return (
        f"The native library {name} of npu-bridge is not in {_FOLDER}: this is a source tree that "
        f"was not built. Install it with `pip install .` in the source folder and run from another "
        f"folder, or build it in place with `python -m build_support`."
    )

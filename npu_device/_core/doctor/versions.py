"""Checks of what is installed: Python, TensorFlow, and our libraries."""

from __future__ import annotations

import os
import platform
import sys

from npu_device._core import library
from npu_device._core.doctor.finding import FAILURE, OK, Finding
from npu_device._core.version import VERSION


def check() -> list[Finding]:
    """Returns what is installed, and whether it fits together. Imports TensorFlow."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(library.__file__)))
    findings = [
        Finding(
            OK,
            f"npu-bridge {VERSION} in {folder}, Python {platform.python_version()} "
            f"({sys.executable})",
        )
    ]
    # TensorFlow greets on stderr otherwise.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        built = library.native().build_info()
        library.ops()
        import tensorflow as tf
    except ImportError as error:
        return [*findings, Finding(FAILURE, str(error))]
    return [
        *findings,
        Finding(OK, f"TensorFlow {tf.__version__}, for which the native libraries were built"),
        Finding(OK, "native libraries built with {compiler}".format(**built)),
    ]

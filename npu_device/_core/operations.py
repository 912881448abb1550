"""Registers our ops and their gradients with TensorFlow, once for npu_bridge and npu_device."""

from __future__ import annotations

from typing import Any

from npu_device._core import (
    gradients,  # noqa: F401  (importing it registers the gradients)
    library,
)


def load() -> Any:
    """Returns the module of Python functions that TensorFlow made for our ops.

    Afterwards a GraphDef that holds them can be imported and differentiated.

    Raises:
        ImportError: the ops cannot be loaded; says why and what to do.
    """
    return library.ops()

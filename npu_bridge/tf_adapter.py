"""The native module that the published package has for its own use.

Its functions control the NPU's runtime, which is not there on CPU ranks: they have no effect.

Source of the contract: the names that the published Python files take from tf_adapter.
"""

from __future__ import annotations

__all__ = ["Clear", "EnableControl"]


def EnableControl() -> None:
    """Would begin to record which graphs are loaded to the device; has no effect."""


def Clear() -> None:
    """Would unload the graphs that were recorded; has no effect."""

"""Keeps AutoGraph away from our functions."""

from __future__ import annotations

from typing import Any, Callable, TypeVar

AnyFunction = TypeVar("AnyFunction", bound=Callable[..., Any])


def unconverted(function: AnyFunction) -> AnyFunction:
    """Marks a function that scripts call inside tf.function as one to be called as it is.

    AutoGraph rewrites what a tf.function calls, and what that calls in turn. Of our functions that
    costs a second a trace and makes nothing better. tf.autograph.experimental.do_not_convert would
    do as well, and cost each eager call a microsecond; the mark is what TensorFlow itself puts on
    functions that it has converted already.

    Returns:
        The function.
    """
    setattr(function, "autograph_info__", {})  # noqa: B010  (no name that a class would have)
    return function

"""Keras 2 takes compile(jit_compile="auto"), which scripts for Keras 3 pass, for True.

Keras 3 means: compile with XLA what can be. Exchanges between ranks cannot.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, Type

from npu_device._core import keras_root, logging

_MARK = "_npu_knows_auto"


def let_auto_train(optimizer: Any, reducing: Type[Any]) -> None:
    """Makes models of an optimizer's Keras take "auto" for False, where their optimizer reduces.

    Models with other optimizers stay as they are, and so does an explicit True.

    Args:
        optimizer: of Keras 2, in which it is the class of all models that changes.
        reducing: the class of optimizers that reduce.
    """
    root = keras_root.of(optimizer)
    if root is None or keras_root.is_keras_3(optimizer):
        return
    model = importlib.import_module(f"{root}.engine.training").Model
    if model.__dict__.get(_MARK):
        return
    original = model.compile

    @functools.wraps(original)
    def compile(self: Any, optimizer: Any = "rmsprop", *args: Any, **kwargs: Any) -> Any:
        if kwargs.get("jit_compile") == "auto" and _reduces(optimizer, reducing):
            kwargs["jit_compile"] = False
            logging.info_from_rank_0(
                'compile(jit_compile="auto") trains without XLA, which compiles no exchanges '
                "between ranks."
            )
        return original(self, optimizer, *args, **kwargs)

    model.compile = compile
    setattr(model, _MARK, True)


def _reduces(optimizer: Any, reducing: Type[Any]) -> bool:
    inner = getattr(optimizer, "inner_optimizer", None)
    return isinstance(optimizer, reducing) or isinstance(inner, reducing)

"""Attributes of a package that are imported when they are first used.

Everything of npu_device needs TensorFlow, which takes seconds to import, except what the launcher
and hccl.manage.api use: importing those must not import TensorFlow.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any, Callable, List, Mapping, Tuple


def attributes(
    package: str, origins: Mapping[str, Tuple[str, str]]
) -> Tuple[Callable[[str], Any], Callable[[], List[str]]]:
    """Makes the functions `__getattr__` and `__dir__` of a package.

    Args:
        package: the package's name.
        origins: by name of the attribute, the module that it comes from and its name there; an
            empty name stands for the module itself.

    Returns:
        Both functions.
    """

    def get(name: str) -> Any:
        if name not in origins:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, attribute = origins[name]
        value: Any = importlib.import_module(module)
        if attribute:
            value = getattr(value, attribute)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> List[str]:
        return sorted(set(vars(sys.modules[package])) | set(origins))

    return get, names

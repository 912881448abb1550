"""npu_bridge under the paths of npu_device: `npu_device.compat.v1.X` is `npu_bridge.X`, for any X.

The one place where npu_device imports npu_bridge, and only when a module below this one is
imported. Each is the same module under two names, so that a class is the same class by both.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from typing import Any, Optional

from npu_device.compat.utils import SessionConfigBuilder

__all__ = ["SessionConfigBuilder"]

_PREFIX = __name__ + "."


class _Mirror(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules below this one, and loads the one of npu_bridge in place of each."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        del path, target
        if not fullname.startswith(_PREFIX):
            return None
        theirs = _theirs(fullname)
        try:
            found: Optional[Any] = importlib.util.find_spec(theirs)
        except ModuleNotFoundError as error:
            if error.name is None or not (theirs + ".").startswith(error.name + "."):
                raise
            found = None  # a package on the way is not there, or is no package
        if found is None:
            return None
        is_package = found.submodule_search_locations is not None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=is_package)

    def create_module(self, spec: Any) -> Any:
        del spec
        return None  # an empty one, which exec_module replaces

    def exec_module(self, module: Any) -> None:
        # Python gives out what stands here afterwards.
        sys.modules[module.__name__] = importlib.import_module(_theirs(module.__name__))


def _theirs(fullname: str) -> str:
    return "npu_bridge." + fullname[len(_PREFIX) :]


# First: a package below is npu_bridge's, and Python would load its modules a second time.
if not any(type(finder).__name__ == "_Mirror" for finder in sys.meta_path):
    sys.meta_path.insert(0, _Mirror())

"""Makes the package `hccl` ours where CANN's own comes first on the path.

Both have the same modules. CANN's drives a device and knows nothing of the groups that our ops run
in, so that a script which gets that one would create groups which no collective finds.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
from typing import Optional

from npu_device._core import environment, logging

_NAME = "hccl"
# hccl is installed beside npu_device, and stands beside it in the source tree.
_OURS = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), _NAME
)


def prefer_ours() -> bool:
    """Puts our `hccl` in place of another, unless NPU_BRIDGE_KEEP_HCCL=1 is set.

    Called when npu_bridge or npu_device is imported. Modules that a script holds already stay what
    they are.

    Returns:
        Whether another one would have been imported, and ours is now.
    """
    other = _folder_of_other()
    if other is None or environment.value("NPU_BRIDGE_KEEP_HCCL"):
        return False
    for name in [n for n in sys.modules if n == _NAME or n.startswith(_NAME + ".")]:
        del sys.modules[name]
    file = os.path.join(_OURS, "__init__.py")
    spec = importlib.util.spec_from_file_location(_NAME, file, submodule_search_locations=[_OURS])
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[_NAME] = module
    spec.loader.exec_module(module)
    logging.info_from_rank_0(
        "Package hccl is that of npu_bridge, not the one in %s. NPU_BRIDGE_KEEP_HCCL=1 keeps that.",
        other,
    )
    return True


def _folder_of_other() -> Optional[str]:
    """Returns where `import hccl` finds a package that is not ours; None where it finds ours."""
    loaded = sys.modules.get(_NAME)
    if loaded is not None:
        spec = getattr(loaded, "__spec__", None)
    else:
        spec = importlib.machinery.PathFinder.find_spec(_NAME)
    places = list(getattr(spec, "submodule_search_locations", None) or [])
    if not places or any(os.path.realpath(p) == os.path.realpath(_OURS) for p in places):
        return None
    return places[0]

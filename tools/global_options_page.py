"""Prints docs/global-options.md from the table in npu_device/_core/device_options.py.

python tools/global_options_page.py > docs/global-options.md
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from npu_device._core import device_options
from npu_device.configs.npu_config import NpuConfig
from npu_device.configs.option_base import NpuBaseConfig

_HEAD = """# Global options

What a script may set before it opens the device:

    import npu_device as npu
    npu.global_options().precision_mode = "allow_mix_precision"
    npu.global_options().dump_config.enable_dump = True
    npu.open().as_default()

All are for the NPU: they are checked, kept, and have no effect on CPU ranks. Each that is set says
so once, at INFO and on rank 0, and one of an older release says what takes its place.

- One of the device alone that is set after `npu.open()` gets a warning: a device would not read it.
- A name that no release knows is a ValueError with the nearest one, or with the group that has it.
- A value that is not allowed is an error that lists those that are: a TypeError where it is of
  another type than the default, else a ValueError.
- `npu.global_options().as_dict()` returns those that have a value, of all groups in one dict: texts
  by name, "1" for True and "0" for False.

`npu.configs.run_context_options()` has the group `experimental`, for
`with npu.npu_run_context(options):`.

This page is made from the table in npu_device/_core/device_options.py by
tools/global_options_page.py.
"""
_TABLE = "\n| option | default | values | meaning |\n|---|---|---|---|\n"


def page():
    """Returns the text of the page."""
    return _HEAD + "".join(_tables(NpuConfig(), "npu.global_options()"))


def _tables(group, path):
    """Yields the text for a group and for those in it."""
    yield f"\n## {path}\n" + _TABLE
    for option in device_options.GROUPS.get(type(group).__name__, ()):
        meaning = option.explanation
        if option.older is not None:
            instead = f": use {option.older}" if option.older else ""
            meaning += f" (of an older release{instead})"
        values = [repr(one) for one in option.values or ()]
        if option.limits:
            values = [f"{option.limits[0]} to {option.limits[1]}"]
        values += [f"{one!r} (older)" for one in option.older_values]
        default = "" if option.default is None else repr(option.default)
        cells = [option.name, default, ", ".join(values), meaning]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"
    for name, held in vars(group).items():
        if isinstance(held, NpuBaseConfig):
            yield from _tables(held, f"{path}.{name}")


if __name__ == "__main__":
    sys.stdout.write(page())

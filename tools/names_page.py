"""Prints docs/npu-bridge-names.md from the docstrings of the published names of npu_bridge.

python tools/names_page.py > docs/npu-bridge-names.md, in an environment of the main lane.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from typing import Any, Dict, List, NamedTuple

_ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, _ROOT)

_HEAD = """# The names of npu_bridge

Every published name of npu_bridge, and what it is on CPU ranks:

- **works**: does what the published page says.
- **no effect**: accepted and checked, and changes nothing, since it is about the device.
- **refused**: can be imported; calling it raises an error that says why and what to use instead.

Modules that are published in another one are left out there. This page is made from the docstrings
by tools/names_page.py.
"""
_WITHOUT_EFFECT = "Accepted without effect on CPU ranks."
_REFUSALS = ("Is not available on CPU ranks", "Is refused")
_REFUSED_WHEN_RUN = "No transport of this project serves it"


class Row(NamedTuple):
    """A line of the published list that has a place on the page."""

    module: str
    kind: str
    name: str
    rest: str


def status(value: Any) -> str:
    """Returns "works", "no effect" or "refused", as the docstring of a name says."""
    text = inspect.getdoc(value) or ""
    if text.startswith(_REFUSALS) or _REFUSED_WHEN_RUN in text:
        return "refused"
    return "no effect" if _WITHOUT_EFFECT in text else "works"


def value_of(row: Row) -> Any:
    """Returns what a name stands for."""
    value = importlib.import_module(row.module)
    for part in row.name.split("."):
        value = getattr(value, part)
    return value


def published() -> List[Row]:
    """Returns the functions and classes of npu_bridge, also where they are published again."""
    with open(os.path.join(_ROOT, "tests", "api", "signatures.tsv"), encoding="utf-8") as file:
        rows = [Row(*line.rstrip("\n").split("\t")) for line in file.readlines()[1:]]
    return [
        row
        for row in rows
        if row.module.split(".")[0] == "npu_bridge"
        and row.kind in ("function", "class", "re-export")
        and not inspect.ismodule(value_of(row))
    ]


def page() -> str:
    """Returns the text of the page."""
    modules: Dict[str, List[str]] = {}
    for row in published():
        value = value_of(row)
        if row.kind == "re-export":
            meaning = f"{row.rest}"
        else:
            # The first sentence or paragraph.
            meaning = " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())
        cells = [row.name, status(value), meaning.replace("|", "\\|")]
        modules.setdefault(row.module, []).append("| " + " | ".join(cells) + " |\n")
    parts = [_HEAD]
    for module in sorted(modules):
        parts.append(f"\n## {module}\n\n| name | here | |\n|---|---|---|\n")
        parts.extend(modules[module])
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(page())

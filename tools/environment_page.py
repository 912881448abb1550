"""Prints docs/environment.md from the table in npu_device/_core/environment.py.

python tools/environment_page.py > docs/environment.md
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from npu_device._core import environment

_HEAD = """# Environment variables

All are read when they are first needed, not on import, so a script may set them itself. A value
that is not allowed is an error that says what is; a misspelt HCCL_, RANK_ or NPU_BRIDGE_ name is
pointed out once. An empty value counts as not set. This page is made from the table in
npu_device/_core/environment.py by tools/environment_page.py.

| variable | values | default | meaning |
|---|---|---|---|
"""


def page():
    """Returns the text of the page."""
    lines = []
    for variable in environment.VARIABLES:
        meaning = variable.meaning
        if variable.effect != environment.USED:
            meaning += " (%s)" % variable.effect
        default = "" if variable.default is None else str(variable.default)
        cells = [variable.name, variable.kind.allowed, default, meaning]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return _HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())

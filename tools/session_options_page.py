"""Prints docs/session-options.md from the table in npu_device/_core/session_options.py.

python tools/session_options_page.py > docs/session-options.md
"""

from __future__ import annotations

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from npu_device._core import session_options

_HEAD = """# Session options

What a script may put into the parameter_map of NpuOptimizer:

    custom_op = config.graph_options.rewrite_options.custom_optimizers.add()
    custom_op.name = "NpuOptimizer"
    custom_op.parameter_map["hcom_parallel"].b = True

All are accepted, checked and kept, and none of them makes a session fail. What is checked when
TensorFlow optimizes the first graph of the session:

- A name that no release knows, a value that is none of the known ones, and a value in the wrong
  field are pointed out once, with what was probably meant. A value in the wrong field is converted
  where that loses nothing.
- An option without an effect says so once, at INFO and on rank 0, and so does one of an older
  release.

Results are the same with and without NpuOptimizer in the configuration. This page is made from the
table in npu_device/_core/session_options.py by tools/session_options_page.py.

| option | field | values | meaning | here |
|---|---|---|---|---|
"""
_EFFECTS = {
    session_options.USED: "used",
    session_options.NPU_ONLY: "no effect: for the NPU",
    session_options.NOT_IN_BUILD: "no effect in this build",
}


def page():
    """Returns the text of the page."""
    lines = []
    for option in session_options.OPTIONS:
        meaning = option.meaning
        if option.older:
            meaning += " (of an older release: %s)" % option.older
        older_values = [value + " (older)" for value in option.older_values]
        cells = [
            option.name,
            ", ".join("." + kind for kind in option.kinds),
            ", ".join([*option.values, *older_values]),
            meaning,
            _EFFECTS[option.effect],
        ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return _HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write(page())

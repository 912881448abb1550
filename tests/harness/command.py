"""npurun as a command whose streams a test looks at byte by byte."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.harness.program import npurun


def run_npurun(*arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Runs npurun's command line to its end. Takes what subprocess.run takes."""
    return subprocess.run(
        npurun(sys.executable) + list(arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
        **options,
    )


def write_script(folder: os.PathLike[str], text: str) -> str:
    """Writes a script into a folder and returns its path."""
    path = os.path.join(os.fspath(folder), "script.py")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path

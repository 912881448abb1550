"""docs/session-options.md lists the options as the code knows them."""

from __future__ import annotations

import importlib.util
import os

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def test_the_page_is_made_from_the_table():
    path = os.path.join(_ROOT, "tools", "session_options_page.py")
    spec = importlib.util.spec_from_file_location("session_options_page", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with open(os.path.join(_ROOT, "docs", "session-options.md"), encoding="utf-8") as file:
        assert file.read() == module.page(), "run: python tools/session_options_page.py"

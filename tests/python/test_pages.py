"""Pages of docs/ that are made from the code are what the code makes."""

from __future__ import annotations

import importlib.util
import inspect
import os

import pytest

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def tool(name):
    path = os.path.join(_ROOT, "tools", name + ".py")
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("environment_page", "environment.md"),
        ("global_options_page", "global-options.md"),
        ("names_page", "npu-bridge-names.md"),
        ("session_options_page", "session-options.md"),
    ],
)
def test_the_page_is_what_the_code_makes(name, page):
    with open(os.path.join(_ROOT, "docs", page), encoding="utf-8") as file:
        assert file.read() == tool(name).page(), f"run: python tools/{name}.py > docs/{page}"


def test_what_the_page_calls_refused_raises():
    names = tool("names_page")
    refused = [row for row in names.published() if names.status(names.value_of(row)) == "refused"]
    assert len(refused) > 40
    for row in refused:
        if row.module.endswith(("hccl_ops", "npu_plugin")):
            continue  # refused when it runs, or after its arguments are checked: tested there
        value = names.value_of(row)
        parameters = inspect.signature(value).parameters.values()
        required = [None for one in parameters if one.default is one.empty]
        with pytest.raises((NotImplementedError, RuntimeError), match="CPU|device"):
            value(*required)

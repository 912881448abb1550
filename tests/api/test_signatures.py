"""The public Python surface is that of the published packages, name by name.

signatures.tsv lists it: module, kind, name, and signature or origin. not_yet.txt lists what is not
there yet, a module or a module and a name a line; a row that has come must leave it, so that
nothing that works can get lost again.
"""

from __future__ import annotations

import ast
import builtins
import importlib
import importlib.util
import inspect
import os
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.core

HERE = os.path.dirname(os.path.abspath(__file__))


class Row(NamedTuple):
    module: str
    kind: str
    name: str
    rest: str


def rows():
    with open(os.path.join(HERE, "signatures.tsv"), encoding="utf-8") as file:
        lines = file.read().splitlines()[1:]
    return [Row(*line.split("\t")) for line in lines]


def not_yet():
    with open(os.path.join(HERE, "not_yet.txt"), encoding="utf-8") as file:
        lines = [line.strip() for line in file]
    return [line for line in lines if line and not line.startswith("#")]


def module_exists(name):
    parent = name.rpartition(".")[0]
    if parent and not (
        module_exists(parent) and hasattr(importlib.import_module(parent), "__path__")
    ):
        return False
    return importlib.util.find_spec(name) is not None


def found(module, name):
    """Returns what a dotted name of a module stands for; raises AttributeError."""
    value = importlib.import_module(module)
    for part in name.split("."):
        value = getattr(value, part)
    return value


def is_there(row):
    if not module_exists(row.module):
        return False
    try:
        found(row.module, row.name)
    except AttributeError:
        return False
    return True


def origin(path):
    """Returns what a dotted path stands for, whose first parts are a module."""
    parts = path.split(".")
    for cut in range(len(parts), 0, -1):
        module = ".".join(parts[:cut])
        if module_exists(module):
            value = importlib.import_module(module)
            for part in parts[cut:]:
                value = getattr(value, part)
            return value
    raise AssertionError(path + " begins with no module")


def wanted_parameters(row):
    """Returns (name, kind, default) of each parameter of a signature."""
    text = row.rest.rpartition(" < ")[0] if row.kind == "class" else row.rest
    arguments = ast.parse("def f{}: pass".format(text.strip() or "()")).body[0].args
    module = importlib.import_module(row.module)

    def value(node):
        if isinstance(node, ast.Name):
            return getattr(module, node.id, getattr(builtins, node.id, None))
        if isinstance(node, ast.Attribute):  # such as dtypes.int64
            return getattr(value(node.value), node.attr)
        return ast.literal_eval(node)

    defaults = [inspect.Parameter.empty] * (len(arguments.args) - len(arguments.defaults))
    defaults += [value(node) for node in arguments.defaults]
    wanted = [
        (argument.arg, inspect.Parameter.POSITIONAL_OR_KEYWORD, default)
        for argument, default in zip(arguments.args, defaults)
    ]
    if arguments.vararg:
        wanted.append((arguments.vararg.arg, inspect.Parameter.VAR_POSITIONAL, inspect._empty))
    for argument, node in zip(arguments.kwonlyargs, arguments.kw_defaults):
        default = inspect.Parameter.empty if node is None else value(node)
        wanted.append((argument.arg, inspect.Parameter.KEYWORD_ONLY, default))
    if arguments.kwarg:
        wanted.append((arguments.kwarg.arg, inspect.Parameter.VAR_KEYWORD, inspect._empty))
    return wanted


def parameters(value, without_self):
    found_ones = list(inspect.signature(value).parameters.values())
    if without_self and found_ones and found_ones[0].name in ("self", "cls"):
        del found_ones[0]
    return [(p.name, p.kind, p.default) for p in found_ones]


ROWS = rows()
MISSING = [row for row in ROWS if not is_there(row)]
THERE = [row for row in ROWS if row not in MISSING]


def test_what_is_not_there_is_what_the_list_says():
    missing = set()
    for row in MISSING:
        whole = not module_exists(row.module)
        missing.add(row.module if whole else f"{row.module} {row.name}")
    listed = not_yet()
    assert len(listed) == len(set(listed)), "not_yet.txt repeats a line"
    assert sorted(missing - set(listed)) == [], "gone, or never there and not listed"
    assert sorted(set(listed) - missing) == [], "there now: remove from not_yet.txt"


def test_how_many_rows_are_checked(record_property):
    print(f"{len(THERE)} of {len(ROWS)} published names are there")
    record_property("there", len(THERE))
    assert len(ROWS) == 622
    assert THERE


@pytest.mark.parametrize("row", THERE, ids=[f"{row.module}.{row.name}" for row in THERE])
def test_row(row):
    value = found(row.module, row.name)
    if row.kind == "re-export":
        try:
            expected = origin(row.rest)
        except AttributeError:
            return  # the origin is not there yet; test_what_is_not_there... knows
        assert value is expected or _same_module(value, expected)
    elif row.kind == "function":
        assert parameters(value, without_self=False) == wanted_parameters(row)
    elif row.kind == "method":
        if isinstance(value, property):  # its setter is published, too
            value = value.fset
        assert parameters(value, without_self=True) == wanted_parameters(row)
    elif row.kind == "class":
        assert inspect.isclass(value)
        bases = row.rest.rpartition(" < ")[2].strip()
        names = [base.__name__ for base in inspect.getmro(value)]
        assert all(base.strip() in names for base in bases.split(",") if base.strip())
        if row.rest.startswith("("):
            assert parameters(value.__init__, without_self=True) == wanted_parameters(row)
    elif row.kind == "property":
        assert isinstance(value, property)
    else:
        assert row.kind == "name"


def _same_module(value, expected):
    """A package may be given out under two paths, with the same names in both."""
    return (
        inspect.ismodule(value)
        and inspect.ismodule(expected)
        and set(expected.__all__) <= set(value.__all__)
        and all(getattr(value, name) is getattr(expected, name) for name in expected.__all__)
    )

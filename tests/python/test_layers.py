"""The layers of the source tree: which folder may include or import what.

The rules are read from #include and import lines, so that a forbidden edge fails here and not in
a build that happens to work. Each rule is tried on a tree that breaks it, too.
"""

from __future__ import annotations

import ast
import os
import re

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:if|ifdef|ifndef|elif)\b((?:.*\\\n)*.*)$", re.MULTILINE)
# Helpers of transports; every other folder of csrc/transport is a transport.
TRANSPORT_HELPERS = ("reduction", "conformance")
TENSORFLOW_INCLUDES = ("tensorflow/", "tsl/", "xla/", "absl/", "google/protobuf/", "Eigen/")
# Macros that say which TensorFlow is compiled against, and those that csrc/tf/compat.h makes of it.
TENSORFLOW_VERSION = re.compile(r"\b(?:TF_\w*VERSION\w*|NPU_BRIDGE_TF_\w+)\b")
FATAL = re.compile(
    r"(?<![\w.])(?<!->)(?:(?:TF_)?(?:Q?D?CHECK)(?:_[A-Z]+)?|assert|abort|std::terminate)\s*\("
    r"|\bLOG\s*\(\s*Q?FATAL\s*\)"
)
GETENV = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")


def layer_problems(root):
    """Returns one line for each broken rule in the source tree `root`."""
    problems = []
    for path in _files(root, "csrc", (".cc", ".h", ".inc")):
        with open(os.path.join(root, path), encoding="utf-8") as file:
            text = file.read()
        problems += [f"{path}: {problem}" for problem in cpp_problems(path, text)]
    for package in ("npu_device", "npu_bridge", "hccl", "npurun"):
        for path in _files(root, package, (".py", ".pyi")):
            with open(os.path.join(root, path), encoding="utf-8") as file:
                text = file.read()
            problems += [f"{path}: {problem}" for problem in python_problems(path, text)]
    return problems


def cpp_problems(path, text):
    """Returns what is wrong with a C++ file, by its path in the tree and its text."""
    problems = []
    for quote, name in INCLUDE.findall(_without_comments(text, keep_strings=True)):
        reason = _forbidden_include(path, name, quote)
        if reason:
            problems.append(f"includes {name}: {reason}")
    code = _without_comments(text, keep_strings=False)
    if not path.startswith("csrc/common/") and GETENV.search(code):
        problems.append("reads the environment: only csrc/common does")
    if path != "csrc/tf/compat.h":
        for condition in CONDITION.findall(code):
            if TENSORFLOW_VERSION.search(condition):
                problems.append(
                    f"asks for the TensorFlow version (#if{condition}): csrc/tf/compat.h does"
                )
    if not _is_test_code(path):
        for match in FATAL.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            problems.append(
                f"line {line}: {match.group().strip()} ends the process: return a Status"
            )
    return problems


def _is_test_code(path):
    return path.startswith("csrc/transport/conformance/")


def _forbidden_include(path, name, quote):
    """Returns why a file of `path` may not include `name`, or None."""
    layer = _layer(path)
    if name.startswith(TENSORFLOW_INCLUDES):
        return None if layer.startswith("tf") else "only csrc/tf includes TensorFlow"
    if name.startswith("pybind11/") or name == "Python.h":
        return None if layer == "bindings" else "only csrc/bindings includes Python"
    if not name.startswith("csrc/"):
        if quote == '"' and not name.startswith(("gtest/", "gmock/", "tests/")):
            return "our includes start at the root of the tree (csrc/...)"
        if name.startswith(("gtest/", "gmock/", "tests/")) and not _is_test_code(path):
            return "test code is not included by what is tested"
        return None
    target = _layer(name)
    if target in _allowed_layers(layer):
        return None
    return f"{layer} may include only {', '.join(sorted(_allowed_layers(layer)))}"


def _layer(path):
    """Returns the layer of a file: its folder below csrc, e.g. "transport/shm" or "tf/ops"."""
    folders = path.split("/")[1:-1]
    if folders and folders[0] in ("transport", "tf"):
        return "/".join(folders[:2])
    return folders[0] if folders else ""


def _allowed_layers(layer):
    """Returns the layers that a file of `layer` may include, its own among them."""
    helpers = {f"transport/{name}" for name in TRANSPORT_HELPERS}
    if layer == "common":
        allowed = set()
    elif layer == "transport" or layer in helpers:
        # The registry finds transports by their registration, it does not know them.
        allowed = {"transport"}
    elif layer.startswith("transport/"):
        allowed = {"transport", *helpers} - {"transport/conformance"}
    elif layer == "comm":
        allowed = {"transport"}
    elif layer in ("tf", "tf/ops", "tf/passes"):
        allowed = {"tf"}
    elif layer == "tf/kernels":
        allowed = {"comm", "tf"}
    elif layer == "bindings":
        allowed = {"comm"}
    else:
        # A new folder has no rights until this table gives it some.
        allowed = set()
    return allowed | {"common", layer}


def _without_comments(text, keep_strings):
    """Blanks comments, and the insides of string literals, keeping every line's number."""
    pattern = re.compile(
        r'//(?:\\\n|[^\n])*|/\*.*?\*/|R"(?P<d>[^(\s]*)\(.*?\)(?P=d)"|"(?:\\.|[^"\\\n])*"'
        # Not after a digit: 1'000 is a number.
        r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])+'",
        re.DOTALL,
    )

    def blank(match):
        token = match.group()
        if token.startswith("/"):
            return "\n" * token.count("\n") if "\n" in token else " "
        return token if keep_strings else '""' + "\n" * token.count("\n")

    return pattern.sub(blank, text)


def python_problems(path, text):
    """Returns what is wrong with a Python file, by its path in the tree and its text."""
    problems = []
    for line, module in _imported_modules(path, ast.parse(text, path)):
        top = module.split(".")[0]
        if (
            top == "npu_bridge"
            and _is_below(path, "npu_device")
            and not _is_below(path, "npu_device/compat/v1")
        ):
            problems.append(
                f"line {line}: imports {module}: npu_device does so under compat/v1 only"
            )
        if top in ("tests", "build_support", "tools"):
            problems.append(f"line {line}: imports {module}, which is not installed")
        outside = top == "npu_device" and not module.startswith("npu_device._core")
        if outside and _is_below(path, "npu_device/_core"):
            problems.append(f"line {line}: imports {module}: _core is below the public packages")
        if module == "npu_device._core._native" and path != "npu_device/_core/library.py":
            problems.append(f"line {line}: imports {module}: library.native() does")
    loads = re.search(r"\bload_op_library\s*\(|\bctypes\.(?:CDLL|cdll|PyDLL)\b.*\.so", text)
    if loads and path != "npu_device/_core/library.py":
        problems.append("loads a native library: only npu_device/_core/library.py does")
    return problems


def _is_below(path, folder):
    return path.startswith(folder + "/")


def _imported_modules(path, tree):
    """Yields (line, name) for every import, relative ones resolved: "from a import b" is a.b."""
    package = path[: -len(".py")].replace("/", ".").split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base += [node.module] if node.module else []
            for alias in node.names:
                yield node.lineno, ".".join([*base, alias.name])
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", ""))
            in ("import_module", "__import__")
            and node.args
            and isinstance(getattr(node.args[0], "value", getattr(node.args[0], "s", None)), str)
        ):
            yield node.lineno, getattr(node.args[0], "value", getattr(node.args[0], "s", ""))


def _files(root, folder, suffixes):
    """Returns the files below `folder` that end so, as paths from `root` with slashes."""
    found = []
    for directory, _, names in os.walk(os.path.join(root, folder)):
        for name in names:
            if name.endswith(suffixes):
                path = os.path.relpath(os.path.join(directory, name), root)
                found.append(path.replace(os.sep, "/"))
    return sorted(found)


def test_the_source_tree_keeps_its_layers():
    problems = layer_problems(ROOT)
    assert not problems, "\n".join(problems)


def test_the_rules_see_the_source_tree():
    cpp = _files(ROOT, "csrc", (".cc", ".h"))
    layers = {_layer(path) for path in cpp}
    assert {"common", "transport", "comm", "tf/ops", "tf/kernels", "bindings"} <= layers
    assert len(_files(ROOT, "npu_device", (".py",))) > 5


def test_every_cpp_folder_has_a_cmake_target():
    for folder in {os.path.dirname(path) for path in _files(ROOT, "csrc", (".cc",))}:
        lists = os.path.join(ROOT, folder, "CMakeLists.txt")
        assert os.path.isfile(lists), f"{folder} has sources and no CMakeLists.txt"
        with open(lists, encoding="utf-8") as file:
            assert re.search(r"npu_bridge_\w*\(|add_library\(", file.read()), lists


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("csrc/transport/shm/a.cc", '#include "csrc/transport/loopback/a.h"'),
        ("csrc/transport/shm/a.cc", '#include "csrc/comm/world.h"'),
        ("csrc/transport/shm/a.cc", '#include "tensorflow/core/framework/op.h"'),
        ("csrc/transport/registry.cc", '#include "csrc/transport/shm/a.h"'),
        ("csrc/transport/reduction/a.cc", '#include "csrc/transport/shm/a.h"'),
        ("csrc/comm/world.cc", '#include "csrc/transport/shm/a.h"'),
        ("csrc/comm/world.cc", '#include "csrc/transport/reduction/a.h"'),
        ("csrc/comm/world.cc", '#include "tensorflow/core/framework/op.h"'),
        ("csrc/comm/control/a.cc", '#  include "csrc/tf/compat.h"'),
        ("csrc/common/status.cc", '#include "csrc/comm/world.h"'),
        ("csrc/tf/kernels/a.cc", '#include "csrc/transport/transport.h"'),
        ("csrc/tf/kernels/a.cc", '#include "csrc/transport/shm/a.h"'),
        ("csrc/tf/ops/a.cc", '#include "csrc/comm/world.h"'),
        ("csrc/tf/passes/a.cc", '#include "csrc/comm/world.h"'),
        ("csrc/tf/passes/a.cc", '#include "csrc/tf/kernels/a.h"'),
        ("csrc/bindings/a.cc", '#include "csrc/transport/transport.h"'),
        ("csrc/comm/world.cc", "#include <pybind11/pybind11.h>"),
        ("csrc/comm/world.cc", '#include "world.h"'),
        ("csrc/comm/world.cc", "#include <gtest/gtest.h>"),
        ("csrc/newfolder/a.cc", '#include "csrc/comm/world.h"'),
        ("csrc/comm/world.cc", 'const char* x = std::getenv("RANK_ID");'),
        ("csrc/tf/kernels/a.cc", "#if TF_MAJOR_VERSION > 1"),
        ("csrc/tf/kernels/a.cc", "#if defined(A) && \\\n    TF_GRAPH_DEF_VERSION > 800"),
        ("csrc/tf/kernels/a.cc", "#ifdef NPU_BRIDGE_TF_HAS_ABSL_STATUS"),
        ("csrc/comm/world.cc", "  assert(rank >= 0);"),
        ("csrc/comm/world.cc", "  std::abort();"),
        ("csrc/comm/world.cc", "  abort();"),
        ("csrc/tf/ops/a.cc", "  CHECK_EQ(a, b);"),
        ("csrc/tf/ops/a.cc", "  TF_CHECK_OK(status);"),
        ("csrc/tf/ops/a.cc", '  LOG(FATAL) << "no";'),
    ],
)
def test_a_broken_cpp_rule_is_seen(path, line):
    assert len(cpp_problems(path, "// why\n" + line + "\n")) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("csrc/transport/shm/a.cc", '#include "csrc/transport/transport.h"'),
        ("csrc/transport/shm/a.cc", '#include "csrc/transport/reduction/a.h"'),
        ("csrc/comm/world.cc", '#include "csrc/transport/registry.h"'),
        ("csrc/comm/world.cc", "// abort() would be wrong here; std::getenv(x) too"),
        ("csrc/comm/world.cc", '  return "rank 1 did not abort() or assert()";'),
        ("csrc/comm/world.cc", "  static_assert(sizeof(int) == 4);"),
        ("csrc/comm/world.cc", "  transport->abort(op);"),
        ("csrc/comm/world.cc", "  constexpr int kMany = 1'000;  // abort() 'here'"),
        ("csrc/tf/kernels/a.cc", '  OP_REQUIRES(context, ok, errors::Aborted("abort("));'),
        ("csrc/common/environment.cc", 'const char* x = std::getenv("RANK_ID");'),
        ("csrc/tf/compat.h", "#if TF_MAJOR_VERSION > 1"),
        ("csrc/tf/kernels/a.cc", '#include "csrc/comm/world.h"'),
        ("csrc/tf/kernels/a.cc", '#include "tensorflow/core/framework/op_kernel.h"'),
    ],
)
def test_an_allowed_cpp_line_is_let_through(path, line):
    assert cpp_problems(path, line + "\n") == []


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("npu_device/distribute/a.py", "import npu_bridge"),
        ("npu_device/distribute/a.py", "from npu_bridge.hccl import hccl_ops"),
        ("npu_device/_core/a.py", "def f():\n    import npu_bridge.npu_init"),
        ("npu_device/_core/a.py", "import importlib\nimportlib.import_module('npu_bridge')"),
        ("npu_device/_core/a.py", "from npu_device.distribute import hccl"),
        ("npu_device/_core/a.py", "from ..distribute import hccl"),
        ("npu_device/_core/a.py", "from npu_device._core import _native"),
        ("npu_bridge/a.py", "import tensorflow as tf\ntf.load_op_library('x.so')"),
        ("hccl/manage/api.py", "from tests import harness"),
    ],
)
def test_a_broken_python_rule_is_seen(path, line):
    assert len(python_problems(path, line + "\n")) == 1


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("npu_device/compat/v1/a.py", "from npu_bridge.hccl import hccl_ops"),
        ("npu_bridge/hccl/hccl_ops.py", "from npu_device._core import collectives"),
        ("npu_device/_core/a.py", "from . import library"),
        ("npu_device/_core/a.py", '"""Says _core._native in a docstring."""'),
    ],
)
def test_an_allowed_python_line_is_let_through(path, line):
    assert python_problems(path, line + "\n") == []

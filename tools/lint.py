"""Runs the linters over the repository: clang-format, ruff, mypy, codespell, clang-tidy.

All of them run, so that one run shows everything; the exit code says whether any complained.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

PYTHON_FOLDERS = [
    "npu_bridge",
    "npu_device",
    "hccl",
    "npurun",
    "build_support",
    "tools",
    "tests",
    "examples",
    "benchmarks",
    "docs",
]


def main() -> int:
    """Runs what was asked for. Returns 1 when a linter complained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tools", required=True, help="folder of the linters' commands")
    parser.add_argument("--python", help="Python whose build clang-tidy reads the flags of")
    parser.add_argument("--fix", action="store_true", help="format, and fix what can be fixed")
    parser.add_argument("--skip-clang-tidy", action="store_true", help="the slow one of them")
    arguments = parser.parse_args()
    cpp_files = _files((".cc", ".h"), ["csrc", "tests/cpp"])
    python_paths = [p for p in ["setup.py", *PYTHON_FOLDERS] if os.path.exists(f"{ROOT}/{p}")]

    def tool(name: str, *command: str) -> bool:
        return _run(name, [os.path.join(arguments.tools, name), *command])

    if arguments.fix:
        steps = [
            tool("clang-format", "-i", *cpp_files),
            tool("ruff", "check", "--fix", *python_paths),
            tool("ruff", "format", *python_paths),
        ]
    else:
        steps = [
            tool("clang-format", "--dry-run", "--Werror", *cpp_files),
            tool("ruff", "check", *python_paths),
            tool("ruff", "format", "--check", *python_paths),
            tool("mypy"),
            tool("codespell", *cpp_files, *python_paths, *_files((".md",), ["."])),
            arguments.skip_clang_tidy or _clang_tidy(arguments.tools, arguments.python),
        ]
    return 0 if all(steps) else 1


def _files(suffixes: tuple, folders: list) -> list:
    """Returns the files below `folders` that end so, without builds and environments."""
    found = []
    for start in folders:
        for folder, names, files in os.walk(os.path.join(ROOT, start)):
            names[:] = [n for n in names if n != "build" and not n.startswith(".")]
            found += [os.path.join(folder, f) for f in files if f.endswith(suffixes)]
    return sorted(os.path.relpath(path, ROOT) for path in found)


def _run(name: str, command: list) -> bool:
    print(f"-- {name}", flush=True)
    return subprocess.run(command, cwd=ROOT).returncode == 0


def _clang_tidy(tools: str, python: str | None) -> bool:
    """Runs clang-tidy over each source that the build of `python` compiled."""
    print("-- clang-tidy", flush=True)
    if python is None:
        print("clang-tidy needs --python, whose build says how each file is compiled")
        return False
    script = (
        "from build_support import native, tensorflow_finder as f;"
        "print(native.build_directory(f.find_tensorflow()))"
    )
    directory = subprocess.run(
        [python, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True
    ).stdout.strip()
    with open(os.path.join(directory, "compile_commands.json"), encoding="utf-8") as file:
        sources = sorted({entry["file"] for entry in json.load(file)})
    command = [os.path.join(tools, "clang-tidy"), "--quiet", "-p", directory]
    # GCC's own options are unknown to clang; that is nothing to report.
    command += ["--extra-arg=-Wno-unknown-warning-option"]

    def check(source: str) -> bool:
        done = subprocess.run(
            [*command, source], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if done.returncode != 0:
            print(done.stdout, done.stderr, flush=True)
        return done.returncode == 0

    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return all(list(pool.map(check, sources)))


if __name__ == "__main__":
    sys.exit(main())

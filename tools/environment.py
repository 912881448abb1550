"""Makes a virtual environment with TensorFlow, tools and npu-bridge in it, or updates one.

What has not changed is not done again: the environment is made anew when its Python or TensorFlow
changes, the tools are installed when their list changes, and npu-bridge when a source file does.
Run by make with the Python that the environment is for (3.7 and later).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

from build_support import native, supported

#: What a wheel is made of. A change in any of these files installs npu-bridge again.
SOURCES = [
    "CMakeLists.txt",
    "LICENSE",
    "README.md",
    "build_support",
    "cmake",
    "csrc",
    "hccl",
    "npu_bridge",
    "npu_device",
    "npurun",
    "pyproject.toml",
    "setup.cfg",
    "setup.py",
]
GENERATED = re.compile(r"(\.so|\.py[cod]|/build_information\.py)$")
COMPILE_STEP = re.compile(r"\s*\[\d+/\d+\] ")
STATE_FILE = ".npu-bridge.json"
ATTEMPTS = 3


class State:
    """What was done in an environment, kept in a file inside it."""

    def __init__(self, environment: str):
        self._path = os.path.join(environment, STATE_FILE)
        self._values: dict = {}
        if os.path.isfile(self._path):
            with open(self._path, encoding="utf-8") as file:
                self._values = json.load(file)

    def get(self, key: str) -> object:
        """Returns what was done under `key`, or None."""
        return self._values.get(key)

    def set(self, key: str, value: object) -> None:
        """Notes that `value` was done, after it was."""
        self._values[key] = value
        with open(self._path, "w", encoding="utf-8") as file:
            json.dump(self._values, file, indent=2)


def main() -> int:
    """Parses the command line and does what is not done yet. Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", help="folder of the virtual environment")
    parser.add_argument(
        "--tensorflow", default="", help='lane, version or pip requirements; "none" for none'
    )
    parser.add_argument(
        "--requirements", action="append", default=[], help="a requirements file; may be repeated"
    )
    parser.add_argument(
        "--tf-keras", action="store_true", help="install the tf-keras of that TensorFlow too"
    )
    parser.add_argument("--project", action="store_true", help="install npu-bridge too")
    arguments = parser.parse_args()
    requirements = [] if arguments.tensorflow == "none" else _tensorflow(arguments.tensorflow)
    try:
        state = _make_environment(arguments.environment, requirements)
        _install_tools(arguments.environment, state, requirements, arguments)
        if arguments.project:
            _install_project(arguments.environment, state)
    except subprocess.CalledProcessError as error:
        print(f"{' '.join(error.cmd)} failed, exit code {error.returncode}", file=sys.stderr)
        return 1
    return 0


def _tensorflow(option: str) -> list:
    try:
        return supported.tensorflow_from_option(option, sys.version_info)
    except ValueError as error:
        sys.exit(f"{error}: use another Python (PYTHON=...) or say which TensorFlow (TF=...).")


def _make_environment(environment: str, requirements: list) -> State:
    """Makes the environment, anew where its Python or TensorFlow is another."""
    wanted = [os.path.realpath(sys.executable), list(sys.version_info[:3]), requirements]
    state = State(environment)
    if state.get("environment") == wanted:
        return state
    if os.path.isdir(environment):
        if not os.path.isfile(os.path.join(environment, STATE_FILE)):
            sys.exit(f"{environment} was not made by make: remove it, or say VENV=<other folder>.")
        shutil.rmtree(environment)
    print(f"Making {environment} with {sys.executable}", flush=True)
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    State(environment).set("begun", True)
    _pip(environment, ["--upgrade", "pip"])
    state = State(environment)
    state.set("environment", wanted)
    return state


def _install_tools(
    environment: str, state: State, requirements: list, arguments: argparse.Namespace
) -> None:
    """Installs TensorFlow, the build tools that pyproject.toml names, and requirement files."""
    wanted = list(requirements)
    if arguments.project:
        wanted += _build_requirements()
    for path in arguments.requirements:
        with open(path, encoding="utf-8") as file:
            lines = (line.split("#")[0].strip() for line in file)
            wanted += [line for line in lines if line]
    alone = supported.tf_keras_for(requirements) if arguments.tf_keras else []
    if state.get("tools") == wanted + alone:
        return
    print(f"Installing into {environment}: {', '.join(wanted + alone)}", flush=True)
    _pip(environment, wanted)
    if alone:
        _pip(environment, ["--no-deps", *alone])
    state.set("tools", wanted + alone)


def _build_requirements() -> list:
    """Returns build-system.requires of pyproject.toml; Python 3.7 has no TOML reader."""
    with open(os.path.join(ROOT, "pyproject.toml"), encoding="utf-8") as file:
        match = re.search(r"(?ms)^requires = \[$(.*?)^\]$", file.read())
    assert match is not None, "pyproject.toml has no requires list"
    return re.findall(r'(?m)^\s*"([^"]+)",?$', match.group(1))


def _install_project(environment: str, state: State) -> None:
    digest = source_digest()
    if state.get("project") == digest:
        return
    print(f"Building npu-bridge into {environment}", flush=True)
    variables = dict(os.environ)
    variables[native.WERROR_VARIABLE] = "1"
    command = [*_pip_command(environment), "--no-build-isolation", "--no-deps"]
    command += ["--force-reinstall", "--verbose", ROOT]
    _run_showing_progress(command, variables)
    state.set("project", digest)


def _run_showing_progress(command: list, variables: dict) -> None:
    """Runs a build, shows its compile steps as they come, and all of its output if it fails."""
    lines = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        universal_newlines=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if COMPILE_STEP.match(line):
                print(line.rstrip(), flush=True)
    if process.returncode != 0:
        print("".join(lines), flush=True)
        raise subprocess.CalledProcessError(process.returncode, command)


def source_digest(root: str = ROOT) -> str:
    """Returns a digest of names and contents of all files that a wheel is made of."""
    digest = hashlib.sha256()
    for source in SOURCES:
        for path in _files(os.path.join(root, source)):
            name = os.path.relpath(path, root)
            if GENERATED.search("/" + name):
                continue
            with open(path, "rb") as file:
                content = hashlib.sha256(file.read()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()


def _files(path: str) -> list:
    if os.path.isfile(path):
        return [path]
    found = []
    for folder, _, names in os.walk(path):
        found += [os.path.join(folder, name) for name in names]
    return sorted(found)


def _pip_command(environment: str) -> list:
    python = os.path.join(environment, "bin", "python")
    return [python, "-m", "pip", "--disable-pip-version-check", "install"]


def _pip(environment: str, arguments: list) -> None:
    """Runs pip install, again where it failed: most failures here are the network's."""
    command = [*_pip_command(environment), "--quiet", "--retries", "5", "--timeout", "60"]
    for attempt in range(1, ATTEMPTS + 1):
        if subprocess.run(command + arguments).returncode == 0:
            return
        print(f"pip failed, attempt {attempt} of {ATTEMPTS}", file=sys.stderr, flush=True)
        if attempt < ATTEMPTS:
            time.sleep(10 * attempt)
    raise subprocess.CalledProcessError(1, command + arguments)


if __name__ == "__main__":
    sys.exit(main())

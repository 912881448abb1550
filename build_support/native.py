"""Runs CMake: configure, build, install into a package folder.

A build folder is kept for each Python and TensorFlow, so that a second build compiles only what
changed, also under pip's isolation, where the tools lie in another temporary folder every time.
"""

import filecmp
import importlib
import os
import re
import shutil
import subprocess
import sys
import sysconfig

from build_support import checks

SOURCE_DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Make and CI set it; an installation must not fail on a warning that a newer compiler invented.
WERROR_VARIABLE = "NPU_BRIDGE_BUILD_WERROR"


def build_directory(tensorflow, source_directory=SOURCE_DIRECTORY):
    """Returns the build folder of this Python and `tensorflow`."""
    tag = "%s-tf%s" % (sysconfig.get_config_var("SOABI"), tensorflow.version)
    return os.path.join(source_directory, "build", tag)


def build(tensorflow, directory=None, install_to=None, options=()):
    """Builds the native libraries for this Python and `tensorflow`.

    Args:
        tensorflow: tensorflow_finder.TensorFlow.
        directory: the build folder; default `build_directory(tensorflow)`.
        install_to: folder that gets the libraries and build_information.py, or None.
        options: further arguments to CMake's configure step, e.g. "-DNPU_BRIDGE_BUILD_TESTS=ON".

    Returns:
        The build folder.

    Raises:
        checks.BuildError: a tool or header is missing, or the compiler failed.
    """
    checks.check_python_headers()
    checks.check_compiler()
    directory = os.path.abspath(directory or build_directory(tensorflow))
    cmake = _tool("cmake")
    ninja = _tool("ninja", required=False)
    generator = "Ninja" if ninja else "Unix Makefiles"
    _drop_foreign_cache(directory, generator)
    os.makedirs(directory, exist_ok=True)
    arguments = [cmake, "-S", SOURCE_DIRECTORY, "-B", directory, "-G", generator]
    if ninja:
        arguments.append("-DCMAKE_MAKE_PROGRAM=" + ninja)
    arguments += _definitions(tensorflow, directory)
    arguments += options
    _run(arguments, "configure")
    _run([cmake, "--build", directory, *_parallel()], "compile")
    if install_to is not None:
        _run(
            [cmake, "--install", directory, "--component", "python", "--prefix", install_to],
            "install",
        )
    return directory


def _definitions(tensorflow, directory):
    werror = os.environ.get(WERROR_VARIABLE, "") == "1"
    values = {
        "CMAKE_BUILD_TYPE": "Release",
        "NPU_BRIDGE_WERROR": "ON" if werror else "OFF",
        "NPU_BRIDGE_WITH_TENSORFLOW": "ON",
        "NPU_BRIDGE_TF_VERSION": tensorflow.version,
        "NPU_BRIDGE_TF_INCLUDE_DIR": tensorflow.include_directory,
        "NPU_BRIDGE_TF_FRAMEWORK_LIBRARY": tensorflow.framework_library,
        "NPU_BRIDGE_TF_CC_LIBRARY": tensorflow.cc_library,
        "NPU_BRIDGE_TF_DEFINITIONS": ";".join(tensorflow.definitions),
        "NPU_BRIDGE_TF_CXX_STANDARD": str(tensorflow.cxx_standard),
        "NPU_BRIDGE_CXX11_ABI": str(tensorflow.cxx11_abi),
        "NPU_BRIDGE_WITH_PYTHON": "ON",
        "NPU_BRIDGE_PYTHON_INCLUDE_DIR": sysconfig.get_path("include"),
        "NPU_BRIDGE_PYTHON_SUFFIX": sysconfig.get_config_var("EXT_SUFFIX"),
        "NPU_BRIDGE_PYBIND11_INCLUDE_DIR": _pybind11_headers(directory),
    }
    return ["-D%s=%s" % item for item in sorted(values.items())]


def _tool(name, required=True):
    """Returns the path of cmake or ninja: of the pip package of that name, else from PATH.

    The package is asked first: `.venv/bin/pip install --no-build-isolation .` runs with a PATH
    that knows nothing of .venv/bin.
    """
    try:
        package = importlib.import_module(name)
    except ImportError:
        package = None
    # cmake has CMAKE_BIN_DIR, ninja has BIN_DIR.
    for attribute in ("CMAKE_BIN_DIR", "BIN_DIR"):
        path = os.path.join(getattr(package, attribute, ""), name)
        if os.path.isabs(path) and os.path.isfile(path):
            return path
    path = shutil.which(name)
    if path is None and required:
        raise checks.BuildError(
            "%s is missing: run `%s -m pip install %s`, or install without --no-build-isolation, "
            "which brings it." % (name, sys.executable, name)
        )
    return path


def _pybind11_headers(directory):
    """Copies pybind11's headers into the build folder and returns where they are.

    pip's isolation puts them in another folder every time; a changed include path would recompile
    the bindings in each build.
    """
    try:
        import pybind11
    except ImportError:
        raise checks.BuildError(
            "pybind11 is missing: run `%s -m pip install 'pybind11==2.13.*'`, or install without "
            "--no-build-isolation, which brings it." % sys.executable
        )
    source = pybind11.get_include()
    target = os.path.join(directory, "pybind11-include")
    for folder, _, names in os.walk(source):
        copy_folder = os.path.join(target, os.path.relpath(folder, source))
        os.makedirs(copy_folder, exist_ok=True)
        for name in names:
            original, copy = os.path.join(folder, name), os.path.join(copy_folder, name)
            if not os.path.isfile(copy) or not filecmp.cmp(original, copy, shallow=False):
                shutil.copyfile(original, copy)
    return target


def _drop_foreign_cache(directory, generator):
    """Removes a CMake cache that this configure step would refuse.

    That is one of another generator, or one that came here by copying a source tree.
    """
    cache = os.path.join(directory, "CMakeCache.txt")
    if not os.path.isfile(cache):
        return
    with open(cache, encoding="utf-8") as file:
        text = file.read()
    expected = {"CMAKE_GENERATOR": generator, "CMAKE_HOME_DIRECTORY": SOURCE_DIRECTORY}
    for key, value in expected.items():
        match = re.search(r"(?m)^%s:INTERNAL=(.*)$" % key, text)
        if match and match.group(1) != value:
            shutil.rmtree(directory)
            return


def _parallel():
    if os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL"):
        return []
    return ["--parallel", str(len(os.sched_getaffinity(0)))]


def _run(arguments, step):
    """Runs a command whose output the person sees, and turns its failure into a sentence."""
    sys.stdout.flush()
    code = subprocess.call(arguments)
    if code != 0:
        raise checks.BuildError(
            "CMake could not %s npu-bridge (exit code %d): the lines above say why." % (step, code)
        )

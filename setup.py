"""Finds TensorFlow and calls CMake. What else there is to say stands in setup.cfg."""

import os
import re
import shutil
import sys

if sys.version_info < (3, 7) or sys.version_info[:2] == (3, 8):
    # Before the imports below: old Pythons must get this sentence, not a SyntaxError.
    sys.exit(
        "npu-bridge: Python %d.%d has no supported TensorFlow: use Python 3.7 or 3.9 to 3.13, for "
        "example `python3.11 -m venv .venv`, and install TensorFlow there." % sys.version_info[:2]
    )

# A build backend runs this file without its folder on sys.path.
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

from build_support import checks, native, tensorflow_finder

NATIVE_MODULE = "npu_device._core._native"


class BuildNative(build_ext):
    """Builds with CMake what setuptools takes for one extension module."""

    def run(self):
        """Builds, and installs into the wheel's folder, or the source tree when editable."""
        folder = os.path.dirname(os.path.abspath(self.get_ext_fullpath(NATIVE_MODULE)))
        try:
            native.build(TENSORFLOW, install_to=folder)
        except checks.BuildError as error:
            sys.exit("npu-bridge: %s" % error)


class BuildPython(build_py):
    """Copies the packages into an empty folder: build/lib may hold modules removed since."""

    def run(self):
        """Removes what an earlier build left, then copies."""
        if not getattr(self, "editable_mode", False):
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


def find_tensorflow():
    """Returns the target environment's TensorFlow, or None where only the sources are packed."""
    try:
        return tensorflow_finder.find_tensorflow()
    except checks.BuildError as error:
        # egg_info: what a build tool runs to ask for build requirements, for a source archive too.
        if {"sdist", "egg_info", "clean", "--version", "--help"} & set(sys.argv):
            return None
        sys.exit("npu-bridge: %s" % error)


def own_version():
    """Returns the version that the package states, without importing it."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "npu_device/_core/version.py")
    with open(path, encoding="utf-8") as file:
        return re.search(r'(?m)^VERSION = "(.+)"$', file.read()).group(1)


TENSORFLOW = find_tensorflow()

setup(
    # The libraries fit one TensorFlow, so the wheel says which: 0.1.0+tf2.15.1.
    version=own_version() + ("+tf" + TENSORFLOW.version.replace("-", "") if TENSORFLOW else ""),
    ext_modules=[Extension(NATIVE_MODULE, sources=[])],
    cmdclass={"build_ext": BuildNative, "build_py": BuildPython},
)

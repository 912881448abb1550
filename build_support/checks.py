"""The sentences a person gets when a build cannot begin: what is missing, and what to do."""

import os
import shutil
import sys
import sysconfig
import tempfile

from build_support import supported


class BuildError(Exception):
    """A build that cannot begin or end. The text is one sentence for the person who started it."""


def _this_python():
    return "%d.%d" % sys.version_info[:2]


def no_tensorflow(directories):
    """Returns the error for an environment without TensorFlow.

    Args:
        directories: where it was looked for.
    """
    if environment_is_temporary(sys.prefix):
        return BuildError(
            "This build runs in a temporary environment (%s) that hides the TensorFlow it is for: "
            "`pip install .` sees it; with uv or `python -m build`, first install the build tools "
            'beside TensorFlow (setuptools wheel cmake ninja "pybind11==2.13.*"), then add '
            "--no-build-isolation (`uv pip install --no-build-isolation .`, "
            "`python -m build --wheel --no-isolation`)." % sys.prefix
        )
    requirements = supported.tensorflow_for_python(sys.version_info)
    command = "%s -m pip install %s" % (
        sys.executable,
        " ".join("'%s'" % r if "<" in r else r for r in requirements),
    )
    return BuildError(
        "No TensorFlow found in %s: install one there first, for example with `%s`."
        % (directories[0] if directories else sys.prefix, command)
    )


def environment_is_temporary(prefix):
    """True where `prefix` is an environment that a build tool made for this one build."""
    parts = os.path.normpath(prefix).split(os.sep)
    if any(part.startswith(("build-env-", "builds-v")) for part in parts):
        return True
    temporary = os.path.realpath(tempfile.gettempdir())
    inside = os.path.realpath(prefix).startswith(temporary + os.sep)
    # A person may keep an environment under /tmp; a build tool's has no pip that they would use.
    return inside and not os.path.exists(os.path.join(prefix, "bin", "pip"))


def check_tensorflow_version(version, release):
    """Refuses a TensorFlow older than the sources compile against.

    Args:
        version: as shown to a person.
        release: (major, minor).
    """
    if release < supported.OLDEST_TENSORFLOW:
        raise BuildError(
            "TensorFlow %s is too old, %d.%d is the oldest supported: install one of %s."
            % (
                version,
                *supported.OLDEST_TENSORFLOW,
                ", ".join(requirements[0] for _, requirements in supported.LANES.values()),
            )
        )


def check_python_headers():
    """Refuses a Python without the headers that the bindings include."""
    directories = [sysconfig.get_path("include"), sysconfig.get_path("platinclude")]
    if not any(d and os.path.isfile(os.path.join(d, "Python.h")) for d in directories):
        raise BuildError(
            "Python.h of Python %s is not in %s: install the package python%s-dev (Debian, Ubuntu) "
            "or python%s-devel (Fedora, openEuler)."
            % (_this_python(), directories[0], _this_python(), _this_python())
        )


def check_compiler():
    """Refuses a machine without a C++ compiler, before CMake does so in thirty lines."""
    named = os.environ.get("CXX")
    candidates = [named.split()[0]] if named else ["c++", "g++", "clang++"]
    if not any(shutil.which(candidate) for candidate in candidates):
        raise BuildError(
            "No C++ compiler (%s) found: install the package g++ (Debian, Ubuntu) or gcc-c++ "
            "(Fedora, openEuler)." % ", ".join(candidates)
        )

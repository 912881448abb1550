"""Finds TensorFlow in the environment a build is for, without importing it.

pip builds in an isolated environment where `import tensorflow` fails, but with the interpreter of
the target environment, so that sysconfig still says where the target's packages lie. Everything
the compiler needs to know is read from the files there.
"""

import collections
import glob
import mmap
import os
import re
import site
import sys
import sysconfig

from build_support import checks

#: What a build needs to know about a TensorFlow.
#:   version: as tf.__version__, e.g. "2.15.1".
#:   include_directory, framework_library: absolute paths.
#:   cc_library: path of libtensorflow_cc, which newer wheels have beside the framework, or "".
#:   cxx11_abi: 0 or 1, the _GLIBCXX_USE_CXX11_ABI it was compiled with.
#:   cxx_standard: 14 or 17, for files that include its headers.
#:   definitions: further preprocessor definitions, those of tf.sysconfig.get_compile_flags().
TensorFlow = collections.namedtuple(
    "TensorFlow",
    "version include_directory framework_library cc_library cxx11_abi cxx_standard definitions",
)

# A constructor that takes a std::string by value and that REGISTER_OP needs: its mangled name tells
# the string ABI, and no TensorFlow that could load our ops is without it.
_ABI_PROBE = b"_ZN10tensorflow12OpDefBuilderC1E"
_ABI_SUFFIXES = ((b"NSt7__cxx1112basic_string", 1), (b"Ss", 0))


def site_directories():
    """Returns the directories where the target environment's packages can lie, best first."""
    paths = [sysconfig.get_path("platlib"), sysconfig.get_path("purelib")]
    # Debian's Python looks in several; a virtual environment may let the base's packages through.
    paths += site.getsitepackages() if hasattr(site, "getsitepackages") else []
    paths += [p for p in sys.path if p]
    if sys.prefix == sys.base_prefix:
        paths.append(site.getusersitepackages())
    elif _system_packages_are_visible():
        base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
        paths += [sysconfig.get_path(name, vars=base) for name in ("platlib", "purelib")]
    unique = []
    for path in paths:
        if path and os.path.isdir(path) and os.path.realpath(path) not in unique:
            unique.append(os.path.realpath(path))
    return unique


def _system_packages_are_visible():
    config = os.path.join(sys.prefix, "pyvenv.cfg")
    if not os.path.isfile(config):
        return False
    with open(config, encoding="utf-8") as file:
        text = file.read()
    return re.search(r"(?mi)^include-system-site-packages\s*=\s*true\s*$", text) is not None


def find_tensorflow(directories=None):
    """Returns the `TensorFlow` of the target environment.

    Args:
        directories: where to look, best first; default `site_directories()`.

    Raises:
        checks.BuildError: none there, or one that the sources cannot be built for.
    """
    directories = site_directories() if directories is None else list(directories)
    for directory in directories:
        # 1.15 keeps its files in tensorflow_core, with a thin tensorflow package beside it.
        for package in ("tensorflow_core", "tensorflow"):
            root = os.path.join(directory, package)
            libraries = sorted(glob.glob(os.path.join(root, "libtensorflow_framework.so*")))
            if libraries:
                return _describe(root, libraries[-1])
    raise checks.no_tensorflow(directories)


def _describe(root, framework_library):
    include_directory = os.path.join(root, "include")
    if not os.path.isdir(os.path.join(include_directory, "tensorflow", "core", "public")):
        raise checks.BuildError(
            "The TensorFlow in %s has no C++ headers: install the published wheel of it." % root
        )
    definitions = []
    version = _header_version(include_directory)
    if version is None:
        # Since 2.20 the headers want these from the command line.
        version = _distribution_version(root, framework_library)
        release, _, suffix = version.partition("-")
        numbers = release.split(".")
        definitions = [
            "TF_MAJOR_VERSION=" + numbers[0],
            "TF_MINOR_VERSION=" + numbers[1],
            "TF_PATCH_VERSION=" + numbers[2],
            'TF_VERSION_SUFFIX="%s"' % ("-" + suffix if suffix else ""),
        ]
    release = tuple(int(part) for part in version.split("-")[0].split(".")[:2])
    checks.check_tensorflow_version(version, release)
    if release >= (2, 6):
        definitions.append("EIGEN_MAX_ALIGN_BYTES=64")
    cc_libraries = sorted(glob.glob(os.path.join(root, "libtensorflow_cc.so*")))
    return TensorFlow(
        version=version,
        include_directory=include_directory,
        framework_library=framework_library,
        cc_library=cc_libraries[-1] if cc_libraries else "",
        cxx11_abi=_cxx11_abi(framework_library),
        # The headers of 2.10 and later use C++17; a 2.6 plugin built as C++17 does not load, since
        # absl::string_view is then another type than in the library.
        cxx_standard=17 if release >= (2, 10) else 14,
        definitions=definitions,
    )


def _header_version(include_directory):
    """Returns the version that version.h states, which is tf.__version__, or None."""
    path = os.path.join(include_directory, "tensorflow", "core", "public", "version.h")
    with open(path, encoding="utf-8") as file:
        values = dict(
            re.findall(
                r"(?m)^#define\s+TF_(MAJOR_VERSION|MINOR_VERSION|PATCH_VERSION|VERSION_SUFFIX)"
                r"[ \t]+\"?([^\s\"]*)\"?[ \t]*$",
                file.read(),
            )
        )
    try:
        numbers = tuple(int(values[part + "_VERSION"]) for part in ("MAJOR", "MINOR", "PATCH"))
    except (KeyError, ValueError):
        return None
    return "%d.%d.%d" % numbers + values.get("VERSION_SUFFIX", "")


def _distribution_version(root, framework_library):
    """Returns the version of the distribution that installed `framework_library`.

    It is written as tf.__version__ writes it, which is what the loader compares with: "2.20.0-rc1"
    where the distribution says "2.20.0rc1", and without the ".post1" of a wheel published again.
    """
    directory, package = os.path.split(root)
    recorded = package + "/" + os.path.basename(framework_library)
    for metadata in sorted(glob.glob(os.path.join(directory, "*tensorflow*.dist-info"))):
        record = os.path.join(metadata, "RECORD")
        if not os.path.isfile(record):
            continue
        with open(record, encoding="utf-8") as file:
            if not any(line.startswith(recorded + ",") for line in file):
                continue
        with open(os.path.join(metadata, "METADATA"), encoding="utf-8") as file:
            match = re.search(r"(?m)^Version:\s*(\d+\.\d+\.\d+)((?:a|b|rc)\d+)?", file.read())
        if match:
            return match.group(1) + ("-" + match.group(2) if match.group(2) else "")
    raise checks.BuildError(
        "The version of the TensorFlow in %s cannot be told, because no dist-info folder beside it "
        "lists %s: install TensorFlow with pip." % (root, recorded)
    )


def _cxx11_abi(library):
    with open(library, "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            for suffix, abi in _ABI_SUFFIXES:
                if content.find(_ABI_PROBE + suffix) >= 0:
                    return abi
    raise checks.BuildError(
        "The string ABI of %s cannot be told: it does not export tensorflow::OpDefBuilder, which "
        "a published TensorFlow wheel does." % library
    )

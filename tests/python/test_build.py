"""Building and installing: TensorFlow found without importing it, and a sentence when it is not."""

from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
import sysconfig
import types
import venv
import zipfile

import pytest

from build_support import checks, native, supported, tensorflow_finder
from npu_device._core import library
from npu_device._core.version import VERSION

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NEW_ABI = (
    b"\0_ZN10tensorflow12OpDefBuilderC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE\0"
)
OLD_ABI = b"\0_ZN10tensorflow12OpDefBuilderC1ESs\0"


def fake_tensorflow(directory, version, abi_symbol, package="tensorflow", in_header=True):
    """Writes the files of a TensorFlow that the finder reads, into a site-packages `directory`."""
    root = directory / package
    public = root / "include" / "tensorflow" / "core" / "public"
    public.mkdir(parents=True)
    release, _, suffix = version.partition("-")
    lines = ["#ifndef GUARD", "#define GUARD"]
    if in_header:
        for name, number in zip(("MAJOR", "MINOR", "PATCH"), release.split(".")):
            lines.append(f"#define TF_{name}_VERSION {number}")
        lines.append('#define TF_VERSION_SUFFIX "%s"' % ("-" + suffix if suffix else ""))
    (public / "version.h").write_text("\n".join(lines) + "\n#endif\n")
    library_name = f"libtensorflow_framework.so.{release[0]}"
    (root / library_name).write_bytes(b"\x7fELF" + b"x" * 5000 + abi_symbol + b"y" * 5000)
    metadata = directory / "tensorflow_cpu-9.dist-info"
    metadata.mkdir()
    (metadata / "RECORD").write_text(f"{package}/{library_name},sha256=1,2\n")
    # A re-published release, and a pre-release, are written differently by pip.
    written = release + (suffix or ".post1")
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nVersion: {written}\n")
    return root


@pytest.mark.parametrize(
    ("version", "package", "symbol", "in_header", "abi", "standard"),
    [
        ("1.15.5", "tensorflow_core", OLD_ABI, True, 0, 14),
        ("2.6.5", "tensorflow", OLD_ABI, True, 0, 14),
        ("2.9.3", "tensorflow", OLD_ABI, True, 0, 14),
        ("2.10.0", "tensorflow", OLD_ABI, True, 0, 17),
        ("2.15.1", "tensorflow", NEW_ABI, True, 1, 17),
        ("2.19.0-rc0", "tensorflow", NEW_ABI, True, 1, 17),
        ("2.21.0", "tensorflow", NEW_ABI, False, 1, 17),
        ("2.21.0-rc1", "tensorflow", NEW_ABI, False, 1, 17),
    ],
)
def test_tensorflow_is_described_from_its_files(
    tmp_path, version, package, symbol, in_header, abi, standard
):
    root = fake_tensorflow(tmp_path, version, symbol, package, in_header)
    if package == "tensorflow_core":
        (tmp_path / "tensorflow").mkdir()
    empty = tmp_path / "another"
    empty.mkdir()
    found = tensorflow_finder.find_tensorflow([str(empty), str(tmp_path)])
    assert found.version == version
    assert (found.cxx11_abi, found.cxx_standard) == (abi, standard)
    assert found.include_directory == str(root / "include")
    assert found.framework_library == str(root / ("libtensorflow_framework.so." + version[0]))
    macros = [d for d in found.definitions if d.startswith("TF_MAJOR_VERSION=")]
    assert macros == ([] if in_header else ["TF_MAJOR_VERSION=" + version[0]])


@pytest.mark.core
def test_the_tensorflow_that_runs_is_the_one_found():
    tf = pytest.importorskip("tensorflow")
    found = tensorflow_finder.find_tensorflow()
    assert found.version == tf.__version__
    assert found.cxx11_abi == tf.sysconfig.CXX11_ABI_FLAG
    assert os.path.realpath(found.include_directory) == os.path.realpath(tf.sysconfig.get_include())
    for flag in tf.sysconfig.get_compile_flags():
        if flag.startswith("-D") and "CXX11_ABI" not in flag:
            assert flag[2:] in found.definitions
        if flag.startswith("--std="):
            assert flag == f"--std=c++{found.cxx_standard}"


def test_the_first_directory_with_a_tensorflow_wins(tmp_path):
    for name, version in (("a", "2.15.1"), ("b", "2.21.0")):
        (tmp_path / name).mkdir()
        fake_tensorflow(tmp_path / name, version, NEW_ABI)
    both = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert tensorflow_finder.find_tensorflow(both).version == "2.15.1"
    assert tensorflow_finder.find_tensorflow(both[::-1]).version == "2.21.0"


def test_a_tensorflow_that_is_too_old_is_named(tmp_path):
    fake_tensorflow(tmp_path, "1.14.0", OLD_ABI)
    with pytest.raises(checks.BuildError, match=r"TensorFlow 1\.14\.0 is too old, 1\.15 is the"):
        tensorflow_finder.find_tensorflow([str(tmp_path)])


def test_a_tensorflow_without_headers_is_named(tmp_path):
    root = fake_tensorflow(tmp_path, "2.15.1", NEW_ABI)
    (root / "include").rename(root / "elsewhere")
    with pytest.raises(
        checks.BuildError, match=r"has no C\+\+ headers: install the published wheel"
    ):
        tensorflow_finder.find_tensorflow([str(tmp_path)])


def test_a_library_of_unknown_abi_is_named(tmp_path):
    fake_tensorflow(tmp_path, "2.15.1", b"nothing")
    with pytest.raises(checks.BuildError, match=r"string ABI of .*libtensorflow_framework"):
        tensorflow_finder.find_tensorflow([str(tmp_path)])


def test_a_tensorflow_of_unknown_version_is_named(tmp_path):
    fake_tensorflow(tmp_path, "2.21.0", NEW_ABI, in_header=False)
    (tmp_path / "tensorflow_cpu-9.dist-info" / "RECORD").write_text("other/file,,\n")
    with pytest.raises(checks.BuildError, match="install TensorFlow with pip"):
        tensorflow_finder.find_tensorflow([str(tmp_path)])


@pytest.mark.parametrize(
    ("python", "expected"),
    [
        ((3, 7, 16), "tensorflow==1.15.5"),
        ((3, 9, 0), "==2.15.1"),
        ((3, 11, 7), "==2.15.1"),
        ((3, 12, 1), "==2.21.0"),
        ((3, 13, 0), "==2.21.0"),
    ],
)
def test_each_python_has_its_tensorflow(python, expected):
    requirement = supported.tensorflow_for_python(python)[0]
    assert requirement.startswith("tensorflow") and requirement.endswith(expected)


@pytest.mark.parametrize("python", [(3, 8, 18), (3, 6, 15), (2, 7, 18)])
def test_a_python_without_tensorflow_has_none(python):
    with pytest.raises(ValueError, match="no supported TensorFlow"):
        supported.tensorflow_for_python(python)


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("tf2.6", ["==2.6.5", "protobuf<3.21"]),
        ("2.6.5", ["==2.6.5", "protobuf<3.21"]),
        ("2.16.2", ["==2.16.2"]),
        ("1.15.4", ["==1.15.4", "protobuf<3.21", "numpy<1.19"]),
        ("tensorflow==2.17.0 numpy<2", ["==2.17.0", "numpy<2"]),
    ],
)
def test_the_tensorflow_option(option, expected):
    version = (3, 9, 7) if "2.6" in option else (3, 11, 7)
    found = supported.tensorflow_from_option(option, version)
    assert found[0].startswith("tensorflow")
    assert ["==" + found[0].split("==")[1], *found[1:]] == expected


@pytest.mark.parametrize(
    ("option", "version", "text"),
    [
        ("tf3", (3, 11), "TF=tf3 is no TensorFlow: expected one of tf1.15, tf2.15"),
        ("requests", (3, 11), "TF=requests is no TensorFlow"),
        ("tf2.6", (3, 13), "TensorFlow 2.6 does not run on Python 3.13, but on 3.7 to 3.9"),
        ("1.15.5", (3, 11), "TensorFlow 1.15 does not run on Python 3.11, but on 3.7 to 3.7"),
    ],
)
def test_a_wrong_tensorflow_option_is_told(option, version, text):
    with pytest.raises(ValueError, match=re.escape(text)):
        supported.tensorflow_from_option(option, version)


@pytest.mark.parametrize(
    ("tensorflow", "expected"),
    [
        (["tensorflow-cpu==2.15.1"], ["tf_keras==2.15.*"]),
        (["tensorflow==2.21.0"], ["tf_keras==2.21.*"]),
        (["tensorflow-cpu==2.6.5", "protobuf<3.21"], []),
        (["tensorflow==1.15.5"], []),
        (["tensorflow"], []),
        ([], []),
    ],
)
def test_tf_keras_is_that_of_the_tensorflow(tensorflow, expected):
    assert supported.tf_keras_for(tensorflow) == expected


@pytest.mark.parametrize("version", ["3.8", "2.7", "3.6.15"])
def test_an_unsupported_python_is_told(version):
    done = subprocess.run(
        [os.path.join(ROOT, "tools", "find-python"), version],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr.decode() == (
        f"Python {version} has no supported TensorFlow: use Python 3.7 or 3.9 to 3.13.\n"
    )


@pytest.mark.parametrize("version", [(3, 8, 18), (3, 6, 15), (2, 7, 18)])
def test_setup_refuses_a_python_without_tensorflow_in_one_sentence(version):
    script = (
        f"import sys; sys.version_info = {(*version, 'final', 0)}; __file__ = 'setup.py';"
        "exec(compile(open('setup.py').read(), 'setup.py', 'exec'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, stderr=subprocess.PIPE, timeout=60
    )
    text = done.stderr.decode()
    assert done.returncode == 1
    assert text.startswith("npu-bridge: Python %d.%d has no supported TensorFlow" % version[:2])
    assert "use Python 3.7 or 3.9 to 3.13" in text
    assert len(text.splitlines()) == 1


def run_setup_without_tensorflow(environment, with_pip):
    """Runs setup.py as a build tool does, in a new environment that holds setuptools only."""
    venv.create(str(environment), with_pip=False)
    if with_pip:
        (environment / "bin" / "pip").write_text("")
    packages = environment / "tools"
    packages.mkdir()
    import setuptools

    source = os.path.dirname(os.path.dirname(setuptools.__file__))
    for name in ("setuptools", "pkg_resources", "_distutils_hack", "wheel"):
        if os.path.isdir(os.path.join(source, name)):
            (packages / name).symlink_to(os.path.join(source, name))
    return subprocess.run(
        [str(environment / "bin" / "python"), "setup.py", "--quiet", "bdist_wheel"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(packages)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=120,
    )


def test_setup_without_tensorflow_says_what_to_install(tmp_path):
    done = run_setup_without_tensorflow(tmp_path / "environment", with_pip=True)
    text = done.stderr.decode().strip().splitlines()[-1]
    assert done.returncode == 1
    assert text.startswith("npu-bridge: No TensorFlow found in " + str(tmp_path))
    assert supported.tensorflow_for_python(sys.version_info)[0] in text
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize("name", ["build-env-x7", "builds-v0/.tmpQ5vHcD", "anything"])
def test_setup_in_a_build_tools_environment_names_no_build_isolation(tmp_path, name):
    done = run_setup_without_tensorflow(tmp_path / name, with_pip=name != "anything")
    text = done.stderr.decode().strip().splitlines()[-1]
    assert done.returncode == 1
    assert "temporary environment" in text and "--no-build-isolation" in text
    assert "Traceback" not in done.stderr.decode()


def test_missing_python_headers_name_the_package(tmp_path, monkeypatch):
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(checks.BuildError) as error:
        checks.check_python_headers()
    version = "%d.%d" % sys.version_info[:2]
    assert f"Python.h of Python {version} is not in {tmp_path}" in str(error.value)
    assert f"python{version}-dev" in str(error.value)


def test_a_missing_compiler_names_the_package(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(checks.BuildError, match=r"No C\+\+ compiler .* install the package g\+\+"):
        checks.check_compiler()


@pytest.mark.parametrize(
    "changed", [("CMAKE_GENERATOR", "Unix Makefiles"), ("CMAKE_HOME_DIRECTORY", "/another/tree")]
)
def test_a_build_folder_of_another_tree_or_generator_is_emptied(tmp_path, changed):
    values = {"CMAKE_GENERATOR": "Ninja", "CMAKE_HOME_DIRECTORY": native.SOURCE_DIRECTORY}

    def write(cache):
        (tmp_path / "build").mkdir(exist_ok=True)
        lines = [f"{key}:INTERNAL={value}\n" for key, value in cache.items()]
        (tmp_path / "build" / "CMakeCache.txt").write_text("".join(lines))

    write(values)
    native._drop_foreign_cache(str(tmp_path / "build"), "Ninja")
    assert (tmp_path / "build" / "CMakeCache.txt").exists()
    write({**values, changed[0]: changed[1]})
    native._drop_foreign_cache(str(tmp_path / "build"), "Ninja")
    assert not (tmp_path / "build").exists()


def pip_wheel(directory):
    """Builds a wheel as `pip install .` does, with pip's isolation, and returns (wheel, output).

    The build folder of this Python and TensorFlow is the one that make uses, so that little is
    compiled here when the environment was made by make.
    """
    command = [sys.executable, "-m", "pip", "wheel", "--verbose", "--no-deps", "--retries", "5"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(directory), ROOT],
        cwd=str(directory),
        env={**os.environ, native.WERROR_VARIABLE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=1500,
    )
    output = done.stdout.decode(errors="replace")
    assert done.returncode == 0, output[-8000:]
    (wheel,) = glob.glob(os.path.join(str(directory), "npu_bridge-*.whl"))
    return wheel, output


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    pytest.importorskip("tensorflow")
    return pip_wheel(tmp_path_factory.mktemp("wheel"))[0]


@pytest.fixture
def installed(wheel, tmp_path):
    """A folder with the wheel's contents."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(str(tmp_path))
    return tmp_path


def run_python(installed, script):
    """Runs `script` in a new Python that sees the installed folder first."""
    return subprocess.run(
        [sys.executable, "-c", script],
        cwd=str(installed),
        env={**os.environ, "PYTHONPATH": str(installed), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=300,
    )


@pytest.mark.core
@pytest.mark.build
def test_the_wheel_says_what_it_is_for_and_is_whole(wheel):
    import tensorflow as tf

    name = os.path.basename(wheel)
    python = "cp%d%d" % sys.version_info[:2]
    assert name.startswith(f"npu_bridge-{VERSION}+tf{tf.__version__.replace('-', '')}-{python}-")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = [n for n in names if n.endswith(".dist-info/entry_points.txt")]
        assert "npurun = npurun.command_line:main" in archive.read(entry_points).decode()
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    expected = ["_native" + suffix, "_npu_ops.so", "libnpu_bridge_core.so", "build_information.py"]
    assert {"npu_device/_core/" + file for file in expected} <= names
    for package in ("npu_bridge", "npu_device", "hccl", "npurun"):
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= names
    tops = {name.split("/")[0] for name in names if ".dist-info" not in name}
    assert tops == {"npu_bridge", "npu_device", "hccl", "npurun"}


@pytest.mark.core
@pytest.mark.build
def test_a_second_build_compiles_nothing(wheel, tmp_path):
    _, output = pip_wheel(tmp_path)
    assert "Configuring done" in output
    assert "Building CXX object" not in output


@pytest.mark.core
@pytest.mark.build
def test_the_installed_libraries_load(installed):
    script = (
        "from npu_device._core import library;"
        "assert library.native().build_info()['tensorflow_version'];"
        "import sys; assert 'tensorflow' not in sys.modules, 'native() imported TensorFlow';"
        "ops = library.ops(); assert ops is library.ops(); print(library.__file__);"
        "print(callable(ops.hcom_all_reduce))"
    )
    done = run_python(installed, script)
    output = done.stdout.decode()
    assert done.returncode == 0, output
    assert str(installed) in output and output.strip().endswith("True")


@pytest.mark.core
@pytest.mark.build
def test_a_wrong_tensorflow_is_named_before_anything_is_loaded(installed):
    information = installed / "npu_device" / "_core" / "build_information.py"
    text = information.read_text()
    information.write_text(text.replace('TENSORFLOW_VERSION = "', 'TENSORFLOW_VERSION = "9.'))
    (installed / "npu_device" / "_core" / "_npu_ops.so").write_bytes(b"must not be opened")
    done = run_python(installed, "from npu_device._core import library; library.ops()")
    output = done.stdout.decode()
    import tensorflow as tf

    assert f"built for TensorFlow 9.{tf.__version__}, {tf.__version__} runs" in output
    assert library.REBUILD_COMMAND in output
    assert "ImportError" in output and done.returncode == 1


def built_for(version, abi):
    return types.SimpleNamespace(TENSORFLOW_VERSION=version, CXX11_ABI=abi)


def test_the_loader_compares_version_and_abi():
    library._check_tensorflow(built_for("2.15.1", 1), "2.15.1", 1)
    with pytest.raises(ImportError, match=r"built for TensorFlow 2\.15\.1, 2\.21\.0 runs"):
        library._check_tensorflow(built_for("2.15.1", 1), "2.21.0", 1)
    with pytest.raises(ImportError, match="ABI 1, one with ABI 0 runs"):
        library._check_tensorflow(built_for("2.15.1", 1), "2.15.1", 0)


def copy_of_the_loader(tmp_path):
    """Copies the loader alone, as a source tree that was not built has it."""
    folder = tmp_path / "npu_device" / "_core"
    folder.mkdir(parents=True)
    for path in (tmp_path / "npu_device", folder):
        (path / "__init__.py").write_text("")
    with open(library.__file__, encoding="utf-8") as file:
        (folder / "library.py").write_text(file.read())
    return folder


@pytest.mark.parametrize("call", ["native()", "ops()"])
def test_a_tree_without_libraries_says_how_to_build_them(tmp_path, call):
    copy_of_the_loader(tmp_path)
    done = run_python(tmp_path, f"from npu_device._core import library; library.{call}")
    last = done.stdout.decode().strip().splitlines()[-1]
    assert done.returncode == 1
    assert last.startswith("ImportError: ") and "is not in" in last
    assert "pip install ." in last and "python -m build_support" in last


def test_bindings_of_another_python_are_named(tmp_path):
    folder = copy_of_the_loader(tmp_path)
    (folder / "_native.cpython-36m-x86_64-linux-gnu.so").write_bytes(b"")
    done = run_python(tmp_path, "from npu_device._core import library; library.native()")
    last = done.stdout.decode().strip().splitlines()[-1]
    assert "another Python" in last and "cpython-36m" in last and library.REBUILD_COMMAND in last

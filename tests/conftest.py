"""Puts the source folder at the end of sys.path.

Tests import helpers (`tests.harness`) and build scripts from there. At the end, so that the
installed npu_bridge, npu_device and hccl are what is tested wherever they are installed.
"""

import os
import sys

import pytest

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture(scope="session")
def tensorflow_major():
    """The major version of the TensorFlow that the library was built for."""
    from npu_device._core import library

    return int(library.native().build_info()["tensorflow_version"].split(".")[0])


@pytest.fixture(scope="session")
def has_estimator():
    """Whether the TensorFlow that the library was built for has tf.estimator."""
    from npu_device._core import library

    version = library.native().build_info()["tensorflow_version"].split(".")
    return (int(version[0]), int(version[1])) < (2, 16)

"""The first lines that the small scripts of the multi-process tests share."""

from __future__ import annotations

import textwrap

_COMMON = """
import os, sys
import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.hccl import hccl_ops
from hccl.manage.api import *
"""

_RANK = """
rank, size = get_rank_id(), get_rank_size()

def say(*values):
    # One write, since processes that share the pipe would else mix their words.
    sys.stdout.flush()
    os.write(sys.stdout.fileno(), (" ".join(map(str, values)) + "\\n").encode())
"""


def graph(body):
    """A script that builds a graph and runs it in sessions, on every TensorFlow."""
    return _COMMON + "tf.disable_eager_execution()\n" + _RANK + textwrap.dedent(body)


def eager(body):
    """A script that runs ops as it meets them, and may use tf.function."""
    return _COMMON + "tf.enable_eager_execution()\n" + _RANK + textwrap.dedent(body)


def body(text):
    """More lines of a script."""
    return textwrap.dedent(text)

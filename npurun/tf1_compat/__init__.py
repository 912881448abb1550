"""Runs scripts that are written for TensorFlow 1 on TensorFlow 2: `npurun --tf1`.

`import tensorflow as tf` in such a script gives the compat.v1 API, with version 2 behaviour off and
a `tf.contrib` that holds the names with an equal in TensorFlow 2 or tf_slim. On TensorFlow 1 all of
this does nothing.

`npurun --tf1` puts the folder startup/ on PYTHONPATH. Python runs its sitecustomize module at
start, which calls `npurun.tf1_compat.import_hook.install`: the script stays __main__, and the
Python processes that it starts get the same TensorFlow.

Libraries that are written for TensorFlow 2 (`import_hook.LIBRARIES`) keep the real module.
"""

import os

# Goes to the front of PYTHONPATH.
STARTUP_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "startup")

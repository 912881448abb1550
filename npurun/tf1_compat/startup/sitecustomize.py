"""Run by Python at start, before the script: makes `import tensorflow` give TensorFlow 1's API.

Only one module of this name is run: the one that this hides is run afterwards.
"""

import importlib.machinery
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE_FOLDER = os.path.dirname(os.path.dirname(os.path.dirname(_FOLDER)))


def _install():
    # npurun may have been started from a folder that is not on this process's path.
    sys.path.insert(0, _PACKAGE_FOLDER)
    try:
        from npurun.tf1_compat import import_hook
    finally:
        sys.path.remove(_PACKAGE_FOLDER)
    import_hook.install()


def _run_hidden_module():
    folders = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


_install()
_run_hidden_module()

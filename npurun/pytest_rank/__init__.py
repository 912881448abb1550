"""Holds the script that ranks of a marked test run; npurun.pytest_plugin starts it."""

import os

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "start.py")

#: Set where the pytest that was called looks for modules in its working directory first, as
#: `python -m pytest` does and `pytest` does not.
WORKING_DIRECTORY_VARIABLE = "NPURUN_PYTEST_WORKING_DIRECTORY"

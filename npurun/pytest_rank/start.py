"""Runs pytest in a rank, with the module path of the pytest that was called."""

import os
import sys

# Python puts this script's folder first. Last, the folder of the packages that the caller uses.
sys.path[0:1] = [""] if os.environ.get("NPURUN_PYTEST_WORKING_DIRECTORY") else []
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import pytest  # noqa: E402

if __name__ == "__main__":
    sys.exit(pytest.main())

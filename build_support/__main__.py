"""`python -m build_support`: builds into this source tree, for work on the sources.

The libraries are put into npu_device/_core, so that `import npu_device` from the source folder
works. A second run compiles only what changed.
"""

import argparse
import os
import sys

from build_support import checks, native, tensorflow_finder


def main():
    """Parses the command line and builds. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m build_support", description=__doc__)
    parser.add_argument("--build-directory", help="default: build/<Python>-tf<version>")
    parser.add_argument(
        "--install-to",
        default=os.path.join(native.SOURCE_DIRECTORY, "npu_device", "_core"),
        help="folder that gets the libraries, default: npu_device/_core of this source tree",
    )
    parser.add_argument(
        "--describe", action="store_true", help="print which TensorFlow would be used, and end"
    )
    parser.add_argument("options", nargs="*", help="arguments to CMake, after --")
    arguments = parser.parse_args()
    try:
        tensorflow = tensorflow_finder.find_tensorflow()
        if arguments.describe:
            for name, value in zip(tensorflow._fields, tensorflow):
                print("%s: %s" % (name, value))
            return 0
        native.build(tensorflow, arguments.build_directory, arguments.install_to, arguments.options)
    except checks.BuildError as error:
        print("npu-bridge: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

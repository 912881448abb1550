"""Makes `python -m npurun` the same as the command `npurun`."""

import sys

from npurun.command_line import main

if __name__ == "__main__":
    sys.exit(main())

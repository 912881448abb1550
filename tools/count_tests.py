"""Adds up the closing lines of pytest and ctest in log files: `N passed, N failed, N skipped`.

Exits with 1 when a test failed, when a part of the run failed in another way, or when there was no
test at all.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

_PYTEST = re.compile(r"^=+ (?P<counts>.*\b(?:passed|failed|errors?|skipped).*) in [\d.]+s.*=+$")
_CTEST = re.compile(r"^\d+% tests passed, (?P<failed>\d+) tests? failed out of (?P<all>\d+)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def count(text: str) -> tuple:
    """Returns (passed, failed, skipped) over all runs whose closing lines are in `text`."""
    passed = failed = skipped = 0
    for line in text.splitlines():
        line = _COLOUR.sub("", line).strip()
        match = _PYTEST.match(line)
        if match:
            for number, word in re.findall(r"(\d+) (\w+)", match.group("counts")):
                if word in ("passed", "xfailed"):
                    passed += int(number)
                elif word in ("failed", "error", "errors", "xpassed"):
                    failed += int(number)
                elif word == "skipped":
                    skipped += int(number)
        match = _CTEST.match(line)
        if match:
            failed += int(match.group("failed"))
            passed += int(match.group("all")) - int(match.group("failed"))
    return passed, failed, skipped


def main() -> int:
    """Reads the logs, prints the line, returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failed-parts", type=int, default=0, help="parts that exited non-zero")
    parser.add_argument("logs", nargs="+")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for path in arguments.logs:
        with open(path, encoding="utf-8", errors="replace") as file:
            counts = count(file.read())
        print(f"{counts[0]:6d} passed {counts[1]:4d} failed  {os.path.basename(path)[:-4]}")
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    # A part that failed without a failing test (lint, a build) counts as one.
    failed = max(failed, arguments.failed_parts)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())

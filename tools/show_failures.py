"""Prints what failed in the logs of a run's parts, short enough to stand at the end of the run.

Of a part that ran tests: the text of each failure of pytest (its last lines, where the error
stands) and the names of the tests that ctest calls failed. Of any other part: its last lines.
"""

from __future__ import annotations

import argparse
import os
import re
import sys

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_SECTION = re.compile(r"^=+ (?P<name>.+?) =+$")
_TEST = re.compile(r"^_{3,} .+ _{3,}$")
_CTEST_FAILED = re.compile(r"^\s*\d+ - .+ \((?:Failed|Timeout|Subprocess aborted|SEGFAULT|.*)\)$")
_OTHER_LINES = 25


def pytest_failures(lines: list[str], most_lines: int) -> list[str]:
    """Returns the failures of pytest in a log, each with its last lines only.

    Args:
        lines: of the log, without colours.
        most_lines: how many lines of each failure, beside its heading.
    """
    failures: list[list[str]] = []
    inside = False
    for line in lines:
        section = _SECTION.match(line)
        if section:
            inside = section.group("name") in ("FAILURES", "ERRORS")
        elif inside and _TEST.match(line):
            failures.append([line])
        elif inside and failures:
            failures[-1].append(line)
    found = []
    for heading, *text in failures:
        found += [heading, *text[-most_lines:]]
    return found


def ctest_failures(lines: list[str]) -> list[str]:
    """Returns the names of the tests that failed, as ctest lists them at its end."""
    found: list[str] = []
    inside = False
    for line in lines:
        if line.startswith("The following tests FAILED:"):
            inside = True
        elif inside and not _CTEST_FAILED.match(line):
            inside = False
        if inside:
            found.append(line)
    return found


def failures(text: str, most_lines: int) -> list[str]:
    """Returns the lines to show of one part's log.

    Args:
        text: the whole log.
        most_lines: how many lines of each failed test.
    """
    lines = [_COLOUR.sub("", line).rstrip() for line in text.splitlines()]
    found = pytest_failures(lines, most_lines) + ctest_failures(lines)
    return found or lines[-_OTHER_LINES:]


def main() -> int:
    """Reads the logs and prints what failed in each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=30, help="of each failed test (default: 30)")
    parser.add_argument("--width", type=int, default=240, help="of each line (default: 240)")
    parser.add_argument("logs", nargs="+")
    arguments = parser.parse_args()
    for path in arguments.logs:
        with open(path, encoding="utf-8", errors="replace") as file:
            found = failures(file.read(), arguments.lines)
        print(f"\n===== what failed in {os.path.basename(path)[:-4]}")
        for line in found:
            print(line[: arguments.width])
    return 0


if __name__ == "__main__":
    sys.exit(main())

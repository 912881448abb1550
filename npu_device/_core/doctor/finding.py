"""What a check finds."""

from __future__ import annotations

from typing import NamedTuple

OK = "ok"
NOTE = "note"  # worth knowing, not wrong
WARNING = "warning"  # may go wrong, or is not what was meant
FAILURE = "failure"  # jobs do not run


class Finding(NamedTuple):
    """One line of the page.

    Attributes:
        level: OK, NOTE, WARNING or FAILURE.
        text: what was found and, where something is wrong, what to do.
    """

    level: str
    text: str

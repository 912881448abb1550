"""What becomes of numbers that are too large for their format.

The device can let them end at the largest number. Processors do not: they become infinity, which a
search for overflow in gradients then finds.
"""

from __future__ import annotations

import logging as levels
from typing import Any

from npu_device._core import logging

SATURATE = 0
INF_NAN = 1
UNDEFINED = 2


def set_mode(mode: Any) -> None:
    """Checks what a script asks for, and says once if it is not what happens here.

    Args:
        mode: 0 for the largest number, 1 for infinity, 2 for what the device does by itself.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(mode, bool) or mode not in (SATURATE, INF_NAN, UNDEFINED):
        raise ValueError(f"mode is {mode!r}, allowed is 0 (saturate), 1 (inf and nan) or 2.")
    if mode == SATURATE:
        logging.once(
            levels.WARNING,
            "set_device_sat_mode(0) has no effect on CPU ranks: a number that overflows becomes "
            "infinity, it does not end at the largest number.",
        )

"""Profiles of parts of a script."""

from __future__ import annotations

from typing import Any

from npu_bridge import tf_adapter
from npu_device._core import logging
from npu_device._core.compute.arguments import one_of
from npu_device._core.session_options import NPU_ONLY

__all__ = ["Profiler", "tf_adapter"]

_LEVELS = ("L0", "L1", "L2")
_METRICS = (
    "",
    "ArithmeticUtilization",
    "PipeUtilization",
    "Memory",
    "MemoryL0",
    "MemoryUB",
    "ResourceConflictRatio",
    "L2Cache",
)


class Profiler:
    """Would record the NPU's profile of what runs inside `with Profiler():`.

    Accepted without effect on CPU ranks.

    It is for the NPU and has no effect on CPU ranks; tf.profiler profiles those.

    Args:
        level: how much would be recorded: "L0" (the default), "L1" or "L2", a str.
        aic_metrics: what of the NPU's cores, with L1 and L2: "" (the default, for
            PipeUtilization), "ArithmeticUtilization", "PipeUtilization", "Memory", "MemoryL0",
            "MemoryUB", "ResourceConflictRatio" or "L2Cache", a str.
        output_path: a folder, a str; "" (the default) for the current one. Nothing is written.

    Raises:
        ValueError: level or aic_metrics is another.
        TypeError: output_path is no text.
        RuntimeError: (when it starts) another one is running: they cannot be nested.

    Source of the contract: CANN TF Adapter API, npu_bridge.profiler.profiler.Profiler.
    """

    _running = False

    def __init__(self, *, level: str = "L0", aic_metrics: str = "", output_path: str = "") -> None:
        one_of("Profiler", "level", level, _LEVELS)
        one_of("Profiler", "aic_metrics", aic_metrics, _METRICS)
        if not isinstance(output_path, str):
            raise TypeError(f"Profiler: output_path must be a str, got {output_path!r}")
        self.level = level
        self.aic_metrics = aic_metrics
        self.output_path = output_path

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins the scope; says once that it has no effect.

        Raises:
            RuntimeError: another one is running: they cannot be nested.
        """
        if Profiler._running:
            raise RuntimeError(
                "Profiler: another Profiler is running. They cannot be nested: stop it first."
            )
        Profiler._running = True
        logging.info_from_rank_0("Profiler %s.", NPU_ONLY)

    def stop(self) -> None:
        """Ends the scope."""
        Profiler._running = False

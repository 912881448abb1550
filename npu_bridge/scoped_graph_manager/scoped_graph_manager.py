"""The lifetime of variables' initialization graphs on the device."""

from __future__ import annotations

from typing import Any

from npu_bridge import tf_adapter
from npu_device._core import logging
from npu_device._core.session_options import NPU_ONLY

__all__ = ["ScopedGraphManager", "tf_adapter"]


class ScopedGraphManager:
    """Would unload the graphs that run inside `with ScopedGraphManager():` from the device.

    Accepted without effect on CPU ranks.

    It is for the NPU and has no effect on CPU ranks: TensorFlow keeps no graph on a device there.

    Source of the contract: CANN TF Adapter API, ScopedGraphManager.
    """

    def __enter__(self) -> ScopedGraphManager:
        self.start()
        return self

    def __exit__(self, exe_type: Any, exe_val: Any, exc_tb: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begins the scope; says once that it has no effect."""
        logging.info_from_rank_0("ScopedGraphManager %s.", NPU_ONLY)
        tf_adapter.EnableControl()

    def stop(self) -> None:
        """Ends the scope."""
        tf_adapter.Clear()

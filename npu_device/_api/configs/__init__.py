"""What npu_device gives out as `configs`."""

from __future__ import annotations

from npu_device.configs.npu_run_context_option import NpuRunContextOptions as run_context_options

__all__ = ["run_context_options"]

"""Optimizers for Keras."""

from __future__ import annotations

from typing import List

from npu_device._core import lazy

__all__: List[str] = []  # imported when they are used: Keras takes a second

_MODULE = "npu_device.train.optimizer.npu_loss_scale_optimizer"

__getattr__, __dir__ = lazy.attributes(
    "npu_device.train.optimizer",
    {
        "NpuExperimentalLossScaleOptimizer": (_MODULE, "NpuExperimentalLossScaleOptimizer"),
        "NpuLossScaleOptimizer": (_MODULE, "NpuLossScaleOptimizer"),
    },
)

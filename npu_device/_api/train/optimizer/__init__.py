"""The names of npu_device.train.optimizer, under the path where the original keeps them."""

from npu_device.train.optimizer.npu_loss_scale_optimizer import (
    NpuExperimentalLossScaleOptimizer,
    NpuLossScaleOptimizer,
)

__all__ = ["NpuExperimentalLossScaleOptimizer", "NpuLossScaleOptimizer"]

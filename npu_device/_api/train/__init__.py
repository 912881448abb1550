"""The names of npu_device.train, under the path where the original keeps them."""

from npu_device._api.train import optimizer

__all__ = ["optimizer"]

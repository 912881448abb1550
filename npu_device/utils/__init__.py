"""Helpers of npu_device: scopes that mark ops, npu ops in Keras models, files that graphs leave."""

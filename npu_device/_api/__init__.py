"""Where the original keeps the modules that npu_device gives out."""

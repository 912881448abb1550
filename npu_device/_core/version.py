"""The version of npu-bridge: the only place that holds it."""

VERSION = "0.1.0"

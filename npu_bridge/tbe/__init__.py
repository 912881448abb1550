"""Ops for the NPU's matrix and vector units."""

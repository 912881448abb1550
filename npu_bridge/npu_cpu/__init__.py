"""Ops that the NPU's processor computes beside its matrix units."""

"""Optimizers for Keras."""

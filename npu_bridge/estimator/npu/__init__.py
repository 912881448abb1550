"""Estimator, hooks, optimizers and options for training on ranks."""

"""Training with several ranks: optimizers, estimators, hooks, configuration."""

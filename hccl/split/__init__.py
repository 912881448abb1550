"""How gradients are cut into segments; see `hccl.split.api`."""

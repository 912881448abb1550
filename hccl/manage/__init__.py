"""Groups of ranks; see `hccl.manage.api`."""

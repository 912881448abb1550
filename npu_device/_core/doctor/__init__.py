"""`npu-doctor`: looks at a machine and a job's description, and says what would go wrong."""

"""What helps training: loss scaling."""

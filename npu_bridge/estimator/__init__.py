"""Start, end, and training helpers for TensorFlow 1 scripts."""

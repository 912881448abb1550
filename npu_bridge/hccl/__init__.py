"""The collectives for TensorFlow 1 scripts."""

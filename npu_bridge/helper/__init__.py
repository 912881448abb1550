"""The ops that TensorFlow loaded, and the version."""

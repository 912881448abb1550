"""Training helpers for TensorFlow 1 scripts: what the NPU adds to Estimator, Keras and sessions."""

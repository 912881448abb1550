"""Ops of the published packages that compute on one rank, made of TensorFlow's own ops.

They run where TensorFlow runs, in graphs and eagerly, and TensorFlow's gradients flow through them.
One file a topic. `raw_ops` gives them the names that scripts take from gen_npu_ops, and `refused`
is the table of what cannot be computed here.
"""

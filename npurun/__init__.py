"""npurun: starts the ranks of a job on this host, shows their output, ends them together.

A package of its own, so that the command starts without TensorFlow: importing npu_device would load
it. Nothing here imports npu_bridge, npu_device, hccl or TensorFlow.
"""

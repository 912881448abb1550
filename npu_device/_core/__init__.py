"""What npu_bridge, npu_device and hccl share. Private: names here may change without notice.

From the top, each using only those below it:

    collectives, gradients ...      the Python wrappers of the ops; only these import TensorFlow
    groups                          groups of ranks, checked, on top of the native registry
    runtime                         the one runtime of this process: start, shutdown, rank and size
    interrupts, split_strategy      signals during a wait; how a group's gradients are cut
    cluster                         what the job looks like
    rank_table, json_file           the file that describes a job
    logging                         the one logger
    environment                     every environment variable, and the only place that reads one

`library` loads the native code. Nothing here starts the runtime, or reads what describes a job,
when it is imported: scripts set variables inside Python before they first use us.
"""

"""What a TensorFlow 1 script for Ascend needs: `from npu_bridge.npu_init import *`.

There is no __all__, as in the original: the star gives scripts `os`, `tf` and the modules of
TensorFlow below as well, and some have them from here only. `tf` is TensorFlow's version 1 API in
every version of TensorFlow.

Source of the contract: CANN TF Adapter API, npu_init.
"""

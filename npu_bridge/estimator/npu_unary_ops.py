"""`npu_unary_ops.gelu` and the like, for TensorFlow 1 scripts.

    from npu_bridge.estimator.npu_unary_ops import npu_unary_ops
    y = npu_unary_ops.gelu(x)

Source of the contract: CANN TF Adapter API, npu_unary_ops.
"""

from __future__ import annotations

from npu_bridge.helper import helper

__all__ = ["helper", "npu_unary_ops"]

#: The raw ops by name: gelu, fast_gelu ...
npu_unary_ops = helper.get_gen_ops()

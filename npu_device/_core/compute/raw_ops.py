"""The names that scripts take from gen_npu_ops, npu_aicore_ops and npu_unary_ops.

On the NPU these three are one module: the Python functions that TensorFlow makes for the adapter's
ops. Here it holds those of the ops that are compiled, which are the collectives, and functions of
the same names and arguments for the others.
"""

from __future__ import annotations

import functools
import types
from typing import Any, Callable, Dict

from npu_device._core import operations
from npu_device._core.compute import (
    activations,
    clustering,
    deformable,
    dropout,
    file_constant,
    gru,
    image,
    indexing,
    lars,
    lstm,
    normalization,
    optimizer_steps,
    recurrent_gradients,
    refused,
)

#: By raw name, which is the op type's in lower case with underscores.
FUNCTIONS: Dict[str, Callable[..., Any]] = {
    # Activations
    "gelu": activations.gelu,
    "gelu_grad": activations.gelu_grad,
    "fast_gelu": activations.fast_gelu,
    "fast_gelu_grad": activations.fast_gelu_grad,
    "fast_gelu_v2": activations.fast_gelu_v2,
    "p_relu": activations.prelu,
    "p_relu_grad": activations.prelu_grad,
    # Dropout
    "drop_out_gen_mask": dropout.drop_out_gen_mask,
    "drop_out_do_mask": dropout.drop_out_do_mask,
    "drop_out_gen_mask_v3": dropout.drop_out_gen_mask_v3,
    "drop_out_gen_mask_v4": dropout.drop_out_gen_mask_v4,
    "drop_out_do_mask_v3": dropout.drop_out_do_mask_v3,
    "stateless_dropout": dropout.stateless_dropout,
    # Normalization
    "centralization": normalization.centralization,
    "fused_layer_norm": normalization.layer_norm,
    "fused_layer_norm_grad": normalization.layer_norm_grad,
    # Optimizers
    "lars": lars.lars,
    "lars_v2": lars.lars_v2,
    "adam_apply_one_assign": optimizer_steps.adam_apply_one_assign,
    "adam_apply_one_with_decay_assign": optimizer_steps.adam_apply_one_with_decay_assign,
    "lamb_apply_optimizer_assign": optimizer_steps.lamb_apply_optimizer_assign,
    "lamb_apply_weight_assign": optimizer_steps.lamb_apply_weight_assign,
    # Recurrent networks
    "basic_lstm_cell": lstm.basic_lstm_cell,
    "dynamic_rnn": lstm.dynamic_rnn,
    "dynamic_rnn_v2": lstm.dynamic_rnn_v2,
    "dynamic_rnn_grad": recurrent_gradients.dynamic_rnn_grad,
    "dynamic_gru_v2": gru.dynamic_gru_v2,
    "dynamic_augru": gru.dynamic_augru,
    # Positions
    "non_zero": indexing.nonzero,
    "non_zero_with_value": indexing.nonzero_with_value,
    "non_zero_with_value_shape": indexing.non_zero_with_value_shape,
    "scatter_elements": indexing.scatter_elements,
    "random_choice_with_mask": indexing.random_choice_with_mask,
    "stateless_random_choice_with_mask": indexing.stateless_random_choice_with_mask,
    "get_shape": indexing.get_shape,
    # Others
    "k_means_centroids": clustering.k_means_centroids,
    "k_means_centroids_v2": clustering.k_means_centroids_v2,
    "deformable_offsets": deformable.deformable_offsets,
    "deformable_offsets_grad": deformable.deformable_offsets_grad,
    "dense_image_warp": image.dense_image_warp,
    "dense_image_warp_grad": image.dense_image_warp_grad,
    "decode_and_resize_jpeg": image.decode_and_resize_jpeg,
    "decode_and_crop_and_resize_jpeg": image.decode_and_crop_and_resize_jpeg,
    "file_constant": file_constant.file_constant,
}


def module(compiled: Any) -> types.ModuleType:
    """Makes the module that gen_npu_ops is.

    Args:
        compiled: the module that TensorFlow made for the ops that are compiled.

    Returns:
        A module with its names, `FUNCTIONS`, and functions that raise for what is refused.
    """
    made = types.ModuleType("gen_npu_ops", __doc__)
    refusing = [*refused.RAW_TABLE, *[name for name in refused.TABLE if name.isidentifier()]]
    vars(made).update({name: refused.function(name) for name in refusing})
    vars(made).update(FUNCTIONS)
    vars(made).update(
        {name: value for name, value in vars(compiled).items() if not name.startswith("__")}
    )
    return made


@functools.lru_cache(maxsize=None)
def load() -> types.ModuleType:
    """Returns the module of all raw names, the same one for npu_bridge and npu_device.

    Raises:
        ImportError: the compiled ops cannot be loaded; says why and what to do.
    """
    return module(operations.load())

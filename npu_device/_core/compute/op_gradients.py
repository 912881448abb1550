"""Gradients of the published ops that compute, as functions of an op.

The published package registers them with TensorFlow for the op types in their names. Here they are
not registered: those op types are not compiled, and scripts register some of them themselves. They
are for such scripts, and for those that call them.
"""

from __future__ import annotations

from typing import Any, List, Tuple

import tensorflow.compat.v1 as tf

from npu_device._core.compute import activations, deformable, image, recurrent_gradients

_ATTRIBUTES = (
    "direction", "cell_depth", "keep_prob", "cell_clip", "num_proj", "time_major", "activation",
)  # fmt: skip


def basic_lstm_cell_grad(
    op: Any, dct: Any, dht: Any, dit: Any, djt: Any, dft: Any, dot: Any, dtanhct: Any
) -> List[tf.Tensor]:
    """Returns the gradients of the inputs of an op BasicLSTMCell.

    Args:
        op: has `inputs` x, h, c, w and b, and `get_attr("forget_bias")`.
        dct: the gradient of its result ct; None stands for zeros, here and below.
        dht: that of ht.
        dit: that of it.
        djt: that of jt.
        dft: that of ft.
        dot: that of ot.
        dtanhct: that of tanhct.

    Returns:
        Those of x, h, c, w and b.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of BasicLSTMCell.
    """
    inputs = inputs_of("basic_lstm_cell_grad", op, "x", "h", "c", "w", "b")
    return recurrent_gradients.basic_lstm_cell(
        inputs[:5], [dct, dht, dit, djt, dft, dot, dtanhct], op.get_attr("forget_bias")
    )


def dynamic_gru_v2_grad(
    op: Any, dy: Any, doutput_h: Any, dupdate: Any, dreset: Any, dnew: Any, dhidden_new: Any
) -> Tuple[Any, ...]:
    """Returns the gradients of the inputs of an op DynamicGruV2.

    Args:
        op: has `inputs` x, weight_input, weight_hidden, bias_input, bias_hidden, seq_length and
            init_h, and its attributes in `get_attr`.
        dy: the gradient of its result y; None stands for zeros, here and below.
        doutput_h: that of output_h.
        dupdate: that of update.
        dreset: that of reset.
        dnew: that of new.
        dhidden_new: that of hidden_new.

    Returns:
        One for each input; None for seq_length.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DynamicGruV2.
    """
    x, w, u, b, c, seq_length, init_h = inputs_of(
        "dynamic_gru_v2_grad", op, "x", "weight_input", "weight_hidden", "bias_input",
        "bias_hidden", "seq_length", "init_h",
    )  # fmt: skip
    gradients = recurrent_gradients.dynamic_gru_v2(
        [x, w, u, b, c, init_h],
        seq_length,
        [dy, doutput_h, dupdate, dreset, dnew, dhidden_new],
        **_attributes(op, *_ATTRIBUTES, "gate_order", "reset_after"),
    )
    return (*gradients[:5], None, gradients[5])


def dynamic_augru_grad(
    op: Any,
    dy: Any,
    doutput_h: Any,
    dupdate: Any,
    dupdate_att: Any,
    dreset: Any,
    dnew: Any,
    dhidden_new: Any,
) -> Tuple[Any, ...]:
    """Returns the gradients of the inputs of an op DynamicAUGRU.

    Args:
        op: has `inputs` x, weight_input, weight_hidden, weight_att, bias_input, bias_hidden,
            seq_length and init_h, and its attributes in `get_attr`.
        dy: the gradient of its result y; None stands for zeros, here and below.
        doutput_h: that of output_h.
        dupdate: that of update.
        dupdate_att: that of update_att.
        dreset: that of reset.
        dnew: that of new.
        dhidden_new: that of hidden_new.

    Returns:
        One for each input; None for seq_length.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DynamicAUGRU.
    """
    x, w, u, a, b, c, seq_length, init_h = inputs_of(
        "dynamic_augru_grad", op, "x", "weight_input", "weight_hidden", "weight_att", "bias_input",
        "bias_hidden", "seq_length", "init_h",
    )  # fmt: skip
    gradients = recurrent_gradients.dynamic_augru(
        [x, w, u, a, b, c, init_h],
        seq_length,
        [dy, doutput_h, dupdate, dupdate_att, dreset, dnew, dhidden_new],
        **_attributes(op, *_ATTRIBUTES, "gate_order", "reset_after"),
    )
    return (*gradients[:6], None, gradients[6])


def dynamic_rnn_grad(
    op: Any, dy: Any, dh: Any, dc: Any, di: Any, dj: Any, df: Any, do: Any, dtanhc: Any
) -> Tuple[Any, ...]:
    """Returns the gradients of the inputs of an op DynamicRnn.

    Args:
        op: has `inputs` x, w, b, seq_length, init_h and init_c, and its attributes in `get_attr`.
        dy: the gradient of its result y; None stands for zeros, here and below.
        dh: that of output_h.
        dc: that of output_c.
        di: that of i.
        dj: that of j.
        df: that of f.
        do: that of o.
        dtanhc: that of tanhc.

    Returns:
        One for each input; None for seq_length.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DynamicRnn.
    """
    x, w, b, seq_length, init_h, init_c = inputs_of(
        "dynamic_rnn_grad", op, "x", "w", "b", "seq_length", "init_h", "init_c"
    )
    gradients = recurrent_gradients.dynamic_rnn(
        [x, w, b, init_h, init_c],
        seq_length,
        [dy, dh, dc, di, dj, df, do, dtanhc],
        **_attributes(op, *_ATTRIBUTES, "cell_type", "use_peephole", "forget_bias"),
    )
    return (*gradients[:3], None, *gradients[3:])


def dynamic_rnn_v2_grad(
    op: Any, dy: Any, dh: Any, dc: Any, di: Any, dj: Any, df: Any, do: Any, dtanhc: Any
) -> Tuple[Any, ...]:
    """Returns the gradients of the inputs of an op DynamicRnnV2.

    Args:
        op: has `inputs` x, w, b, init_h and init_c, and its attributes in `get_attr`.
        dy: the gradient of its result y; None stands for zeros, here and below.
        dh: that of output_h.
        dc: that of output_c.
        di: that of i.
        dj: that of j.
        df: that of f.
        do: that of o.
        dtanhc: that of tanhc.

    Returns:
        One for each input.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DynamicRnnV2.
    """
    inputs = inputs_of("dynamic_rnn_v2_grad", op, "x", "w", "b", "init_h", "init_c")
    return tuple(
        recurrent_gradients.dynamic_rnn(
            inputs[:5],
            None,
            [dy, dh, dc, di, dj, df, do, dtanhc],
            **_attributes(op, *_ATTRIBUTES, "cell_type", "use_peephole", "forget_bias"),
        )
    )


def prelu_grad(op: Any, grad: Any) -> List[tf.Tensor]:
    """Returns the gradients of the inputs of an op PRelu.

    Args:
        op: has `inputs` x and weight.
        grad: the gradient of its result.

    Returns:
        Those of x and weight.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of PRelu.
    """
    x, weight = inputs_of("prelu_grad", op, "x", "weight")[:2]
    return activations.prelu_grad(grad, x, weight)


def fast_gelu_grad(op: Any, grad: Any) -> List[tf.Tensor]:
    """Returns the gradient of the input of an op FastGelu.

    Args:
        op: has `inputs` features.
        grad: the gradient of its result.

    Returns:
        That of the features, in a list.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of FastGelu.
    """
    features = inputs_of("fast_gelu_grad", op, "features")[0]
    return [activations.fast_gelu_grad(grad, features)]


def dense_image_warp_grad(op: Any, grad: Any) -> List[tf.Tensor]:
    """Returns the gradients of the inputs of an op DenseImageWarp.

    Args:
        op: has `inputs` image and flow.
        grad: the gradient of its result.

    Returns:
        Those of image and flow.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DenseImageWarp.
    """
    images, flow = inputs_of("dense_image_warp_grad", op, "image", "flow")[:2]
    return image.dense_image_warp_grad(grad, images, flow)


def deformable_offsets_grad(op: Any, grad: Any) -> List[tf.Tensor]:
    """Returns the gradients of the inputs of an op DeformableOffsets.

    Args:
        op: has `inputs` x and offsets, and its attributes in `get_attr`.
        grad: the gradient of its result.

    Returns:
        Those of x and offsets.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter API, gradient of DeformableOffsets.
    """
    names = ("strides", "pads", "ksize", "dilations", "data_format", "deformable_groups",
             "modulated")  # fmt: skip
    x, offsets = inputs_of("deformable_offsets_grad", op, "x", "offsets")[:2]
    return deformable.deformable_offsets_grad(grad, x, offsets, **_attributes(op, *names))


def inputs_of(where: str, op: Any, *names: str) -> List[Any]:
    """Returns the inputs of an operation that a gradient function is called with.

    Args:
        where: the function.
        op: what was passed as the operation.
        *names: of the inputs that the function needs; there may be more.

    Returns:
        All inputs.

    Raises:
        TypeError: `op` has no inputs, so that it is no operation.
        ValueError: it has fewer.
    """
    wanted = f"{where}: op must be an operation with inputs {', '.join(names)}"
    found = getattr(op, "inputs", None)
    if found is None:
        raise TypeError(f"{wanted}, got {op!r}")
    if len(found) < len(names):
        raise ValueError(f"{wanted}, got one with {len(found)}: {op!r}")
    return list(found)


def _attributes(op: Any, *names: str) -> Any:
    """Returns attributes of an op, as Python text where they are bytes."""
    found = {name: op.get_attr(name) for name in names}
    return {
        name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()
    }

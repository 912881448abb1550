"""Dropout as the device computes it, in place of tf.nn.dropout where a script asks for that."""

from __future__ import annotations

from typing import Any, List

import tensorflow
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops, random_seed
from tensorflow.python.ops import nn_ops

from npu_device._core.autograph import unconverted
from npu_device._core.compute import dropout
from npu_device._core.compute.op_gradients import inputs_of
from npu_device.npu_device import gen_npu_ops

__all__ = [
    "dropout_api_convert",
    "dropout_domask_grad",
    "gen_npu_ops",
    "grad_registry_list",
    "npu_dropout_v2",
]

#: The releases of TensorFlow whose dropout the original replaces, and where.
_VERSIONS = ["2.6.2~2.6.999"]
_MODES = ["graph"]

_registry = getattr(ops, "gradient_registry", None) or ops._gradient_registry

#: Op types that had a gradient when this module was imported. DropOutDoMask's is left to scripts:
#: some register `dropout_domask_grad` or their own for it, and only one can be.
grad_registry_list = _registry.list()


@unconverted
def npu_dropout_v2(
    x: Any, rate: Any, noise_shape: Any = None, seed: Any = None, name: Any = None
) -> tf.Tensor:
    """Sets elements to 0 at random and divides the others by the share that is kept.

    Args:
        x: a floating-point tensor of any shape.
        rate: the probability that an element is set to 0: a number in [0, 1) or a scalar tensor.
            For the number 0, x itself comes back.
        noise_shape: the mask's shape, which broadcasts to x's; None for x's own.
        seed: the op's seed; see tf.random.set_seed.
        name: a name for the result.

    Returns:
        A tensor of x's shape and dtype.

    Raises:
        RuntimeError: it is called eagerly.
        ValueError: x does not hold floating-point numbers, rate is not in [0, 1), or noise_shape
            does not broadcast to x's shape.

    Source of the contract: CANN TF Adapter, npu_device.train.convert_dropout.
    """
    if tf.executing_eagerly():
        raise RuntimeError(
            "npu_dropout_v2 is for graphs and functions. Call it in a tf.function, or call "
            "tf.nn.dropout."
        )
    keep_prob = 1.0 - rate
    if noise_shape is not None:
        return dropout.dropout(x, keep_prob, noise_shape, seed, name, op="npu_dropout_v2")
    x = tf.convert_to_tensor(x)
    if not x.dtype.is_floating:
        raise ValueError(
            f"npu_dropout_v2: x has dtype {x.dtype.base_dtype.name}, allowed are floating-point "
            f"numbers."
        )
    if not tf.is_tensor(keep_prob):
        if not 0.0 < keep_prob <= 1.0:
            raise ValueError(f"npu_dropout_v2: rate is {rate!r}, allowed is a number in [0, 1).")
        if keep_prob == 1.0:
            return x
    seeds = random_seed.get_seed(seed)
    mask = gen_npu_ops.drop_out_gen_mask(tf.shape(x), keep_prob, *[one or 0 for one in seeds])
    return gen_npu_ops.drop_out_do_mask(x, mask, keep_prob, name)


def dropout_api_convert() -> None:
    """Makes tf.nn.dropout call npu_dropout_v2 in graphs, where TensorFlow is 2.6.2 to 2.6.999.

    In other releases it changes nothing: the distribution is the same. Calling it again changes
    nothing, either. The replacement calls TensorFlow's while no device is open.

    Source of the contract: CANN TF Adapter, npu_device.train.convert_dropout.
    """
    from npu_device.train import npu_convert

    convert = npu_convert.dropout_convert(npu_dropout_v2, version=_VERSIONS, mode=_MODES)
    for place, name in (
        (tensorflow.nn, "dropout"),
        (getattr(getattr(tensorflow.compat, "v2", None), "nn", None), "dropout"),
        (nn_ops, "dropout_v2"),
    ):
        found = getattr(place, name, None)
        if found is not None and not hasattr(found, npu_convert.REPLACED):
            setattr(place, name, convert(found))


def dropout_domask_grad(op: Any, grad: Any) -> List[Any]:
    """The gradient of an op DropOutDoMask, for scripts that register it themselves.

    Args:
        op: the operation; its inputs are x, the mask and the share that is kept.
        grad: the gradient of its result, of x's shape and dtype.

    Returns:
        The gradient of each input; None for the mask and the share.

    Raises:
        TypeError: `op` is no operation.
        ValueError: it has fewer inputs.

    Source of the contract: CANN TF Adapter, npu_device.train.convert_dropout.
    """
    _, mask, kept = inputs_of("dropout_domask_grad", op, "x", "mask", "keep_prob")[:3]
    return [gen_npu_ops.drop_out_do_mask(grad, mask, kept), None, None]

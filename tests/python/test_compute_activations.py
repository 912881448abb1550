"""gelu and its fast forms, prelu and PReLU, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_aicore_ops
from npu_bridge.estimator.npu_unary_ops import npu_unary_ops
from npu_bridge.tbe import npu_vector_ops
from npu_device._core.compute import op_gradients
from tests.compute_checks import (
    FLOATS,
    Op,
    check_gradients,
    gradients,
    rounded,
    run,
    run_in,
    tf_variable,
)

pytestmark = pytest.mark.core

X = np.array([[-30.0, -3.1, -1.0, -0.3, -1e-3], [0.0, 1e-3, 0.4, 1.0, 30.0]])
# Away from 0, where a reference that is written with abs has no difference quotient.
SMOOTH = np.array([-3.0, -2.2, -0.4, 0.3, 1.7, 2.9])


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def fast_gelu(x):
    return x * np.exp(0.851 * (x - np.abs(x))) / (1 + np.exp(-1.702 * np.abs(x)))


def fast_gelu_v2(x):
    sign = (x + 1e-12) / np.abs(x + 1e-12)
    below = np.minimum(0.7071 * np.abs(x), 1.769) - 1.769
    return x * (sign * (-0.1444 * below**2 + 0.5) + 0.5)


ACTIVATIONS = [
    (npu_unary_ops.gelu, gelu),
    (npu_unary_ops.fast_gelu, fast_gelu),
    (npu_aicore_ops.fast_gelu_v2, fast_gelu_v2),
    (npu_unary_ops.fast_gelu_v2, fast_gelu_v2),
]


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
@pytest.mark.parametrize(("function", "reference"), ACTIVATIONS)
def test_values(function, reference, dtype, tolerance):
    x = rounded(X, dtype)
    got = run_in(dtype, function, x)
    np.testing.assert_allclose(got, reference(x), tolerance, tolerance * 0.1)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 1, 3, 2)])
@pytest.mark.parametrize(("function", "reference"), ACTIVATIONS)
def test_shapes(function, reference, shape):
    x = np.random.RandomState(1).normal(size=shape)
    got = run(function, x)
    assert got.shape == shape
    np.testing.assert_allclose(got, reference(x), 1e-10)


@pytest.mark.parametrize(("function", "reference"), ACTIVATIONS)
def test_gradients(function, reference):
    check_gradients(function, reference, np.arange(1.0, 7.0), SMOOTH)


@pytest.mark.parametrize("name", ["gelu", "fast_gelu"])
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_the_raw_gradient_ops_are_what_tensorflow_derives(name, dtype, tolerance):
    x, dy = rounded(SMOOTH, dtype), rounded(np.linspace(-1, 2, 6), dtype)
    forward = getattr(npu_unary_ops, name)
    backward = getattr(npu_unary_ops, name + "_grad")
    wanted = gradients(forward, dy, x)[0]
    np.testing.assert_allclose(run_in(dtype, backward, dy, x), wanted, tolerance, tolerance)


def test_the_gradient_function_of_fast_gelu():
    x, dy = SMOOTH, np.linspace(-1, 2, 6)
    got = run(lambda dy, x: op_gradients.fast_gelu_grad(Op([x]), dy)[0], dy, x)
    np.testing.assert_allclose(got, gradients(npu_unary_ops.fast_gelu, dy, x)[0], 1e-10)


@pytest.mark.parametrize("function", [one for one, _ in ACTIVATIONS])
def test_integers_are_refused(function):
    with pytest.raises(TypeError, match=r"gelu.*floating-point.*int32.*tf\.cast"):
        function(tf.constant([1, 2]))


def prelu(x, weight):
    return np.maximum(x, 0) + weight * np.minimum(x, 0)


WEIGHTS = [(), (1,), (3,), (2, 3), (2, 1), (4, 2, 3)]


@pytest.mark.parametrize("shape", WEIGHTS)
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_prelu(shape, dtype, tolerance):
    random = np.random.RandomState(2)
    x, weight = (rounded(random.normal(size=s), dtype) for s in ((4, 2, 3), shape))
    got = run_in(dtype, npu_aicore_ops.prelu, x, weight)
    np.testing.assert_allclose(got, prelu(x, weight), tolerance)


@pytest.mark.parametrize("shape", WEIGHTS)
def test_the_gradients_of_prelu(shape):
    random = np.random.RandomState(3)
    x, weight, dy = (
        random.normal(size=(4, 2, 3)),
        random.normal(size=shape),
        random.normal(size=(4, 2, 3)),
    )
    check_gradients(npu_aicore_ops.prelu, prelu, dy, x, weight)
    got = run(lambda dy, x, w: npu_aicore_ops.prelu_grad(Op([x, w]), dy), dy, x, weight)
    for one, other in zip(got, gradients(npu_aicore_ops.prelu, dy, x, weight)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, 1e-10)


def test_prelu_has_the_slope_of_the_weight_at_zero():
    dx, dw = gradients(npu_aicore_ops.prelu, np.ones(1), np.zeros(1), np.full(1, 0.25))
    assert (dx, dw) == (0.25, 0)


def test_prelu_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match=r"prelu: weight of shape \(2,\) .* \(4, 3\)"):
        npu_aicore_ops.prelu(tf.zeros([4, 3]), tf.zeros([2]))
    with pytest.raises(ValueError, match=r"prelu: weight of shape \(5, 4, 3\)"):
        npu_aicore_ops.prelu(tf.zeros([4, 3]), tf.zeros([5, 4, 3]))
    with pytest.raises(TypeError, match=r"x is float32 and weight is float64"):
        npu_aicore_ops.prelu(tf.zeros([4, 3]), tf.zeros([3], tf.float64))


@pytest.mark.parametrize(
    ("shared_axes", "shape"), [(None, (4, 5, 3)), ([1, 2], (1, 1, 3)), ([1, 2, 3], (1,))]
)
def test_the_layer_prelu(shared_axes, shape):
    x = np.random.RandomState(4).normal(size=(2, 4, 5, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        layer = npu_vector_ops.PReLU(
            alpha_initializer=tf.keras.initializers.Constant(0.25), shared_axes=shared_axes
        )
        y = layer(tf.constant(x))
        assert tuple(layer.alpha.shape) == shape
        gradient = tf.gradients(y, [tf_variable(layer.alpha)])[0]
        session.run(tf.global_variables_initializer())
        y, gradient = session.run([y, gradient])
    np.testing.assert_allclose(y, prelu(x, np.float32(0.25)), 1e-6)
    wanted = np.minimum(x, 0).sum(0)
    if shared_axes:
        wanted = wanted.sum(tuple(axis - 1 for axis in shared_axes), keepdims=True)
    np.testing.assert_allclose(gradient.ravel(), wanted.ravel(), 1e-4)


def test_the_layer_prelu_says_what_is_wrong():
    layer = npu_vector_ops.PReLU(shared_axes=[4])
    with pytest.raises(ValueError, match=r"shared_axes must be from 1 to 3"):
        layer.build((2, 4, 5, 3))
    with pytest.raises(ValueError, match=r"sizes must be known.*\(2, None, 3\)"):
        npu_vector_ops.PReLU().build((2, None, 3))


def test_the_layer_prelu_can_be_made_again():
    layer = npu_vector_ops.PReLU(alpha_initializer="ones", shared_axes=[1])
    again = npu_vector_ops.PReLU.from_config(layer.get_config())
    assert again.shared_axes == [1]
    assert npu_vector_ops.PReLU(shared_axes=2).shared_axes == [2]
    assert type(again.alpha_initializer) is type(layer.alpha_initializer)

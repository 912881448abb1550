"""layer_norm and centralization, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_aicore_ops, npu_ops
from tests.compute_checks import FLOATS, check_gradients, gradients, rounded, run, run_in

pytestmark = pytest.mark.core

SHAPE = (2, 3, 4)


def layer_norm(x, gamma, beta, begin=0, epsilon=1e-7):
    axes = tuple(range(begin % x.ndim, x.ndim))
    mean = x.mean(axes, keepdims=True)
    variance = ((x - mean) ** 2).mean(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon) * gamma + beta, mean, variance


def inputs(params, dtype="float64"):
    random = np.random.RandomState(1)
    shapes = (SHAPE, SHAPE[params % 3 :], SHAPE[params % 3 :])
    return [rounded(random.normal(size=shape), dtype) for shape in shapes]


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
@pytest.mark.parametrize(("begin", "params"), [(0, 0), (1, 1), (2, 2), (-1, -1), (1, 2), (2, 0)])
def test_layer_norm(begin, params, dtype, tolerance):
    x, gamma, beta = inputs(params, dtype)
    got = run_in(
        dtype, lambda *a: npu_aicore_ops.layer_norm(*a, begin, params, 1e-3), x, gamma, beta
    )
    for one, other in zip(got, layer_norm(x, gamma, beta, begin, 1e-3)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, tolerance, tolerance * 3)


def test_the_defaults_of_layer_norm_are_the_published_ones():
    x, gamma, beta = inputs(0)
    got = run(npu_aicore_ops.layer_norm, x * 1e-3, gamma, beta)
    np.testing.assert_allclose(got[0], layer_norm(x * 1e-3, gamma, beta)[0], 1e-9)


@pytest.mark.parametrize(("begin", "params"), [(0, 0), (1, 1), (-1, -1), (1, 2)])
def test_the_gradients_of_layer_norm(begin, params):
    x, gamma, beta = inputs(params)
    dy = np.random.RandomState(2).normal(size=SHAPE)
    check_gradients(
        lambda *a: npu_aicore_ops.layer_norm(*a, begin, params),
        lambda *a: layer_norm(*a, begin),
        dy,
        x,
        gamma,
        beta,
    )


@pytest.mark.parametrize("begin", [1, 2])
def test_the_raw_gradient_op_of_layer_norm(begin):
    x, gamma, beta = inputs(begin)
    dy = np.random.RandomState(2).normal(size=SHAPE)
    _, mean, variance = layer_norm(x, gamma, beta, begin)
    got = run(npu_ops.gen_npu_ops.fused_layer_norm_grad, dy, x, variance, mean, gamma)
    wanted = gradients(lambda *a: npu_aicore_ops.layer_norm(*a, begin, begin), dy, x, gamma, beta)
    for one, other in zip(got, wanted):
        np.testing.assert_allclose(one, other, 1e-8, 1e-10)


def test_layer_norm_says_what_is_wrong():
    x = tf.zeros(SHAPE)
    with pytest.raises(ValueError, match=r"gamma must have shape \(3, 4\), .*=1.*got \(4,\)"):
        npu_aicore_ops.layer_norm(x, tf.ones([4]), tf.ones([3, 4]), 1, 1)
    with pytest.raises(ValueError, match=r"begin_norm_axis must be from -3 to 2, got 3"):
        npu_aicore_ops.layer_norm(x, x, x, begin_norm_axis=3)
    with pytest.raises(TypeError, match=r"x is float32 and beta is float16"):
        npu_aicore_ops.layer_norm(x, x, tf.cast(x, tf.float16))
    with pytest.raises(TypeError, match=r"x must be of a floating-point dtype.*int32"):
        npu_aicore_ops.layer_norm(tf.zeros(SHAPE, tf.int32), x, x)


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
@pytest.mark.parametrize("axes", [[0], [1, 2], [-1], [0, 1, 2], []])
def test_centralization(axes, dtype, tolerance):
    x = rounded(np.random.RandomState(1).normal(size=SHAPE), dtype)
    got = run_in(dtype, lambda x: npu_aicore_ops.centralization(x, axes), x)
    wanted = x - x.mean(tuple(axes), keepdims=True) if axes else x - x
    np.testing.assert_allclose(got, wanted, tolerance, tolerance * 2)


def test_the_gradient_of_centralization():
    x, dy = np.random.RandomState(1).normal(size=(2, *SHAPE))
    check_gradients(
        lambda x: npu_aicore_ops.centralization(x, [0, 2]),
        lambda x: x - x.mean((0, 2), keepdims=True),
        dy,
        x,
    )


def test_centralization_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"centralization: axes must be from -2 to 1, got 2"):
        npu_aicore_ops.centralization(tf.zeros([2, 3]), [2])
    with pytest.raises(TypeError, match=r"centralization: axes must be an integer, got 0.5"):
        npu_aicore_ops.centralization(tf.zeros([2, 3]), [0.5])

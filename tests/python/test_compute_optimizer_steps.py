"""LARS, Adam's and LAMB's steps, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_ops
from npu_bridge.tbe import npu_vector_ops
from tests.compute_checks import FLOATS, check_gradients, rounded, run, run_in

pytestmark = pytest.mark.core

SHAPE = (3, 4)
FLOAT_DTYPES = [one for one in FLOATS if one[0] != "float64"]


def arrays(count, dtype="float64", shape=SHAPE):
    random = np.random.RandomState(1)
    return [rounded(random.uniform(0.1, 1, size=shape), dtype) for _ in range(count)]


def lars(w, g, decay, learning_rate=None, hyperpara=0.001, epsilon=1e-5, use_clip=False):
    w_norm, g_norm = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
    coefficient = hyperpara * w_norm / (g_norm + decay * w_norm + epsilon)
    if use_clip:
        coefficient = max(min(coefficient / learning_rate, 1), 0)
    return coefficient * (g + decay * w)


@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_lars(dtype, tolerance):
    w, g = arrays(2, dtype)
    w2, g2 = arrays(2, dtype, (7,))
    got = run_in(dtype, lambda w, w2, g, g2: npu_ops.LARS([w, w2], [g, g2], 0.01), w, w2, g, g2)
    np.testing.assert_allclose(got[0], lars(w, g, 0.01), tolerance, 1e-5 * tolerance)
    np.testing.assert_allclose(got[1], lars(w2, g2, 0.01), tolerance, 1e-5 * tolerance)


@pytest.mark.parametrize("zero", ["w", "g", "both"])
def test_lars_of_zeros_is_finite(zero):
    w, g = arrays(2)
    w, g = w * (zero == "g"), g * (zero == "w")
    got = run(lambda w, g: npu_ops.LARSV2(w, g, 0.01, 0.1), w, g)
    np.testing.assert_allclose(got, lars(w, g, 0.01), 1e-10)


@pytest.mark.parametrize("use_clip", [False, True])
@pytest.mark.parametrize(("rate", "clipped"), [(1.0, False), (1e-5, True)])
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_larsv2(rate, clipped, use_clip, dtype, tolerance):
    w, g = arrays(2, dtype)
    got = run_in(dtype, lambda w, g: npu_ops.LARSV2(w, g, 0.1, rate, 0.02, 1e-3, use_clip), w, g)
    wanted = lars(w, g, 0.1, rate, 0.02, 1e-3, use_clip)
    np.testing.assert_allclose(got, wanted, 2 * tolerance)
    if use_clip and clipped:
        np.testing.assert_allclose(wanted, g + 0.1 * w)


def test_the_gradient_of_larsv2():
    w, g = arrays(2)
    check_gradients(
        lambda w, g: npu_ops.LARSV2(w, g, 0.1, 0.5, 0.5),
        lambda w, g: lars(w, g, 0.1, hyperpara=0.5),
        np.ones(SHAPE),
        w,
        g,
    )


def test_lars_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"LARS: inputs_w and inputs_g .* got 1 and 2"):
        npu_ops.LARS([tf.ones([2])], [tf.ones([2])] * 2, 0.1)
    with pytest.raises(ValueError, match=r"LARS: inputs_g\[0\] must have the shape of inputs_w"):
        npu_ops.LARS([tf.ones([2])], [tf.ones([3])], 0.1)
    with pytest.raises(ValueError, match=r"LARSV2: weight_decay must be a scalar"):
        npu_ops.LARSV2(tf.ones([2]), tf.ones([2]), tf.ones([2]), 0.1)
    with pytest.raises(TypeError, match=r"LARSV2: input_weight must be of a floating-point"):
        npu_ops.LARSV2(tf.ones([2], tf.int32), tf.ones([2]), 0.1, 0.1)


ADAM = {"rate": 0.1, "beta1": 0.9, "rest1": 0.1, "beta2": 0.99, "rest2": 0.01, "epsilon": 1e-6}


def adam(g, v, m, w, decay=0.0):
    v = ADAM["beta2"] * v + ADAM["rest2"] * g**2
    m = ADAM["beta1"] * m + ADAM["rest1"] * g
    return v, m, w - ADAM["rate"] * (m / (np.sqrt(v) + ADAM["epsilon"]) + decay * w)


def make_adam(decay, g, v, m, w):
    scalars = [ADAM[name] for name in ("rate", "beta1", "rest1", "beta2", "rest2")]
    if decay is None:
        return npu_ops.adam_apply_one_assign(g, v, m, w, *scalars, ADAM["epsilon"])
    return npu_ops.adam_apply_one_with_decay_assign(g, v, m, w, *scalars, decay, ADAM["epsilon"])


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("decay", [None, 0.05])
@pytest.mark.parametrize(("dtype", "tolerance"), FLOAT_DTYPES)
def test_adam_updates_its_variables(decay, use_resource, dtype, tolerance):
    values = arrays(4, dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [
            tf.Variable(tf.cast(one, dtype), use_resource=use_resource) for one in values[1:]
        ]
        op = make_adam(decay, tf.cast(values[0], dtype), *variables)
        assert isinstance(op, tf.Operation)
        session.run(tf.global_variables_initializer())
        expected = values[1:]
        for _ in range(3):
            session.run(op)
            expected = [rounded(x, dtype) for x in adam(values[0], *expected, decay or 0.0)]
            got = session.run([tf.cast(one, tf.float64) for one in variables])
            for one, other in zip(got, expected):
                np.testing.assert_allclose(one, other, 3 * tolerance)


@pytest.mark.parametrize("decay", [None, 0.05])
def test_adam_eagerly(decay):
    if not tf.executing_eagerly():
        pytest.skip("this TensorFlow has eager execution off")
    values = [np.float32(one) for one in arrays(4)]
    variables = [tf.Variable(one) for one in values[1:]]
    assert make_adam(decay, tf.constant(values[0]), *variables) is None
    for one, other in zip(variables, adam(*values, decay or 0.0)):
        np.testing.assert_allclose(one.numpy(), other, 1e-5)


def test_adam_needs_variables_of_one_shape_and_dtype():
    with tf.Graph().as_default():
        g, variable = tf.ones([2]), tf.Variable(tf.ones([2]))
        with pytest.raises(TypeError, match=r"adam_apply_one_assign: input2 must be a variable"):
            make_adam(None, g, variable, g, variable)
        with pytest.raises(ValueError, match=r"input1 must have the shape of input0, \(3,\)"):
            make_adam(None, tf.ones([3]), variable, variable, variable)
        with pytest.raises(TypeError, match=r"input1 is float32 and input0 is float16"):
            make_adam(0.1, tf.ones([2], tf.float16), variable, variable, variable)
        with pytest.raises(ValueError, match=r"input4 must be a scalar, got shape \(2,\)"):
            npu_ops.adam_apply_one_assign(g, variable, variable, variable, g, *[0.1] * 5)


def lamb(g, v, m, w, steps, use, decay, epsilon=1e-6):
    v, m = 0.99 * v + 0.01 * g**2, 0.9 * m + 0.1 * g
    update = (m / (1 - 0.9**steps)) / (np.sqrt(v / (1 - 0.99**steps)) + epsilon) + use * decay * w
    return update, v, m


def make_lamb(g, v, m, w, steps, use=1.0, decay=0.05):
    return npu_vector_ops.lamb_apply_optimizer_assign(
        g, v, m, w, 0.9, 0.1, 0.99, 0.01, 1e-6, steps, use, decay
    )


@pytest.mark.parametrize(("steps", "use"), [(1, 1.0), (5, 0.0), (100, 1.0)])
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_lamb(steps, use, dtype, tolerance):
    values = arrays(4, dtype)
    got = run_in(dtype, lambda *a: make_lamb(*a, float(steps), use), *values)
    for one, other in zip(got, lamb(*values, steps, use, 0.05)):
        # 1 - 0.99^steps is computed in float32 for all but float64.
        np.testing.assert_allclose(one, other, max(tolerance, 1e-10) * 10)


def weight(w_norm, g_norm, rate, update, w):
    ratio = w_norm / g_norm if w_norm > 0 and g_norm > 0 else 1
    return w - ratio * rate * update


@pytest.mark.parametrize(("w_norm", "g_norm"), [(2.0, 4.0), (0.0, 4.0), (2.0, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_lamb_weight(w_norm, g_norm, dtype, tolerance):
    update, w = arrays(2, dtype)
    got = run_in(
        dtype,
        lambda u, w: npu_vector_ops.lamb_apply_weight_assign(w_norm, g_norm, 0.125, u, w),
        update,
        w,
    )
    np.testing.assert_allclose(got, weight(w_norm, g_norm, 0.125, update, w), 2 * tolerance)


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_step_of_lamb_updates_variables(use_resource):
    g, v0, m0, w0 = arrays(4)
    with tf.Graph().as_default(), tf.Session() as session:
        v, m, w = (tf.Variable(one, use_resource=use_resource) for one in (v0, m0, w0))
        update, next_v, next_m = make_lamb(tf.constant(g), v, m, w, 1.0)
        w_norm, g_norm = tf.norm(w), tf.norm(update)
        next_w = npu_vector_ops.lamb_apply_weight_assign(w_norm, g_norm, 0.1, update, w)
        session.run(tf.global_variables_initializer())
        returned = session.run([next_v, next_m, next_w])
        kept = session.run([v, m, w])
    expected_update, *expected = lamb(g, v0, m0, w0, 1, 1.0, 0.05)
    norms = np.sqrt((w0**2).sum()), np.sqrt((expected_update**2).sum())
    expected.append(weight(*norms, 0.1, expected_update, w0))
    for one, other, wanted in zip(returned, kept, expected):
        np.testing.assert_allclose(one, wanted, 1e-9)
        np.testing.assert_array_equal(one, other)


def test_the_gradient_of_lamb():
    values = arrays(4)
    ups = [np.ones(SHAPE), np.full(SHAPE, 0.5), np.full(SHAPE, -1.0)]
    check_gradients(lambda *a: make_lamb(*a, 3.0), lambda *a: lamb(*a, 3, 1.0, 0.05), ups, *values)


@pytest.mark.parametrize("g_norm", [0.0, 2.0])
def test_the_gradient_of_lamb_weight_is_finite(g_norm):
    update, w = arrays(2)
    check_gradients(
        lambda u, w: npu_vector_ops.lamb_apply_weight_assign(
            tf.constant(3.0, tf.float64), tf.constant(g_norm, tf.float64), 0.1, u, w
        ),
        lambda u, w: weight(3.0, g_norm, 0.1, u, w),
        np.ones(SHAPE),
        update,
        w,
    )


def test_lamb_says_what_is_wrong():
    one, other = tf.ones([2]), tf.ones([3])
    with pytest.raises(ValueError, match=r"lamb_apply_optimizer_assign: input2 must have the sh"):
        make_lamb(one, one, other, one, 1.0)
    with pytest.raises(ValueError, match=r"lamb_apply_weight_assign: input0 must be a scalar"):
        npu_vector_ops.lamb_apply_weight_assign(one, 1.0, 1.0, one, one)
    with pytest.raises(ValueError, match=r"input4 must have the shape of input3"):
        npu_vector_ops.lamb_apply_weight_assign(1.0, 1.0, 1.0, one, other)

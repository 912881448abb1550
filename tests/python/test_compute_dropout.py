"""Dropout: values, masks, seeds, gradients and the raw mask ops.

Statistics are those of fixed seeds, so they come out the same in every run of a TensorFlow.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
import tensorflow.compat.v1 as tf
from tensorflow.python.framework import ops

from npu_bridge.estimator import npu_aicore_ops, npu_ops
from npu_bridge.npu_cpu import npu_cpu_ops
from tests.compute_checks import FLOATS, gradients, rounded, run

pytestmark = pytest.mark.core

SIZE = 20000


def stateless(x, keep_prob, noise_shape=None, seed=None):
    return npu_cpu_ops.stateless_dropout(x, noise_shape, 1 - keep_prob, seed, 11)


VERSIONS = {
    "dropout": npu_ops.dropout,
    "dropout_v3": npu_aicore_ops.dropout_v3,
    "dropout_v4": npu_aicore_ops.dropout_v4,
    "dropout_v4 uint8": functools.partial(npu_aicore_ops.dropout_v4, output_dtype=tf.uint8),
    "stateless_dropout": stateless,
}
every_version = pytest.mark.parametrize("function", VERSIONS.values(), ids=VERSIONS.keys())
stateful_version = pytest.mark.parametrize(
    "function", list(VERSIONS.values())[:4], ids=list(VERSIONS)[:4]
)


def in_graph(make, graph_seed=None):
    with tf.Graph().as_default(), tf.Session() as session:
        if graph_seed is not None:
            tf.set_random_seed(graph_seed)
        return session.run(make())


@every_version
@pytest.mark.parametrize("keep_prob", [0.1, 0.5, 0.9, 0.999])
def test_kept_elements_are_scaled_and_as_many_as_asked(function, keep_prob):
    x = np.linspace(1, 2, SIZE)
    y = in_graph(lambda: function(tf.constant(x), keep_prob, seed=5), graph_seed=3)
    kept = y != 0
    np.testing.assert_allclose(y[kept], x[kept] / keep_prob, 1e-12)
    # Six standard deviations of a binomial distribution.
    bound = 6 * np.sqrt(keep_prob * (1 - keep_prob) / SIZE)
    assert abs(kept.mean() - keep_prob) < bound
    # Neighbours are independent: so is how often both are kept.
    both = (kept[1:] & kept[:-1]).mean()
    assert abs(both - keep_prob**2) < 3 * bound


@every_version
@pytest.mark.parametrize(("dtype", "tolerance"), FLOATS)
def test_dtypes(function, dtype, tolerance):
    x = rounded(np.linspace(1, 2, 1000), dtype)
    with tf.Graph().as_default(), tf.Session() as session:
        y = function(tf.cast(x, dtype), 0.75, seed=5)
        assert y.dtype == dtype
        assert y.shape.as_list() == [1000]
        y = session.run(tf.cast(y, tf.float64))
    kept = y != 0
    assert 600 < kept.sum() < 900
    np.testing.assert_allclose(y[kept], x[kept] / 0.75, tolerance)


@every_version
@pytest.mark.parametrize("noise_shape", [(40, 1, 6), (40, 5, 1), (1, 5, 6), (5, 1), [40, None, 1]])
def test_noise_shape(function, noise_shape):
    shape = (40, 5, 6)
    y = in_graph(lambda: function(tf.ones(shape), 0.5, noise_shape=noise_shape, seed=2))
    full = [5 if one is None else one for one in noise_shape]
    full = [1] * (3 - len(full)) + full
    shared = tuple(axis for axis, size in enumerate(full) if size == 1)
    assert set(np.unique(y)) == {0, 2}
    for axis in shared:
        np.testing.assert_array_equal(y, np.broadcast_to(np.take(y, [0], axis), shape))
    one_each = y[tuple(slice(0, 1) if axis in shared else slice(None) for axis in range(3))]
    assert 0 < one_each.mean() < 2


@stateful_version
def test_noise_shape_may_be_a_tensor(function):
    def make():
        shape = tf.placeholder_with_default(np.array([4, 1], np.int32), [2])
        return function(tf.ones([4, 1000]), 0.5, noise_shape=shape, seed=2)

    y = in_graph(make)
    assert (y == y[:, :1]).all()


@stateful_version
def test_keep_prob_may_be_a_tensor(function):
    def make():
        return function(tf.ones([SIZE]), tf.placeholder_with_default(0.25, []), seed=2)

    y = in_graph(make)
    assert set(np.unique(y)) == {0, 4}
    assert abs((y != 0).mean() - 0.25) < 0.02


@stateful_version
@pytest.mark.parametrize("one", [1.0, 1])
def test_with_keep_prob_one_the_input_comes_back(function, one):
    with tf.Graph().as_default():
        x = tf.ones([3])
        assert function(x, one) is x


@stateful_version
def test_seeds(function):
    def make(seed):
        return lambda: [function(tf.ones([500]), 0.5, seed=seed) for _ in range(2)]

    first, second = in_graph(make(7), graph_seed=1)
    again, _ = in_graph(make(7), graph_seed=1)
    np.testing.assert_array_equal(first, second)  # equal op seeds in a graph
    np.testing.assert_array_equal(first, again)
    assert (first != in_graph(make(8), graph_seed=1)[0]).any()
    assert (first != in_graph(make(7), graph_seed=2)[0]).any()
    # With the graph's seed only, each op has a seed of its own.
    first, second = in_graph(make(None), graph_seed=1)
    again, _ = in_graph(make(None), graph_seed=1)
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)


@stateful_version
def test_an_op_seed_alone_goes_with_the_default_graph_seed(function):
    assert npu_ops.DEFAULT_GRAPH_SEED == npu_aicore_ops.DEFAULT_GRAPH_SEED == 87654321

    def make():
        return function(tf.ones([500]), 0.5, seed=7)

    np.testing.assert_array_equal(
        in_graph(make), in_graph(make, graph_seed=npu_ops.DEFAULT_GRAPH_SEED)
    )


@stateful_version
def test_without_seeds_masks_differ(function):
    def make():
        return function(tf.ones([500]), 0.5)

    # Equal by chance once in 2^500.
    assert (in_graph(make) != in_graph(make)).any()


@stateful_version
def test_each_run_has_another_mask(function):
    with tf.Graph().as_default(), tf.Session() as session:
        y = function(tf.ones([500]), 0.5, seed=7)
        assert (session.run(y) != session.run(y)).any()


def test_a_stateless_mask_depends_on_its_arguments_only():
    def masks(seed, offset):
        return run(
            lambda x: npu_cpu_ops.stateless_dropout(x, None, 0.5, seed, offset), np.ones(500)
        )

    np.testing.assert_array_equal(masks(1, 2), masks(1, 2))
    assert (masks(1, 2) != masks(1, 3)).any()
    assert (masks(1, 2) != masks(2, 2)).any()
    # p is the probability of 0: with p = 0 nothing is.
    np.testing.assert_array_equal(
        run(lambda x: npu_cpu_ops.stateless_dropout(x, None, 0, 1, 2), np.ones(500)), np.ones(500)
    )


@every_version
def test_the_gradient_uses_the_mask_of_the_forward_pass(function):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(np.linspace(1, 2, 1000))
        y = function(x, 0.6, seed=1)
        dy = tf.constant(np.linspace(-1, 3, 1000))
        y, dx, dy = session.run([y, tf.gradients(y, x, dy)[0], dy])
    np.testing.assert_allclose(dx, np.where(y != 0, dy / 0.6, 0), 1e-12)


@stateful_version
def test_the_gradient_through_a_shared_mask(function):
    dx = gradients(
        lambda x: function(x, 0.5, noise_shape=[6, 1], seed=1), np.ones((6, 4)), np.ones((6, 4))
    )[0]
    assert dx.shape == (6, 4)
    assert set(np.unique(dx)) == {0, 2}


@every_version
def test_what_is_dropped_is_zero_even_if_it_was_not_finite(function):
    y = in_graph(lambda: function(tf.fill([200], np.inf), 0.5, seed=1))
    assert set(np.unique(y)) == {0, np.inf}


@stateful_version
def test_eagerly(function):
    if not tf.executing_eagerly():
        pytest.skip("this TensorFlow has eager execution off")
    y = function(tf.ones([1000]), 0.5, seed=1).numpy()
    assert set(np.unique(y)) == {0, 2}
    with tf.GradientTape() as tape:
        x = tf.ones([1000])
        tape.watch(x)
        y = function(x, 0.5, seed=1)
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), y.numpy())


@stateful_version
@pytest.mark.parametrize("keep_prob", [0, -0.5, 1.5, 0.0])
def test_a_probability_that_is_none(function, keep_prob):
    with pytest.raises(ValueError, match=r"dropout.*keep_prob .* \(0, 1\], got"):
        function(tf.ones([3]), keep_prob)


def test_other_bad_arguments():
    with pytest.raises(ValueError, match=r"npu_ops.dropout: x must be a floating-point.*int32"):
        npu_ops.dropout(tf.constant([1]), 0.5)
    with pytest.raises(ValueError, match=r"noise_shape \[2, 3\] must broadcast .* \(4, 3\)"):
        npu_ops.dropout(tf.ones([4, 3]), 0.5, noise_shape=[2, 3])
    with pytest.raises(ValueError, match=r"noise_shape \[2, 4, 3\] must broadcast"):
        npu_ops.dropout(tf.ones([4, 3]), 0.5, noise_shape=[2, 4, 3])
    with pytest.raises(ValueError, match=r"has a None.*which is 2"):
        npu_ops.dropout(tf.ones([4, 3]), 0.5, noise_shape=[None])
    with pytest.raises(ValueError, match=r"keep_prob must be a scalar, got shape \(2,\)"):
        npu_ops.dropout(tf.ones([4, 3]), tf.constant([0.5, 0.5]))
    with pytest.raises(ValueError, match=r"dtype must be tf.bool or tf.uint8, got int32"):
        npu_aicore_ops.dropout_v4(tf.ones([3]), 0.5, output_dtype=tf.int32)
    with pytest.raises(ValueError, match=r"stateless_dropout: p must .* \[0, 1\), got 1"):
        npu_cpu_ops.stateless_dropout(tf.ones([3]), None, 1, 1, 1)


RAW = npu_ops.gen_npu_ops


@pytest.mark.parametrize("count", [1, 128, 1000])
def test_a_packed_mask(count):
    def make():
        mask = RAW.drop_out_gen_mask([count], 0.5, seed=1, seed2=2)
        return mask, RAW.drop_out_do_mask(tf.range(1.0, count + 1), mask, 0.5)

    mask, y = in_graph(make)
    assert mask.dtype == np.uint8
    assert mask.shape == (-(-count // 128) * 16,)
    bits = np.unpackbits(mask.reshape(-1, 1), axis=1)[:, ::-1].ravel()
    assert not bits[count:].any()
    np.testing.assert_array_equal(y, np.where(bits[:count] == 1, np.arange(1.0, count + 1) * 2, 0))
    assert count < 1000 or 400 < bits.sum() < 600


@pytest.mark.parametrize(
    ("shape", "mask_shape"),
    [((3, 5), (16,)), ((32, 16), (1, 2, 16, 16)), ((2, 16, 48), (2, 3, 1, 16, 16)), ((16,), (16,))],
)
def test_a_mask_of_version_3(shape, mask_shape):
    def make():
        mask = RAW.drop_out_gen_mask_v3(list(shape), 0.5, seed=1, seed2=2)
        return mask, RAW.drop_out_do_mask_v3(tf.ones(shape), mask, 0.5)

    mask, y = in_graph(make)
    assert mask.shape == mask_shape
    if len(mask_shape) == 1:
        kept = mask[: np.prod(shape)].reshape(shape)
    else:
        kept = np.empty(shape, np.uint8)
        for place in np.ndindex(*shape):
            *first, row, column = place
            kept[place] = mask[(*first, column // 16, row // 16, row % 16, column % 16)]
    np.testing.assert_array_equal(y, 2 * kept)
    assert 0 < kept.mean() < 1


@pytest.mark.parametrize("dtype", [tf.bool, tf.uint8])
def test_a_mask_of_version_4(dtype):
    def make():
        mask = RAW.drop_out_gen_mask_v4([4, 300], 0.5, seed=1, seed2=2, dtype=dtype)
        return mask, RAW.drop_out_do_mask_v3(tf.ones([4, 300]), mask, 0.5)

    mask, y = in_graph(make)
    assert mask.dtype == dtype.as_numpy_dtype
    np.testing.assert_array_equal(y, 2.0 * mask)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="was not made for x"):
        RAW.drop_out_do_mask_v3(tf.ones([4, 300]), tf.zeros([300, 4], tf.uint8), 0.5)


@pytest.mark.parametrize(
    "op_type", ["DropOutDoMask", "DropOutDoMaskV3", "FastGelu", "PRelu", "DynamicRnn", "Gelu"]
)
def test_scripts_may_register_gradients_themselves(op_type):
    # As the published package does; a second registration would raise.
    registry = getattr(ops, "gradient_registry", None) or ops._gradient_registry
    with pytest.raises(LookupError):
        registry.lookup(op_type)

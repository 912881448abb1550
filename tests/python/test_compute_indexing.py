"""nonzero and its variants, scatter_elements, random choices and k-means, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_aicore_ops, npu_ops
from npu_bridge.experimental.get_shape import getshape
from npu_bridge.npu_cpu import npu_cpu_ops
from tests.compute_checks import check_gradients, run

pytestmark = pytest.mark.core

DTYPES = (
    "bool uint8 int8 int16 int32 int64 float16 float32 float64".split()
)  # of a numpy array and of a tensor
X = np.array([[0, 3, 0], [1, 0, 0], [0, 0, 2]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("output_type", [tf.int32, tf.int64])
def test_nonzero(dtype, transpose, output_type):
    got = run(lambda x: npu_aicore_ops.nonzero(x, transpose, output_type), X.astype(dtype))
    wanted = np.argwhere(X)
    assert got.dtype == output_type.as_numpy_dtype
    np.testing.assert_array_equal(got, wanted.T if transpose else wanted)


@pytest.mark.parametrize("shape", [(4,), (2, 3, 4), (2, 0)])
def test_nonzero_of_any_rank(shape):
    x = np.random.RandomState(1).randint(0, 2, shape)
    got = run(npu_aicore_ops.nonzero, x)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, np.argwhere(x))


def test_what_counts_as_zero():
    x = np.array([0.0, -0.0, np.nan, np.inf, 1e-30])
    np.testing.assert_array_equal(run(npu_aicore_ops.nonzero, x).ravel(), [2, 3, 4])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("transpose", [False, True])
def test_nonzerowithvalue(dtype, transpose):
    x = X.astype(dtype)
    value, index, count = run(lambda x: npu_aicore_ops.nonzerowithvalue(x, transpose), x)
    places = np.argwhere(x)
    assert (value.dtype, index.dtype, count.dtype) == (x.dtype, np.int64, np.int64)
    np.testing.assert_array_equal(count, [3])
    np.testing.assert_array_equal(value, [*x[x != 0], *[0] * 6])
    padded = np.concatenate([places, np.zeros((6, 2), int)])
    np.testing.assert_array_equal(index, (padded.T if transpose else padded).ravel())


@pytest.mark.parametrize(
    "cut", [npu_cpu_ops.non_zero_with_value_shape, npu_cpu_ops.non_zero_with_value_shape_v2]
)
def test_cutting_nonzerowithvalue_to_what_there_is(cut):
    value, index = run(
        lambda x: cut(*npu_aicore_ops.nonzerowithvalue(x, True, tf.int32)), X.astype(np.float32)
    )
    np.testing.assert_array_equal(value, [3, 1, 2])
    np.testing.assert_array_equal(index, [0, 1, 2, 1, 0, 2])
    assert index.dtype == np.int32


def test_the_values_of_nonzerowithvalue_have_gradients():
    x = np.array([[0.5, 0.0], [0.0, 2.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        t = tf.constant(x)
        value = npu_aicore_ops.nonzerowithvalue(t).value
        got = session.run(tf.gradients(value, t, tf.constant([5.0, 6.0, 7.0, 8.0], tf.float64))[0])
    np.testing.assert_array_equal(got, [[5, 0], [0, 6]])


def test_nonzero_says_what_is_wrong():
    with pytest.raises(ValueError, match=r"nonzero: output_type must .* got float32"):
        npu_aicore_ops.nonzero(tf.ones([2]), output_type=tf.float32)
    with pytest.raises(ValueError, match=r"nonzerowithvalue: x must have 2 dimensions .*\(2,\)"):
        npu_aicore_ops.nonzerowithvalue(tf.ones([2]))


def scatter(data, indices, updates, axis):
    result = np.array(data)
    for place in np.ndindex(*indices.shape):
        to = list(place)
        to[axis] = indices[place]
        result[tuple(to)] = updates[place]
    return result


SCATTERS = [
    ((5,), (2,), 0),
    ((3, 4), (2, 4), 0),
    ((3, 4), (3, 2), 1),
    ((3, 4), (2, 3), -1),
    ((2, 3, 4), (1, 2, 4), 1),
    ((3, 4), (0, 4), 0),
]


@pytest.mark.parametrize(("shape", "part", "axis"), SCATTERS)
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
def test_scatter_elements(shape, part, axis, index_dtype):
    random = np.random.RandomState(1)
    data, updates = random.normal(size=shape), random.normal(size=part)
    # Without two equal ones along the axis: which of them stands is open.
    order = np.argsort(random.normal(size=[*part[:-1], part[-1]] if axis else part), axis)
    indices = (order % shape[axis]).astype(index_dtype)
    got = run(lambda d, i, u: npu_ops.scatter_elements(d, i, u, axis), data, indices, updates)
    np.testing.assert_array_equal(got, scatter(data, indices, updates, axis))


@pytest.mark.parametrize("dtype", [one for one in DTYPES if one not in ("bool",)])
def test_scatter_elements_of_any_number(dtype):
    data, updates = np.zeros((3, 2), dtype), np.array([[1, 2]], dtype)
    got = run(lambda d, u: npu_ops.scatter_elements(d, [[-1, 0]], u), data, updates)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, [[0, 2], [0, 0], [1, 0]])


def test_the_gradients_of_scatter_elements():
    random = np.random.RandomState(1)
    data, updates, dy = random.normal(size=(3, 4)), random.normal(size=(2, 4)), np.arange(12.0)
    indices = np.array([[0, 1, 2, 0], [1, 2, 0, 2]])
    check_gradients(
        lambda d, u: npu_ops.scatter_elements(d, indices, u),
        lambda d, u: scatter(d, indices, u, 0),
        dy.reshape(3, 4),
        data,
        updates,
    )


def test_scatter_elements_says_what_is_wrong():
    data, ones = tf.zeros([3, 4]), tf.ones([2, 4])
    indices = tf.zeros([2, 4], tf.int32)
    with pytest.raises(ValueError, match=r"axis must be from -2 to 1, got 2"):
        npu_ops.scatter_elements(data, indices, ones, axis=2)
    with pytest.raises(ValueError, match=r"updates must have the shape of indices, \(2, 4\)"):
        npu_ops.scatter_elements(data, indices, ones[:, :3])
    with pytest.raises(TypeError, match=r"indices must be int32 or int64, not float32"):
        npu_ops.scatter_elements(data, ones, ones)
    with pytest.raises(TypeError, match=r"updates must be a tensor of float32"):
        npu_ops.scatter_elements(data, indices, tf.ones([2, 4], tf.float64))
    with tf.Graph().as_default(), tf.Session() as session:
        y = npu_ops.scatter_elements(tf.zeros([3]), [3], [1.0])
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(y)


MASK = np.array([[True, False, True], [True, True, False]])
PLACES = {(0, 0), (0, 2), (1, 0), (1, 1)}


def stateful(x, count, seed, seed2):
    return npu_cpu_ops.randomchoicewithmask(x, count, seed, seed2)


CHOICES = [stateful, npu_cpu_ops.stateless_random_choice_with_mask]


@pytest.mark.parametrize("function", CHOICES)
@pytest.mark.parametrize("count", [0, 1, 3, 4, 6])
def test_random_choice(function, count):
    with tf.Graph().as_default(), tf.Session() as session:
        y, mask = session.run(function(tf.constant(MASK), count, 5, 6))
    size, found = count or 4, min(count or 4, 4)
    assert (y.shape, mask.shape, y.dtype, mask.dtype) == ((size, 2), (size,), np.int32, bool)
    np.testing.assert_array_equal(mask, [True] * found + [False] * (size - found))
    chosen = [tuple(place) for place in y[:found]]
    assert len(set(chosen)) == found
    assert set(chosen) <= PLACES
    assert not y[found:].any()


@pytest.mark.parametrize("function", CHOICES)
def test_random_choices_follow_their_seeds(function):
    def choose(*seeds):
        with tf.Graph().as_default(), tf.Session() as session:
            return session.run(function(tf.ones([50], tf.bool), 20, *seeds)[0]).tolist()

    assert choose(1, 2) == choose(1, 2)
    assert choose(1, 2) != choose(1, 3)
    assert choose(1, 2) != choose(3, 2)


def test_random_choices_are_uniform():
    # Each of 10 is the first of 2000 with a fixed seed: 200 expected, 6 standard deviations are 81.
    with tf.Graph().as_default(), tf.Session() as session:
        first = npu_cpu_ops.randomchoicewithmask(tf.ones([10], tf.bool), 1, 1, 2).y[0, 0]
        counts = np.bincount([session.run(first) for _ in range(2000)], minlength=10)
    assert (abs(counts - 200) < 81).all()


def test_random_choice_says_what_is_wrong():
    mask = tf.ones([2], tf.bool)
    with pytest.raises(TypeError, match=r"randomchoicewithmask: x must be bool, not float32"):
        npu_cpu_ops.randomchoicewithmask(tf.ones([2]), 1)
    with pytest.raises(ValueError, match=r"randomchoicewithmask: count must be at least 0, got -1"):
        npu_cpu_ops.randomchoicewithmask(mask, -1)
    with pytest.raises(TypeError, match=r"count must be an integer, got 1.5"):
        npu_cpu_ops.randomchoicewithmask(mask, 1.5)
    with pytest.raises(ValueError, match=r"x must have 1 to 5 dimensions, got 6"):
        npu_cpu_ops.randomchoicewithmask(tf.ones([1] * 6, tf.bool), 1)


def k_means(x, y, actual):
    distances = (y**2).sum(1)[None] - 2 * x @ y.T + (x**2).sum(1)[:, None] * actual
    nearest = distances.argmin(1)
    sums, counts = np.zeros_like(y), np.zeros((len(y), 1))
    for row, center in zip(x, nearest):
        sums[center] += row
        counts[center] += 1
    return sums, counts, distances.min(1).sum(keepdims=True)


@pytest.mark.parametrize("actual", [False, True])
def test_k_means_centroids(actual):
    random = np.random.RandomState(1)
    x, y = (random.normal(size=size).astype(np.float32) for size in ((40, 3), (5, 3)))
    squares_y = (y**2).sum(1, keepdims=True).T
    squares_x = (x**2).sum(1, keepdims=True)
    got = run(
        lambda x, y, a, b: npu_ops.k_means_centroids(x, y, a, b if actual else None),
        x,
        y,
        squares_y,
        squares_x,
    )
    for one, other in zip(got, k_means(x, y, actual)):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, 1e-4, 1e-4)


def test_a_center_without_points_and_two_equal_centers():
    x, y = np.ones((3, 2), np.float32), np.array([[9, 9], [1, 1], [1, 1]], np.float32)
    sums, counts, total = run(
        lambda x, y: npu_ops.k_means_centroids(
            x, y, tf.reduce_sum(y * y, 1)[None], tf.reduce_sum(x * x, 1)[:, None]
        ),
        x,
        y,
    )
    np.testing.assert_array_equal(counts, [[0], [3], [0]])
    np.testing.assert_array_equal(sums, [[0, 0], [3, 3], [0, 0]])
    np.testing.assert_array_equal(total, [0])


def test_k_means_says_what_is_wrong():
    x, y = tf.ones([4, 2]), tf.ones([3, 2])
    with pytest.raises(ValueError, match=r"sum_square_y must have one element for .* y, 3, got"):
        npu_ops.k_means_centroids(x, y, tf.ones([1, 4]), None)
    with pytest.raises(ValueError, match=r"dimension 1 of y must be 2, got shape \(3, 5\)"):
        npu_ops.k_means_centroids(x, tf.ones([3, 5]), tf.ones([1, 3]), None)
    with pytest.raises(TypeError, match=r"x must be a tensor of float32"):
        npu_ops.k_means_centroids(tf.cast(x, tf.float64), y, tf.ones([1, 3]), None)


def test_getshape():
    assert run(getshape, np.zeros((2, 3, 0), np.float32)).tolist() == [2, 3, 0]
    both = run(lambda x, y: npu_ops.gen_npu_ops.get_shape([x, y]), np.zeros((2, 3)), np.zeros(4))
    assert both.tolist() == [2, 3, 4]

"""A step of k-means clustering."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional

import tensorflow.compat.v1 as tf

from npu_device._core.compute.arguments import dimension, floating, rank


class KMeansCentroids(NamedTuple):
    """What k_means_centroids returns."""

    segment_sum: tf.Tensor
    segment_count: tf.Tensor
    kmean_total_sum: tf.Tensor


def k_means_centroids(
    x: Any,
    y: Any,
    sum_square_y: Any,
    sum_square_x: Any,
    use_actual_distance: bool = False,
    name: Optional[str] = None,
) -> KMeansCentroids:
    """Assigns points to their nearest centers and adds up what is assigned to each.

    The squared distance of a point and a center is |x|^2 - 2 x y + |y|^2. |x|^2 does not change
    which center is nearest, so it counts only if it is given. Of centers that are equally near, the
    first gets the point. The mean of a cluster is its sum divided by its count.

    Args:
        x: the points, [m, d], float32.
        y: the centers, [n, d], float32.
        sum_square_y: |y|^2 of each center, [1, n].
        sum_square_x: |x|^2 of each point, [m, 1], or None.
        use_actual_distance: is decided by whether sum_square_x is there, as on the NPU.
        name: a name for the results.

    Returns:
        (segment_sum [n, d], segment_count [n, 1], kmean_total_sum [1]): the sum of each center's
        points, their number, and the sum of all points' distances to their centers.

    Raises:
        TypeError: something is not float32.
        ValueError: shapes do not belong together.

    Source of the contract: CANN TF Adapter API, npu_ops.k_means_centroids.
    """
    del use_actual_distance
    op = "k_means_centroids"
    x, y = floating(op, "x", x, tf.float32), floating(op, "y", y, tf.float32)
    rank(op, "x", x, 2, "[points, features]")
    rank(op, "y", y, 2, "[centers, features]")
    dimension(op, "y", y, 1, x.shape.as_list()[1])
    squares_y = floating(op, "sum_square_y", sum_square_y, tf.float32)
    _count(op, "sum_square_y", squares_y, "y", y)
    with tf.name_scope(name, op, [x, y]):
        distances = tf.reshape(squares_y, [1, -1]) - 2.0 * tf.matmul(x, y, transpose_b=True)
        if sum_square_x is not None:
            squares_x = floating(op, "sum_square_x", sum_square_x, tf.float32)
            _count(op, "sum_square_x", squares_x, "x", x)
            distances += tf.reshape(squares_x, [-1, 1])
        nearest = tf.argmin(distances, axis=1, output_type=tf.int32)
        centers = tf.shape(y)[0]
        sums = tf.math.unsorted_segment_sum(x, nearest, centers)
        counts = tf.math.unsorted_segment_sum(tf.ones_like(x[:, :1]), nearest, centers)
        total = tf.reshape(tf.reduce_sum(tf.reduce_min(distances, axis=1)), [1])
        return KMeansCentroids(sums, counts, total)


def k_means_centroids_v2(
    x: Any,
    y: Any,
    sum_square_y: Any,
    use_actual_distance: bool = False,
    name: Optional[str] = None,
) -> KMeansCentroids:
    """`k_means_centroids` without sum_square_x.

    Args:
        x: the points.
        y: the centers.
        sum_square_y: |y|^2 of each center.
        use_actual_distance: changes nothing without |x|^2.
        name: a name for the results.

    Returns:
        See `k_means_centroids`.

    Raises:
        TypeError: something is not float32.
        ValueError: shapes do not belong together.

    Source of the contract: CANN TF Adapter API, op KMeansCentroidsV2.
    """
    return k_means_centroids(x, y, sum_square_y, None, use_actual_distance, name)


def _count(op: str, what: str, squares: tf.Tensor, other_name: str, other: tf.Tensor) -> None:
    found, wanted = squares.shape.num_elements(), other.shape.as_list()[0]
    if found is not None and wanted is not None and found != wanted:
        raise ValueError(
            f"{op}: {what} must have one element for each row of {other_name}, {wanted}, "
            f"got shape {tuple(squares.shape.as_list())}"
        )

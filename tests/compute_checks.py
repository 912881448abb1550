"""Runs computing ops in graphs and eagerly, and compares them with references and differences."""

from __future__ import annotations

import numpy as np
import tensorflow.compat.v1 as tf

#: (name, relative and absolute tolerance) of the dtypes that ops are tried in.
FLOATS = (("float16", 2e-3), ("float32", 1e-5), ("float64", 1e-11), ("bfloat16", 2e-2))


def rounded(array, dtype):
    """Returns float64 values that a dtype holds exactly."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
        # Round to nearest, ties to even, as TensorFlow's cast does.
        bits = bits + 0x7FFF + ((bits >> 16) & 1)
        return (bits & np.uint32(0xFFFF0000)).astype(np.uint32).view(np.float32).astype(np.float64)
    return np.asarray(array, dtype).astype(np.float64)


def run(function, *arrays, tolerance=1e-5):
    """Returns what a function of tensors gives in a graph, having compared it with eager mode."""
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(one.dtype, one.shape) for one in map(np.asarray, arrays)]
        outputs = function(*inputs)
        session.run(tf.global_variables_initializer())
        values = session.run(outputs, dict(zip(inputs, arrays)))
    if tf.executing_eagerly():
        flat = [values] if isinstance(outputs, tf.Tensor) else list(values)
        eager = function(*[tf.constant(one) for one in arrays])
        eager = [eager] if isinstance(outputs, tf.Tensor) else list(eager)
        assert len(eager) == len(flat)
        for one, other in zip(flat, eager):
            np.testing.assert_allclose(
                np.asarray(one, np.float64),
                np.asarray(other.numpy(), np.float64),
                tolerance,
                tolerance,
            )
    return values


def run_in(dtype, function, *arrays):
    """Like `run`, with floating-point inputs and outputs cast inside; returns float64 values."""

    def cast(*inputs):
        outputs = function(
            *[tf.cast(one, dtype) if one.dtype.is_floating else one for one in inputs]
        )
        single = isinstance(outputs, tf.Tensor)
        outputs = [outputs] if single else list(outputs)
        for one in outputs:
            assert not one.dtype.is_floating or one.dtype.base_dtype == dtype
        outputs = [tf.cast(one, tf.float64) for one in outputs]
        return outputs[0] if single else outputs

    return run(cast, *arrays, tolerance=dict(FLOATS)[dtype])


def gradients(function, upstream, *arrays):
    """Returns the gradients of sum(function(*arrays) * upstream); for several outputs, lists."""

    def gradient(*inputs):
        outputs = function(*inputs)
        outputs = [outputs] if isinstance(outputs, tf.Tensor) else list(outputs)
        ups = upstream if isinstance(upstream, (list, tuple)) else [upstream]
        return tf.gradients(
            outputs[: len(ups)],
            list(inputs),
            grad_ys=[tf.constant(one, y.dtype) for one, y in zip(ups, outputs)],
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )

    with tf.Graph().as_default(), tf.Session() as session:
        inputs = [tf.placeholder(one.dtype, one.shape) for one in arrays]
        values = gradient(*inputs)
        session.run(tf.global_variables_initializer())
        return session.run(values, dict(zip(inputs, arrays)))


def differences(reference, upstream, *arrays, step=1e-5):
    """Returns the same from central differences of a NumPy reference, in float64."""
    ups = upstream if isinstance(upstream, (list, tuple)) else [upstream]

    def loss():
        outputs = reference(*arrays)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return sum(float(np.sum(y * dy)) for y, dy in zip(outputs, ups))

    found = []
    for array in arrays:
        assert array.dtype == np.float64
        slope = np.empty_like(array)
        for place in np.ndindex(*array.shape):
            kept = array[place]
            array[place] = kept + step
            above = loss()
            array[place] = kept - step
            below = loss()
            array[place] = kept
            slope[place] = (above - below) / (2 * step)
        found.append(slope)
    return found


def check_gradients(function, reference, upstream, *arrays):
    """Compares TensorFlow's gradients with central differences of the reference."""
    arrays = [np.array(one, np.float64) for one in arrays]
    for got, wanted in zip(
        gradients(function, upstream, *arrays), differences(reference, upstream, *arrays)
    ):
        np.testing.assert_allclose(got, wanted, 1e-6, 1e-7)


def tf_variable(variable):
    """Returns TensorFlow's variable of a variable of Keras 3, and others as they are."""
    return (
        getattr(variable, "_value", variable) if "keras" in type(variable).__module__ else variable
    )


class Op:
    """Stands for an op that TensorFlow would pass to a gradient function."""

    def __init__(self, inputs, **attributes):
        self.inputs = inputs
        self._attributes = attributes

    def get_attr(self, name):
        return self._attributes[name]

"""Small Keras models on scikit-learn's data, trained alone or by ranks; run on ranks.

A way to train is a function from (model, optimizer, batches) to nothing. `batches` are the rows of
some ranks joined: of all of them for one process, of one for a rank. Rows are dealt so that the
batch of N ranks is that of one process.
"""

from __future__ import annotations

import hashlib

import numpy as np
import tensorflow as tf
from sklearn import datasets

import npu_device as npu
from hccl.manage.api import get_rank_id, get_rank_size

keras = tf.keras
KERAS_3 = not hasattr(keras.optimizers.Optimizer, "minimize")
BATCH = 24  # of all ranks together
STEPS = 4


class Data:
    """Rows for a model, and what makes it."""

    def __init__(self, x, y, make_model, loss):
        self.x, self.y = x[: BATCH * STEPS], y[: BATCH * STEPS]
        self.make_model = make_model
        self.loss = loss

    def batches(self, ranks, size, steps=STEPS):
        """Returns (x, y) of each step, for some of `size` ranks."""
        found = []
        for step in range(steps):
            rows = np.arange(step * BATCH, (step + 1) * BATCH).reshape(size, -1)[list(ranks)]
            found.append((self.x[rows.ravel()], self.y[rows.ravel()]))
        return found


def dense():
    images, labels = datasets.load_digits(return_X_y=True)

    def make(normalize):
        del normalize
        layers = [keras.layers.Dense(16, activation="tanh"), keras.layers.Dense(10)]
        return keras.Sequential([keras.Input([64]), *layers])

    return Data((images / 16).astype(np.float32), labels.astype(np.int64), make, cross_entropy())


def convolution():
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 8, 8, 1)

    def make(normalize):
        layers = [
            # No bias: normalization takes it away, and its gradient is nothing but rounding.
            keras.layers.Conv2D(4, 3, use_bias=False),
            normalize(),
            keras.layers.Activation("tanh"),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
        return keras.Sequential([keras.Input([8, 8, 1]), *layers])

    return Data(images, labels.astype(np.int64), make, cross_entropy())


def embedding():
    measured, labels = datasets.load_iris(return_X_y=True)
    # Lengths in tenths of a centimetre are the ids. Shuffled: they are sorted by label.
    order = np.random.RandomState(0).permutation(len(labels))
    ids = np.round(measured * 10).astype(np.int32)[order]

    def make(normalize):
        del normalize
        layers = [keras.layers.Embedding(80, 4), keras.layers.Flatten(), keras.layers.Dense(3)]
        return keras.Sequential([keras.Input([4], dtype="int32"), *layers])

    return Data(ids, labels[order].astype(np.int64), make, cross_entropy())


DATA = {"dense": dense, "convolution": convolution, "embedding": embedding}


def cross_entropy():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def plain_normalization():
    # The fused kernel of Keras 2 keeps another moving variance (with Bessel's correction).
    return keras.layers.BatchNormalization(**({} if KERAS_3 else {"fused": False}))


def started(data, seed=0, normalize=plain_normalization):
    """Makes a model with weights that depend on the seed alone."""
    model = data.make_model(normalize)
    start = np.random.RandomState(seed)
    model.set_weights([start.uniform(0.1, 0.5, w.shape) for w in model.get_weights()])
    return model


def fit(model, optimizer, data, batches, callbacks=(), epochs=1, **compile_options):
    model.compile(optimizer, data.loss, **compile_options)
    x, y = (np.concatenate(parts) for parts in zip(*batches))
    return model.fit(
        x,
        y,
        batch_size=len(batches[0][0]),
        epochs=epochs,
        shuffle=False,
        verbose=0,
        callbacks=list(callbacks),
    )


def loop(model, optimizer, data, batches, dense=False):
    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = data.loss(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        if dense:
            gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))

    for x, y in batches:
        step(tf.constant(x), tf.constant(y))


def accumulate(model, optimizer, data, batches):
    """Adds up the gradients of two batches before it applies them."""
    variables = model.trainable_variables

    @tf.function
    def gradients_of(x, y):
        with tf.GradientTape() as tape:
            loss = data.loss(y, model(x, training=True)) / 2
        return [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)]

    @tf.function
    def apply(gradients):
        optimizer.apply_gradients(zip(gradients, variables))

    for number in range(0, len(batches), 2):
        first, second = (gradients_of(*map(tf.constant, batches[number + i])) for i in (0, 1))
        apply([one + other for one, other in zip(first, second)])


WAYS = {"fit": fit, "loop": loop, "accumulate": accumulate}


def weights(model):
    return [np.array(w) for w in model.get_weights()]


def digest(arrays):
    return hashlib.sha1(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()


def ranks():
    """Returns this rank and their number; the device is open."""
    npu.open().as_default()
    return get_rank_id(), get_rank_size()


def expect_close(found, expected, rtol=5e-5, atol=5e-6, what=""):
    """Tolerances of sums in float32 that are made in another order, over a few steps."""
    assert len(found) == len(expected)
    for index, (one, other) in enumerate(zip(found, expected)):
        np.testing.assert_allclose(one, other, rtol, atol, err_msg=f"{what} array {index}")

"""Loss scale managers: the factor goes up and down as documented."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu.npu_loss_scale_manager import (
    ExponentialUpdateLossScaleManager,
    FixedLossScaleManager,
)
from npu_bridge.estimator.npu.npu_loss_scale_optimizer import NPULossScaleOptimizer
from npu_bridge.estimator.npu.npu_optimizer import NPUDistributedOptimizer, NPUOptimizer

pytestmark = pytest.mark.core


def factors(steps, **settings):
    """Returns the factor after each step, with ref and with resource variables."""
    results = []
    for resource in (False, True):
        with tf.Graph().as_default(), tf.variable_scope("", use_resource=resource):
            manager = ExponentialUpdateLossScaleManager(**settings)
            finite = tf.placeholder(tf.bool, [])
            update = manager.update_loss_scale(finite)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                seen = []
                for step in steps:
                    session.run(update, {finite: step})
                    seen.append(float(session.run(manager.get_loss_scale())))
        results.append(seen)
    assert results[0] == results[1]
    return results[0]


def reference(steps, init_loss_scale, incr_every_n_steps, decr_every_n_nan_or_inf, **ratios):
    """What tf.contrib.mixed_precision documents."""
    factor, good, bad, seen = np.float32(init_loss_scale), 0, 0, []
    up, down = np.float32(ratios["incr_ratio"]), np.float32(ratios["decr_ratio"])
    for finite in steps:
        good, bad = (good + 1, bad) if finite else (0, bad + 1)
        if finite and good >= incr_every_n_steps:
            with np.errstate(over="ignore"):
                factor = factor * up if np.isfinite(factor * up) else factor
            good = bad = 0
        elif not finite and bad >= decr_every_n_nan_or_inf:
            factor = max(np.float32(1), factor * down)
            good = bad = 0
        seen.append(float(factor))
    return seen


@pytest.mark.parametrize(
    ("steps", "settings"),
    [
        ("+++++++", (8, 3, 2, 2, 0.8)),
        ("++-+++-+-", (8, 3, 2, 2, 0.8)),  # one that is not finite starts the row again
        ("-+-+--", (8, 5, 2, 2, 0.5)),  # and need not be in a row themselves
        ("------", (3, 1, 1, 2, 0.5)),  # never below 1
        ("++++", (2.0**126, 1, 1, 2, 0.5)),  # nor above what float32 holds
        ("+-" * 6 + "++--" * 3, (1024, 2, 2, 3, 0.25)),
    ],
)
def test_the_factor(steps, settings):
    names = (
        "init_loss_scale",
        "incr_every_n_steps",
        "decr_every_n_nan_or_inf",
        "incr_ratio",
        "decr_ratio",
    )
    settings = dict(zip(names, settings))
    finite = [step == "+" for step in steps]
    found, expected = factors(finite, **settings), reference(finite, **settings)
    assert found == pytest.approx(expected, rel=1e-6)
    assert min(found) >= 1 and np.isfinite(found).all()


def test_defaults_are_those_of_the_documentation():
    steps = [False, False] + [True] * 3
    assert factors(steps, init_loss_scale=100, incr_every_n_steps=3) == pytest.approx(
        [100, 80, 80, 80, 160]
    )


def test_the_same_as_in_tensorflow_1():
    if not tf.__version__.startswith("1."):
        pytest.skip("there is no tf.contrib")
    from tensorflow.contrib import mixed_precision

    assert issubclass(FixedLossScaleManager, mixed_precision.FixedLossScaleManager)
    assert issubclass(NPULossScaleOptimizer, mixed_precision.LossScaleOptimizer)
    steps = np.random.RandomState(3).rand(60) < 0.7
    with tf.Graph().as_default():
        theirs = mixed_precision.ExponentialUpdateLossScaleManager(64, 2, 2, 3, 0.6)
        finite = tf.placeholder(tf.bool, [])
        update = theirs.update_loss_scale(finite)
        expected = []
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for step in steps:
                session.run(update, {finite: step})
                expected.append(float(session.run(theirs.get_loss_scale())))
    assert len(set(expected)) > 5
    assert expected == factors(
        steps,
        init_loss_scale=64,
        incr_every_n_steps=2,
        decr_every_n_nan_or_inf=2,
        incr_ratio=3,
        decr_ratio=0.6,
    )


def test_a_fixed_factor():
    with tf.Graph().as_default():
        manager = FixedLossScaleManager(1024)
        update = manager.update_loss_scale(tf.constant(False))
        with tf.Session() as session:
            session.run(update)
            assert session.run(manager.get_loss_scale()) == 1024
        assert manager.get_enable_overflow_check() is True
        assert FixedLossScaleManager(1, False).get_enable_overflow_check() is False
        for wrong in (0.5, float("nan"), float("inf")):
            with pytest.raises(
                ValueError, match="loss_scale is .*, allowed is a Python number of 1"
            ):
                FixedLossScaleManager(wrong)
        with pytest.raises(TypeError, match="loss_scale is None, allowed is"):
            FixedLossScaleManager(None)


@pytest.mark.parametrize(
    ("name", "wrong", "error"),
    [
        ("init_loss_scale", float("nan"), ValueError),
        ("init_loss_scale", -1, ValueError),
        ("init_loss_scale", "x", TypeError),
        ("incr_every_n_steps", 0, ValueError),
        ("incr_every_n_steps", None, TypeError),
        ("decr_every_n_nan_or_inf", 0, ValueError),
        ("incr_ratio", 0.5, ValueError),
        ("decr_ratio", 2, ValueError),
        ("decr_ratio", 0, ValueError),
    ],
)
def test_a_growing_factor_refuses_what_cannot_work(name, wrong, error):
    arguments = dict(init_loss_scale=8.0, incr_every_n_steps=10)
    arguments[name] = wrong
    with tf.Graph().as_default(), pytest.raises(error, match=name + " is .*, allowed is"):
        ExponentialUpdateLossScaleManager(**arguments)


def test_what_optimizers_refuse():
    with tf.Graph().as_default():
        inner = tf.train.GradientDescentOptimizer(0.1)
        manager = FixedLossScaleManager(8)
        for make in (
            NPUDistributedOptimizer,
            NPUOptimizer,
            lambda optimizer: NPULossScaleOptimizer(optimizer, manager),
        ):
            for wrong in (None, "adam", tf.train.GradientDescentOptimizer):
                with pytest.raises(TypeError, match="allowed is an optimizer of tf.train"):
                    make(wrong)
        with pytest.raises(TypeError, match="loss_scale_manager is 8, allowed is an object such"):
            NPULossScaleOptimizer(inner, 8)
        with pytest.raises(ValueError, match="needs a loss_scale_manager.*got None"):
            NPULossScaleOptimizer(inner, None)
        with pytest.raises(ValueError, match="is_loss_scale=True needs a loss_scale_manager"):
            NPUOptimizer(inner, is_loss_scale=True)


def test_attributes_are_those_of_the_optimizer_inside():
    with tf.Graph().as_default():
        inner = tf.train.MomentumOptimizer(0.1, 0.9)
        inner.note = "of the script"
        optimizer = NPULossScaleOptimizer(inner, FixedLossScaleManager(2))
        assert optimizer.note == "of the script"
        with pytest.raises(AttributeError, match="nothing"):
            _ = optimizer.nothing
        v = tf.get_variable("v", initializer=[1.0, 2.0])
        update = optimizer.minimize(tf.reduce_sum(v * v))
        assert optimizer.get_slot(v, "momentum") is inner.get_slot(v, "momentum") is not None
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run(update)
            assert session.run(v).tolist() == pytest.approx([0.8, 1.6])

"""Wrong arguments of npu_device.distribute: each is named at the entry, on one rank as on several."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

VERSION_1 = tf.__version__.startswith("1.")
pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(VERSION_1, reason="npu_device computes in TensorFlow 2 only"),
]


@pytest.fixture(name="distribute")
def _distribute():
    from npu_device import distribute

    return distribute


def test_a_dataset_and_numbers_of_batches(distribute):
    with pytest.raises(TypeError, match="from_tensor_slices"):
        distribute.shard_and_rebatch_dataset(np.ones(4), 4)
    for wrong in ("abc", None, True):
        with pytest.raises(TypeError, match="must be a tf.data.Dataset, have a length"):
            distribute.min_steps(wrong)
    with pytest.raises(ValueError, match="0 or more, got -1"):
        distribute.min_steps(-1)
    assert distribute.min_steps(np.int64(3)) == 3


def test_callbacks(distribute):
    one = tf.keras.callbacks.TerminateOnNaN()
    assert distribute.npu_callbacks_append(one)[0] is one
    assert len(distribute.npu_callbacks_append((one, one))) == 3
    with pytest.raises(TypeError, match="must be a list of callbacks, got 3"):
        distribute.npu_callbacks_append(3)
    with pytest.raises(TypeError, match="root_rank must be an integer, got '0'"):
        distribute.NPUBroadcastGlobalVariablesCallback("0")
    with pytest.raises(ValueError, match="at least 0"):
        distribute.NPUBroadcastGlobalVariablesCallback(-1)
    for make in (
        distribute.MetricAverageCallback,
        lambda group: distribute.SyncEarlyStopping("loss", group=group),
        lambda group: distribute.SyncModelCheckpoint("model.keras", group=group),
    ):
        with pytest.raises(ValueError, match="group is 3"):
            make(group=3)
    with pytest.raises(TypeError, match="must map names to numbers"):
        distribute.average_metrics([1.0])


def test_optimizers_and_grouping(distribute):
    with pytest.raises(TypeError, match="predivide must be a bool, got 'yes'"):
        distribute.distribute_optimizer("sgd", predivide="yes")
    variable = tf.Variable([1.0])
    with pytest.raises(TypeError, match="such as optimizer.apply_gradients, got None"):
        distribute.grouping_gradients_apply(None, [(variable, variable)])
    with pytest.raises(TypeError, match="Use zip"):
        distribute.grouping_gradients_apply(print, [variable])
    with pytest.raises(TypeError, match="must be a list of variables"):
        distribute.grouping_broadcast(variable)


@pytest.mark.parametrize("wrong", [None, "sgd", tf.keras.optimizers.SGD])
def test_what_is_no_optimizer(wrong):
    from npu_device.train.optimizer import NpuLossScaleOptimizer

    with pytest.raises(TypeError, match="inner_optimizer"):
        NpuLossScaleOptimizer(wrong)
    scaled = NpuLossScaleOptimizer(tf.keras.optimizers.SGD())
    with pytest.raises(TypeError, match="LossScaleOptimizer"):
        NpuLossScaleOptimizer(scaled)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"initial_scale": -1}, "above 0, got -1"),
        ({"initial_scale": float("nan")}, "above 0, got nan"),
        ({"dynamic": False, "initial_scale": 0}, "above 0, got 0"),
        ({"dynamic_growth_steps": 0}, "at least 1, got 0"),
    ],
)
def test_scales_with_which_no_step_would_be_applied(arguments, text):
    from npu_device.train.optimizer import NpuLossScaleOptimizer

    with pytest.raises(ValueError, match=text):
        NpuLossScaleOptimizer(tf.keras.optimizers.SGD(), **arguments)

"""What scripts take from gen_npu_ops, what is refused, and what has no effect on CPU ranks."""

from __future__ import annotations

import ctypes
import inspect
import logging
import os
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge import tf_adapter
from npu_bridge.estimator import npu_aicore_ops, npu_ops
from npu_bridge.estimator.npu import npu_convert_dropout
from npu_bridge.experimental import hccl as experimental_hccl
from npu_bridge.helper import helper
from npu_bridge.npu_cpu import lru_cache, npu_cpu_ops
from npu_bridge.profiler import profiler
from npu_bridge.scoped_graph_manager import scoped_graph_manager
from npu_device._core import library
from npu_device._core import logging as our_logging
from npu_device._core.compute import raw_ops, refused

pytestmark = pytest.mark.core

# Of the first list: what TensorFlow's ops compute, and so must never be refused.
COMPUTED = """
dropout dropout_v3 dropout_v4 stateless_dropout gelu fast_gelu fast_gelu_v2 LARS LARSV2 DynamicRNN
DynamicGRUV2 DynamicAUGRU basic_lstm_cell npu_dynamic_rnn adam_apply_one_assign
adam_apply_one_with_decay_assign lamb_apply_optimizer_assign lamb_apply_weight_assign layer_norm
prelu PReLU centralization nonzero nonzerowithvalue scatter_elements k_means_centroids
deformable_conv2d dense_image_warp randomchoicewithmask stateless_random_choice_with_mask
decode_and_resize_jpeg decode_and_crop_and_resize_jpeg
""".split()


def test_what_is_computed_is_not_refused():
    assert not set(COMPUTED) & {*refused.TABLE, *refused.RAW_TABLE}
    assert not set(raw_ops.FUNCTIONS) & {*refused.TABLE, *refused.RAW_TABLE}


def published_functions():
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "api", "signatures.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    modules = {"npu_ops": npu_ops, "npu_aicore_ops": npu_aicore_ops, "npu_cpu_ops": npu_cpu_ops}
    for module, kind, name, _ in rows:
        short = module.rpartition(".")[2]
        if module.startswith("npu_bridge.") and kind == "function" and short in modules:
            yield name, getattr(modules[short], name)


REFUSED = [(name, function) for name, function in published_functions() if name in refused.TABLE]


def test_all_of_the_table_is_published_or_said_to_be_something_else():
    names = {name for name, _ in REFUSED} | {
        "LruCache",
        "file_constant with file_id",
        "libhcom_graph_adaptor.so",
    }
    assert names == set(refused.TABLE)


@pytest.mark.parametrize(("name", "function"), REFUSED, ids=[name for name, _ in REFUSED])
def test_a_refused_function_says_why_and_what_to_use(name, function):
    arguments = [None for one in inspect.signature(function).parameters.values()
                 if one.default is inspect.Parameter.empty]  # fmt: skip
    with pytest.raises(NotImplementedError) as caught:
        function(*arguments)
    reason = refused.TABLE[name]
    assert str(caught.value) == (
        f"{name} is not available on CPU ranks: {reason.why}. {reason.instead}"
    )
    assert reason.instead.endswith(".") and not reason.why.endswith(".")


def test_the_lru_cache_is_refused_when_it_is_made():
    with pytest.raises(NotImplementedError, match="LruCache is not available on CPU ranks: .*Use"):
        lru_cache.LruCache()


def test_gen_npu_ops_is_one_module_under_all_its_names():
    module = helper.get_gen_ops()
    assert isinstance(module, types.ModuleType)
    for other in (
        npu_ops.gen_npu_ops,
        npu_aicore_ops.npu_aicore_ops,
        npu_cpu_ops.gen_npu_cpu_ops,
        raw_ops.load(),
    ):
        assert other is module
    compiled = library.ops()
    assert module.hcom_all_reduce is compiled.hcom_all_reduce
    assert module.npu_init is compiled.npu_init
    for name, function in raw_ops.FUNCTIONS.items():
        assert getattr(module, name) is function, name
    with pytest.raises(AttributeError):
        _ = module.no_such_op


@pytest.mark.parametrize("name", sorted(refused.RAW_TABLE))
def test_a_raw_name_that_is_refused(name):
    function = getattr(helper.get_gen_ops(), name)
    assert function.__name__ == name
    with pytest.raises(NotImplementedError, match=f"{name} is not available on CPU ranks: "):
        function(1, anything=2)


def test_raw_functions_take_a_name_last():
    for name, function in raw_ops.FUNCTIONS.items():
        parameters = list(inspect.signature(function).parameters)
        assert "name" in parameters or name == "dynamic_rnn_v2", name


def test_raw_functions_name_their_results():
    with tf.Graph().as_default():
        y = helper.get_gen_ops().gelu(tf.ones([2]), name="mine")
        assert y.op.name.startswith("mine/")


@pytest.fixture
def said(caplog, monkeypatch):
    for name in ("RANK_ID", "RANK_SIZE"):
        monkeypatch.delenv(name, raising=False)
    our_logging.forget()
    caplog.set_level(logging.INFO, "npu_bridge")
    yield lambda: [record.getMessage() for record in caplog.records]
    our_logging.forget()


def test_the_profiler_says_once_that_it_has_no_effect(said):
    for _ in range(2):
        with profiler.Profiler(level="L1", aic_metrics="PipeUtilization", output_path="./") as one:
            assert (one.level, one.aic_metrics, one.output_path) == ("L1", "PipeUtilization", "./")
    assert said() == ["Profiler is for the NPU and has no effect on CPU ranks."]


def test_the_profiler_checks_its_arguments():
    with pytest.raises(ValueError, match=r"Profiler: level must be 'L0' or 'L1' or 'L2', got 'L9'"):
        profiler.Profiler(level="L9")
    with pytest.raises(ValueError, match=r"Profiler: aic_metrics must be .*'L2Cache', got 'Cache'"):
        profiler.Profiler(aic_metrics="Cache")
    with pytest.raises(TypeError, match=r"Profiler: output_path must be a str, got 3"):
        profiler.Profiler(output_path=3)
    with pytest.raises(TypeError):
        profiler.Profiler("L1")
    with profiler.Profiler():
        with pytest.raises(RuntimeError, match="cannot be nested"):
            profiler.Profiler().start()
    with profiler.Profiler():
        pass


def test_the_graph_manager_says_once_that_it_has_no_effect(said):
    for _ in range(2):
        with scoped_graph_manager.ScopedGraphManager():
            pass
    assert said() == ["ScopedGraphManager is for the NPU and has no effect on CPU ranks."]
    assert scoped_graph_manager.tf_adapter is profiler.tf_adapter is tf_adapter


def test_the_experimental_rank_queries():
    assert experimental_hccl.get_user_rank_size() == 1
    assert experimental_hccl.get_user_rank_id() == 0
    assert experimental_hccl.get_actual_rank_size() == 1
    text = experimental_hccl.c_str("größe")
    assert isinstance(text, ctypes.c_char_p)
    assert text.value.decode() == "größe"
    with pytest.raises(
        NotImplementedError, match=r"graph_adaptor.so is not available.*hccl.manage"
    ):
        experimental_hccl.hccl_graph_adp_ctypes.HcomGetActualRankSize(text)
    assert not hasattr(experimental_hccl.hccl_graph_adp_ctypes, "__wrapped__")


needs_keras_2 = pytest.mark.skipif(
    not hasattr(tf.keras.layers.Dropout, "_get_noise_shape"), reason="needs Keras 2"
)


@needs_keras_2
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("as_tensor", [True, False])
def test_the_dropout_layer_of_keras(training, as_tensor):
    assert tf.keras.layers.Dropout.call is npu_convert_dropout.dropout_call
    with tf.Graph().as_default(), tf.Session() as session:
        layer = tf.keras.layers.Dropout(0.25, noise_shape=(4, 1), seed=3)
        switch = tf.placeholder_with_default(training, []) if as_tensor else training
        x = tf.ones([4, 200])
        y = session.run(layer(x, training=switch))
    if not training:
        np.testing.assert_array_equal(y, np.ones((4, 200)))
    else:
        assert (y == y[:, :1]).all()
        assert set(np.unique(y)) <= {0, np.float32(1 / 0.75)}


@needs_keras_2
def test_the_dropout_layer_of_keras_follows_the_learning_phase():
    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.keras.layers.Dropout(0.5, seed=3)(tf.ones([500]))
        zero = tf.keras.layers.Dropout(0.0)(tf.ones([500]), training=True)
        assert session.run(y).min() == 1
        assert session.run(zero).min() == 1


def test_dropout_call_with_any_layer():
    layer = types.SimpleNamespace(rate=0.5, seed=1, noise_shape=None)
    with tf.Graph().as_default(), tf.Session() as session:
        y = session.run(npu_convert_dropout.dropout_call(layer, tf.ones([500]), training=True))
        z = session.run(npu_convert_dropout.dropout_call(layer, tf.ones([500]), training=False))
    assert set(np.unique(y)) == {0, 2}
    assert z.min() == 1

"""Scopes, activations, dropout and helpers of npu_device."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from npu_device.npu_device import gen_npu_ops
from npu_device.ops import train_ops
from npu_device.train import convert_dropout, npu_convert
from npu_device.utils import file_deduplication, npu_wrapper, scope

VERSION_1 = tf.__version__.startswith("1.")
pytestmark = pytest.mark.core

on_version_2 = pytest.mark.skipif(VERSION_1, reason="npu_device computes in TensorFlow 2 only")


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (scope.keep_dtype_scope, ("_keep_dtype", 1)),
        (scope.npu_optimizer_scope, ("_optimizer", True)),
        (scope.npu_gradients_scope, ("_backward", True)),
        (scope.npu_recompute_scope, ("_recompute", True)),
    ],
)
def test_a_scope_marks_the_ops_made_in_it(made, expected):
    with tf.Graph().as_default():
        before = tf.constant(1.0)
        with made():
            inside = before + 1.0
        after = inside + 1.0
    assert inside.op.get_attr(expected[0]) == expected[1]
    for outside in (before, after):
        assert expected[0] not in outside.op.node_def.attr
    if not VERSION_1:
        with made():
            assert float(tf.constant(1.0) + 1.0) == 2.0

        @tf.function
        def function(x):
            with made():
                return x + 1.0

        graph = function.get_concrete_function(tf.constant(1.0)).graph
        marks = [op.type for op in graph.get_operations() if expected[0] in op.node_def.attr]
        assert "AddV2" in marks and "Placeholder" not in marks


X = np.linspace(-6, 6, 41).astype(np.float32)


def fast(x):
    return x / (1 + np.exp(-1.702 * x))


def exact(x):
    return x * np.array([0.5 * (1 + math.erf(one / math.sqrt(2))) for one in x])


@on_version_2
def test_gelu():
    np.testing.assert_allclose(train_ops.gelu(X).numpy(), exact(X), atol=1e-6)
    in_function = tf.function(train_ops.gelu)
    np.testing.assert_allclose(in_function(tf.constant(X)).numpy(), fast(X), atol=1e-6)
    grid = np.linspace(-8, 8, 4001)
    assert 0.020 < np.abs(fast(grid) - exact(grid)).max() < 0.021  # as its docstring says
    with tf.GradientTape() as tape:
        x = tf.constant(X)
        tape.watch(x)
        y = in_function(x)
    near = (fast(X.astype(np.float64) + 1e-5) - fast(X.astype(np.float64) - 1e-5)) / 2e-5
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), near, atol=1e-4)
    for dtype in (tf.float16, tf.bfloat16):
        assert train_ops.gelu(tf.constant([1.0], dtype)).dtype == dtype
        assert in_function(tf.constant([1.0], dtype)).dtype == dtype
    for call in (train_ops.gelu, in_function):
        with pytest.raises(TypeError, match="gelu"):
            call(tf.constant([1, 2]))


@on_version_2
@pytest.mark.parametrize("kind", ["h5", "keras"])
def test_a_functional_model_with_gelu_is_saved_and_loaded(tmp_path, kind):
    inputs = tf.keras.Input([41])
    model = tf.keras.Model(inputs, train_ops.gelu(inputs))
    other = tf.keras.Model(inputs, train_ops.gelu(train_ops.gelu(inputs)))
    np.testing.assert_allclose(model.predict(X[None], verbose=0)[0], fast(X), atol=1e-6)
    names = [layer.name for layer in other.layers]
    assert len(set(names)) == len(names) == 3
    path = str(tmp_path / ("model." + kind))
    other.save(path)
    loaded = tf.keras.models.load_model(path)
    np.testing.assert_allclose(loaded.predict(X[None], verbose=0)[0], fast(fast(X)), atol=1e-6)
    layer = loaded.layers[-1]
    assert isinstance(layer, npu_wrapper.NpuOpLambda) and layer.symbol == "npu.ops.gelu"


@on_version_2
def test_a_function_of_ones_own_in_a_functional_model():
    def weighted(x, y, factor=1.0):
        return x + factor * y

    assert npu_wrapper.npu_symbol_register(None, weighted) is weighted
    assert npu_wrapper.get_one_name_for_npu_symbol(weighted) is None
    with pytest.raises(ValueError, match="npu_symbol_register"):
        npu_wrapper.NpuOpLambda(weighted)
    names = ["npu.test.weighted", "npu.test.other"]
    assert npu_wrapper.npu_symbol_register(names, weighted) is weighted
    assert npu_wrapper.get_one_name_for_npu_symbol(weighted) == names[0]
    assert all(npu_wrapper.get_npu_symbol_from_name(name) is weighted for name in names)
    assert npu_wrapper.get_npu_symbol_from_name("npu.test.none") is None
    supported = npu_wrapper.npu_functional_support(weighted)
    assert float(supported(tf.constant(1.0), 2.0, factor=3.0)) == 7.0
    left, right = tf.keras.Input([2]), tf.keras.Input([2])
    model = tf.keras.Model([left, right], supported(left, right, factor=3.0))
    again = tf.keras.Model.from_config(model.get_config())
    ones = np.ones([1, 2], np.float32)
    for each in (model, again):
        assert each.predict([ones, 2 * ones], verbose=0).tolist() == [[7.0, 7.0]]
    config = dict(model.layers[-1].get_config(), function="npu.test.weighte")
    with pytest.raises(ValueError, match=r"Was npu\.test\.weighted meant"):
        npu_wrapper.NpuOpLambda.from_config(config)


@on_version_2
def test_gradients_that_scripts_register_themselves():
    class Op:
        pass

    op = Op()
    op.inputs = [tf.constant(X)]
    (found,) = train_ops.fast_gelu_grad(op, tf.ones_like(op.inputs[0]))
    assert found.shape == X.shape
    x = tf.random.normal([16])
    mask = gen_npu_ops.drop_out_gen_mask([16], 0.5, 1, 2)
    op.inputs = [x, mask, tf.constant(0.5)]
    gradients = convert_dropout.dropout_domask_grad(op, tf.ones([16]))
    kept = gen_npu_ops.drop_out_do_mask(x, mask, 0.5).numpy() != 0
    assert gradients[0].numpy().tolist() == (2.0 * kept).tolist() and gradients[1:] == [None, None]
    assert "MatMul" in convert_dropout.grad_registry_list
    assert "DropOutDoMask" not in convert_dropout.grad_registry_list


@on_version_2
def test_npu_dropout():
    with pytest.raises(RuntimeError, match=r"tf\.function"):
        convert_dropout.npu_dropout_v2(tf.ones([2]), 0.5)

    def in_function(x, **arguments):
        return tf.function(lambda x: convert_dropout.npu_dropout_v2(x, **arguments))(x).numpy()

    ones = tf.ones([200, 50])
    found = in_function(ones, rate=0.25)
    assert set(np.unique(found)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((found != 0).mean() - 0.75) < 0.03  # 6.9 standard deviations
    rows = in_function(ones, rate=0.5, noise_shape=[200, 1])
    assert all(len(set(row)) == 1 for row in rows) and len(np.unique(rows)) == 2
    assert (in_function(ones, rate=0.0) == 1).all()
    for rate in (1.0, -0.5):
        with pytest.raises(ValueError, match="rate is"):
            in_function(ones, rate=rate)
    with pytest.raises(ValueError, match="int32"):
        in_function(tf.ones([2], tf.int32), rate=0.5)


def test_releases_that_a_replacement_is_for(monkeypatch, caplog):
    monkeypatch.setattr(tf, "__version__", "2.6.5")
    judge = npu_convert.judge_version_support
    for right in ("2.6.5", "2.6.*", "2.*", "*", "2.6.2~2.6.999", "2.6.5~2.6.5"):
        assert npu_convert.check_version_format(right) and judge([right]), right
    for other in ("2.6.4", "2.7.*", "1.*", "2.6.6~2.7.0"):
        assert npu_convert.check_version_format(other) and not judge([other]), other
    assert judge(["1.15.0", "2.6.*"]) and not judge(["1.15.0"]), "an earlier list still counts"
    for wrong in ("2.6", "2.7.0~2.6.0", "2.6~2.7"):
        assert npu_convert.check_version_format(wrong)
        assert not npu_convert.parse_version_range(wrong) and not judge(["2.*", wrong])
    for wrong in ("", "x", "2..6", ".2", "2.", "*.2", "2.*~3", "~2.6.1", "2.6.1~", "2*", "**"):
        assert not npu_convert.check_version_format(wrong) and not judge(["*", wrong]), wrong
    assert "describes no releases" in caplog.text
    monkeypatch.setattr(tf, "__version__", "2.6.0-rc1")
    assert judge(["2.6.0"])


@on_version_2
def test_replacing_a_function_of_tensorflow(monkeypatch):
    calls = []

    def new(x):
        calls.append("new")
        return x

    def old(x):
        """Says what it does."""
        calls.append("old")
        return x

    context = [None]
    monkeypatch.setattr(npu_convert, "global_npu_ctx", lambda: context[0])
    running = tf.__version__.split("-")[0]
    convert = npu_convert.dropout_convert(new, version=[running], mode=["graph"])
    replaced = convert(old)
    assert replaced.__doc__ == old.__doc__ and new.__OriginCall__ is old

    def called(function):
        del calls[:]
        function(tf.constant(1.0))
        return calls[-1]

    assert called(replaced) == called(tf.function(lambda x: replaced(x))) == "old"
    context[0] = object()
    assert called(replaced) == "old" and called(tf.function(lambda x: replaced(x))) == "new"
    assert npu_convert.api_func_convert(new, version=["0.1.2"], mode=["graph"])(old) is old
    with pytest.raises(TypeError, match="expected a function"):
        npu_convert.api_func_convert(None)


@on_version_2
def test_replacing_dropout_changes_it_in_one_release_and_once(monkeypatch):
    monkeypatch.setattr(tf.nn, "dropout", tf.nn.dropout)
    before = tf.nn.dropout
    if not tf.__version__.startswith("2.6."):
        npu_convert.npu_convert_api()
        assert tf.nn.dropout is before
    else:
        from tensorflow.python.ops import nn_ops

        monkeypatch.setattr(nn_ops, "dropout_v2", nn_ops.dropout_v2)
        monkeypatch.setattr(tf.compat.v2.nn, "dropout", tf.compat.v2.nn.dropout)
        npu_convert.npu_convert_api()
        after = tf.nn.dropout
        npu_convert.npu_convert_api()
        assert tf.nn.dropout is after is not before
        assert tf.function(lambda x: after(x, 0.5))(tf.ones([8])).shape == [8]


def test_files_that_repeat_others_are_removed(tmp_path):
    (tmp_path / "below").mkdir()
    contents = {
        "ge_1.txt": b"same", "ge_2.pbtxt": b"same", "ge_3.txt": b"other",
        "below/ge_4.txt": b"same", "mine.txt": b"same", "ge_5.pb": b"same",
    }  # fmt: skip
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    module = ["-m", "npu_device.utils.file_deduplication"]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for folder, code in ((tmp_path, 0), (tmp_path / "ge_1.txt", 2)):
        done = subprocess.run([sys.executable, *module, "--dir", str(folder)], cwd=root)
        assert done.returncode == code
    left = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert left == {"ge_1.txt", "ge_3.txt", "mine.txt", "ge_5.pb"}
    path = str(tmp_path / "ge_3.txt")
    file_deduplication.remove_duplicate_files([path, path])
    assert os.path.exists(path)
    assert len(file_deduplication.get_file_hash(path)) == 64
    assert file_deduplication.is_dump_graph("ge_proto_1.txt")
    assert not file_deduplication.is_dump_graph("edge.txt")

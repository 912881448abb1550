"""Scopes and functions that mark ops for the device."""

from __future__ import annotations

import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import npu_scope, util
from npu_bridge.estimator.npu.npu_config import (
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    NpuExecutePlacement,
)

pytestmark = pytest.mark.core

SCOPES = [
    (npu_scope.without_npu_compile_scope, (), {"_without_npu_compile": True}),
    (npu_scope.npu_variable_scope, (), {"_variable_placement": b"all"}),
    (
        npu_scope.npu_variable_scope,
        (NpuExecutePlacement.HOST,),
        {"_variable_placement": b"host"},
    ),
    (npu_scope.keep_dtype_scope, (), {"_keep_dtype": 1}),
    (npu_scope.npu_stage_scope, (3,), {"_stage_level": 3}),
    (npu_scope.npu_mem_type_scope, (), {"_output_memory_type": 1}),
    (
        npu_scope.npu_weight_prefetch_scope,
        (),
        {"_buffer_pool_id": 0, "_buffer_pool_size": 536870912},
    ),
    (
        npu_scope.op_specified_engine_scope,
        ("AIcoreEngine", "lib"),
        {"_specified_engine_name": b"AIcoreEngine", "_specified_kernel_lib_name": b"lib"},
    ),
    (npu_scope.npu_qos_label_scope, (2,), {"_qos_service_label": 2}),
    (npu_scope.subgraph_multi_dims_scope, (1,), {"_subgraph_multi_dims_index": 1}),
    (npu_scope.npu_optimizer_scope, (), {"_optimizer": True}),
    (npu_scope.disable_autofuse, (), {"_disable_autofuse_scope": True}),
    (npu_scope.limit_core_num_scope, ("0", "8"), {"_op_vectorcore_num": b"8"}),
]


def marks(op):
    return {name: op.get_attr(name) for name in op.node_def.attr if name.startswith("_")}


@pytest.mark.parametrize(("scope", "arguments", "expected"), SCOPES)
def test_a_scope_marks_the_ops_made_in_it(scope, arguments, expected):
    with tf.Graph().as_default():
        before = tf.constant(1.0)
        with scope(*arguments):
            inside = before + 1.0
            with npu_scope.npu_stage_scope(9):
                deeper = inside * 2.0
        after = inside + 1.0
        assert marks(inside.op) == expected
        assert marks(deeper.op) == dict(expected, _stage_level=9)
        assert marks(before.op) == marks(after.op) == {}


def test_a_scope_ends_with_an_exception():
    with tf.Graph().as_default():
        with pytest.raises(KeyError), npu_scope.keep_dtype_scope():
            raise KeyError
        assert marks(tf.constant(1.0).op) == {}


def test_scopes_that_are_names():
    with tf.Graph().as_default():
        with npu_scope.npu_recompute_scope():
            one = tf.constant(1.0)
        with npu_scope.npu_graph_slice_scope():
            two = tf.constant(1.0)
        with npu_scope.npu_graph_slice_scope(4):
            three = tf.constant(1.0)
        names = [op.op.name.split("/")[0] for op in (one, two, three)]
        assert names == [
            "NpuRecompute",
            "SliceNum-None-NpuGraphSlicingNone",
            "SliceNum-4-NpuGraphSlicing4",
        ]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: npu_scope.npu_variable_scope("host"), ValueError, "placement is 'host'"),
        (lambda: npu_scope.npu_stage_scope("1"), TypeError, "stage is '1'"),
        (lambda: npu_scope.npu_graph_slice_scope(0), ValueError, "slice_num is 0"),
        (lambda: npu_scope.npu_graph_slice_scope("2"), TypeError, "slice_num is '2'"),
        (lambda: npu_scope.limit_core_num_scope(), ValueError, "op_vectorore_num is '0'"),
        (lambda: npu_scope.limit_core_num_scope("1", 8), ValueError, "as a str"),
        (lambda: npu_scope.limit_core_num_scope("1", "-8"), ValueError, "above 0"),
        (lambda: npu_scope.npu_weight_prefetch_scope(0, 1.5), TypeError, "buffer_pool_size"),
    ],
)
def test_what_scopes_refuse(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_functions_that_mark_ops():
    with tf.Graph().as_default() as graph:
        a, b, c = (tf.constant(1.0, name=name) for name in "abc")
        util.set_op_tensor_max_range(a, "1,2")
        util.set_op_tensor_max_size(a.op, 64)
        util.set_op_input_tensor_multi_dims(b, "0:-1", "1;2")
        util.keep_tensors_dtypes(graph, ["c:0"])
        assert marks(a.op) == {"_op_max_shape": b"1,2", "_op_max_size": 64}
        assert marks(b.op) == {
            "_subgraph_multi_dims_input_shape": b"0:-1",
            "_subgraph_multi_dims_input_dims": b"1;2",
        }
        assert marks(c.op) == {"_keep_dtype": 1}
        with pytest.raises(ValueError, match="list or tuple"):
            util.keep_tensors_dtypes(graph, "c:0")
        with pytest.raises(ValueError, match="allowed is a tf.Graph"):
            util.keep_tensors_dtypes(None, ["c:0"])
        with pytest.raises(KeyError):
            util.keep_tensors_dtypes(graph, ["d:0"])


def test_set_graph_exec_config():
    with tf.Graph().as_default():
        a, b, c, d = (tf.constant(1.0, name=name) for name in "abcd")
        expected = {
            "_graph_dynamic_input": False,
            "_graph_dynamic_graph_execute_mode": b"dynamic_execute",
            "_graph_dynamic_inputs_shape_range": b"",
            "_is_train_graph": False,
        }
        assert util.set_graph_exec_config(a) is a
        assert marks(a.op) == expected
        recompute = ExperimentalConfig(
            graph_memory_optimize_config=GraphMemoryOptimizeConfig("auto")
        )
        fetches = util.set_graph_exec_config(
            [b, (c.op, "d:0")], True, "lazy_recompile", "a:[1~2]", True, recompute
        )
        assert fetches == [b, (c.op, d)]
        for tensor in (b, c, d):
            assert marks(tensor.op) == {
                "_graph_dynamic_input": True,
                "_graph_dynamic_graph_execute_mode": b"lazy_recompile",
                "_graph_dynamic_inputs_shape_range": b"a:[1~2]",
                "_is_train_graph": True,
                "_recompute_mode": b"auto",
            }
        with pytest.raises(ValueError, match="dynamic_graph_execute_mode is 'fast'"):
            util.set_graph_exec_config(a, dynamic_graph_execute_mode="fast")
        with pytest.raises(ValueError, match="fetch is 5"):
            util.set_graph_exec_config(5)
        with pytest.raises(ValueError, match="experimental_config is 'x'"):
            util.set_graph_exec_config(a, experimental_config="x")

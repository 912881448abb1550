"""What an op records of its inputs' names for NPU_BRIDGE_CHECK_NAMES, and when."""

from __future__ import annotations

import re

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.hccl import hccl_ops
from npu_device._core import input_names, library, runtime

pytestmark = pytest.mark.core


@pytest.fixture
def check(become):
    """Makes this process a rank with the setting as given."""
    library.ops()  # with the process's own runtime

    def make(setting):
        become(**({} if setting is None else {"NPU_BRIDGE_CHECK_NAMES": setting}))

    return make


def recorded(tensor):
    """The names in the attribute of the op that a tensor comes from; None without the attribute."""
    if input_names.NAMES_ATTRIBUTE not in tensor.op.node_def.attr:
        return None
    return [s.decode() for s in tensor.op.node_def.attr[input_names.NAMES_ATTRIBUTE].list.s]


@pytest.mark.parametrize("setting", [None, "", "0"])
def test_nothing_is_recorded_unless_asked_for(check, setting):
    check(setting)
    with tf.Graph().as_default():
        made = hccl_ops.allreduce(tf.zeros([2], name="a"), "sum")
        assert recorded(made) is None
        assert sorted(n for n in made.op.node_def.attr if n.startswith("_")) == [
            "_npu_static_shape",
            "_npu_tag",
        ]
        assert made.op.get_attr("group") == b"hccl_world_group"


def test_names_of_tensors_and_variables(check):
    check("1")
    with tf.Graph().as_default():
        with tf.name_scope("scope"):
            tensor = tf.split(tf.zeros([4], name="whole"), 2, name="parts")[1]
        ref = tf.get_variable("ref", [2], use_resource=False)
        resource = tf.get_variable("resource", [2], use_resource=True)
        parts = tf.get_variable("p", [4, 2], partitioner=tf.fixed_size_partitioner(2))
        sparse = tf.IndexedSlices(tensor, tf.constant([0, 2]), tf.constant([3]))
        array = np.zeros([2], np.float32)
        values = [tensor, ref, ref.op.outputs[0], resource, parts, sparse, array, [1.0], 2.0]
        names = ["scope/parts:1", "ref:0", "ref:0", "resource:0", "p", "scope/parts:1", "", "", ""]
        assert [input_names.name(value) for value in values] == names
        assert recorded(hccl_ops.broadcast(values, 0)[6]) == names
        for value, name in zip(values, names):
            made = hccl_ops.allreduce(value, "sum")
            assert recorded(made) == ([name] if name else None)


def test_a_keras_variable_goes_by_its_path():
    """Its name is that of all kernels; older ones are TensorFlow's own variables."""

    class KerasVariable:
        def __init__(self, value):
            self._value, self.name, self.path = value, "kernel", "model/dense_1/kernel"

    with tf.Graph().as_default():
        variable = tf.get_variable("kernel", [2])
        assert input_names.name(KerasVariable(variable)) == "model/dense_1/kernel"


def test_a_tensor_has_the_names_of_the_functions_that_it_is_in(check):
    check("1")
    found = {}

    @tf.function
    def inner(x):
        found["argument"] = recorded(hccl_ops.allreduce(x, "sum"))
        found["own"] = recorded(hccl_ops.allreduce(tf.negative(x, name="less"), "sum"))
        return x

    @tf.function
    def outer(x):
        more = tf.add(x, 1.0, name="more")

        @tf.function
        def closure():
            found["captured"] = recorded(hccl_ops.allreduce(more, "sum"))
            return more

        closure()
        return tf.cond(tf.reduce_sum(x) > 0, lambda: branch(x), lambda: inner(x))

    def branch(x):
        found["branch"] = recorded(hccl_ops.allreduce(tf.negative(x, name="less"), "sum"))
        return x

    with tf.Graph().as_default():
        tf.enable_control_flow_v2()
        try:
            outer(tf.zeros([2]))
        finally:
            tf.disable_control_flow_v2()
    # Versions of TensorFlow differ in whether a branch has a scope.
    assert re.match(r"outer/cond_true/(cond/)?less:0\Z", found.pop("branch")[0])
    assert found == {
        "argument": ["outer/cond_false/inner/x:0"],
        "own": ["outer/cond_false/inner/less:0"],
        "captured": ["outer/more:0"],
    }


def test_sends_and_gradients_record_none(check):
    check("1")
    with tf.Graph().as_default():
        x = tf.zeros([2], name="x")
        assert input_names.NAMES_ATTRIBUTE not in hccl_ops.send(x, 0, 0).node_def.attr
        total = hccl_ops.allreduce(x, "prod")
        tf.gradients(total, x)
        made = [op for op in tf.get_default_graph().get_operations() if op.type.startswith("Hcom")]
        named = [op.name for op in made if input_names.NAMES_ATTRIBUTE in op.node_def.attr]
        assert named == [total.op.name]
        assert len(made) > 2
        # Only while the gradient was made.
        assert recorded(hccl_ops.allreduce(x, "sum")) == ["x:0"]


def test_the_names_beside_the_group_of_an_eager_op():
    alone = "hccl_world_group"
    with tf.Graph().as_default():
        assert input_names.beside(alone, ["a:0"]) == alone
    with tf.init_scope():
        if not tf.executing_eagerly():
            return
        assert input_names.beside(alone, None) == alone
        both = input_names.beside(alone, ["a:0", ""])
    assert both != alone
    assert input_names.group_alone(both) == alone == input_names.group_alone(alone)


def test_the_setting_is_read_with_the_first_op_and_alone():
    """A script may set the rest later, whatever it is now."""
    environ = {"NPU_BRIDGE_CHECK_NAMES": "1", "RANK_ID": "not yet", "RANK_SIZE": "2"}
    process = runtime.Runtime(environ=environ)
    assert process.checks_names()
    environ.update(RANK_ID="1", NPU_BRIDGE_CHECK_NAMES="0")
    assert process.checks_names()
    assert (process.rank(), process.size()) == (1, 2)
    process.shutdown()
    assert not process.checks_names()
    environ["NPU_BRIDGE_CHECK_NAMES"] = "yes"
    process.shutdown()
    with pytest.raises(ValueError, match="NPU_BRIDGE_CHECK_NAMES is 'yes', allowed is"):
        process.checks_names()

"""Checks, kept values, the division of weights over ranks, and what a process knows of its job."""

from __future__ import annotations

import json
import types

import numpy as np
import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator import npu_aicore_ops, npu_ops
from npu_bridge.estimator.npu import npu_plugin, session_helpers, util
from npu_bridge.estimator.npu.npu_common import DeviceInfo, JobConfig, JobInfo, NPUBasics
from npu_bridge.experimental import hccl
from npu_bridge.npu_cpu import npu_cpu_ops
from npu_bridge.tbe import npu_cube_ops, npu_vector_ops
from npu_device._core import logging, saturation
from npu_device._core.compute import op_gradients

pytestmark = pytest.mark.core


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: util.check_not_none(None, "path"), ValueError, "path is None"),
        (lambda: util.check_positive_integer(0, "n"), ValueError, "n is 0, allowed is an int of 1"),
        (lambda: util.check_positive_integer("1", "n"), TypeError, "n is '1' of type str"),
        (lambda: util.check_nonnegative_integer(-1, "n"), ValueError, "an int of 0 or more"),
        (lambda: util.check_nonnegative_integer(0.0, "n"), TypeError, "n is 0.0"),
        (lambda: util.check_bool_type(1, "on"), TypeError, "on is 1, allowed is True or False"),
        (lambda: util.format_string(1, "text"), TypeError, "text is 1"),
        (lambda: util.check_profiling_options(), ValueError, "training_trace, task_time"),
        (lambda: util.check_profiling_options(["all"]), ValueError, "['all']"),
        (
            lambda: util.check_aoe_mode("3"),
            ValueError,
            "aoe_mode is '3', allowed is one of 1, 2, 4",
        ),
        (lambda: util.check_path("/nowhere/at/all"), ValueError, "no folder '/nowhere/at/all'"),
        (lambda: util.check_path(__file__), ValueError, "is no folder"),
        (lambda: npu_plugin.check_graph_run_mode(2), ValueError, "graph_run_mode is 2"),
        (lambda: npu_plugin.set_device_sat_mode(3), ValueError, "mode is 3"),
        (lambda: npu_plugin.npu_resource_init(graph_run_mode=5), ValueError, "graph_run_mode"),
        (lambda: npu_plugin.npu_resource_init(enable_profiling=1), TypeError, "enable_profiling"),
        (
            lambda: npu_plugin.npu_resource_init(enable_profiling=True),
            ValueError,
            "profiling_options",
        ),
        (lambda: npu_plugin.npu_resource_init(aoe_mode="3"), ValueError, "aoe_mode"),
        (
            lambda: npu_plugin.npu_resource_init(precision_mode="x"),
            ValueError,
            "precision_mode is 'x'",
        ),
        (lambda: npu_plugin.npu_resource_init(op_debug_level=-1), ValueError, "op_debug_level"),
    ],
)
def test_what_checks_refuse(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def graph_tensor(dtype=tf.float32, shape=(2,)):
    with tf.Graph().as_default():
        return tf.placeholder(dtype, shape)


NO_OP = r"op must be an operation with inputs .*, got None"
GRADIENTS_OF = [
    (npu_ops.basic_lstm_cell_grad, 7),
    (npu_ops.dynamic_rnn_grad, 8),
    (npu_ops.dynamic_rnn_v2_grad, 8),
    (npu_ops.dynamic_gru_v2_grad, 6),
    (npu_ops.dynamic_augru_grad, 7),
    (npu_aicore_ops.prelu_grad, 1),
    (npu_cpu_ops.dense_image_warp_grad, 1),
    (npu_cube_ops.deformable_offsets_grad, 1),
    (op_gradients.fast_gelu_grad, 1),
]


@pytest.mark.parametrize(("function", "gradients"), GRADIENTS_OF)
def test_gradient_functions_say_what_an_op_must_have(function, gradients):
    nothing = [None] * gradients
    with pytest.raises(TypeError, match=rf"{function.__name__}: {NO_OP}"):
        function(None, *nothing)
    with pytest.raises(ValueError, match=rf"{function.__name__}: op must be .*, got one with 0"):
        function(types.SimpleNamespace(inputs=[]), *nothing)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: util.fair_division(None, 1), TypeError, "fair_division: inputs is None"),
        (lambda: util.fair_division([None], 1), TypeError, "inputs holds None"),
        (lambda: util.fair_division([], None), TypeError, "fair_division: number is None"),
        (lambda: util.GradDivisionItem(None, None), TypeError, "GradDivisionItem: grad is None"),
        (
            lambda: util.GradDivisionItem(graph_tensor(shape=None), None),
            TypeError,
            "GradDivisionItem: var is None",
        ),
        (
            lambda: util.GradDivisionItem(graph_tensor(shape=None), graph_tensor(shape=None)),
            ValueError,
            "have no known shape",
        ),
        (lambda: util.add_grads_and_vars(None, 1), TypeError, "grads_and_vars is None"),
        (lambda: util.add_grads_and_vars([None], 1), TypeError, "grads_and_vars holds None"),
        (
            lambda: util.add_grads_and_vars([(graph_tensor(), None)], 1),
            TypeError,
            "whose second is no variable",
        ),
        (lambda: util.add_grads_and_vars([], "1"), TypeError, "rank_size is '1'"),
        (lambda: util.get_gid_by_grad(None), TypeError, "get_gid_by_grad: grad is None"),
        (lambda: util.get_gid_by_weight(None), TypeError, "get_gid_by_weight: weight is None"),
        (lambda: util.create_or_get_var(None), TypeError, "var_name is None, allowed is a str"),
        (lambda: util.register_func(None), TypeError, "var_name is None, allowed is a str"),
        (lambda: util.variable_initializer_in_host("x"), TypeError, "var_list is 'x'"),
        (lambda: util.variable_initializer_in_host([5]), TypeError, "var_list holds 5"),
        (lambda: util.npu_compile(None), TypeError, "npu_compile: sess is None"),
        (lambda: util.check_path(None), TypeError, "path is None"),
        (lambda: util.check_profiling_options(5), ValueError, "profiling_options is 5"),
        (lambda: session_helpers.npu_hooks_append(-1), TypeError, "hooks_list is -1"),
        (lambda: session_helpers.npu_hooks_append("x"), TypeError, "list of SessionRunHooks"),
        (lambda: session_helpers.npu_callbacks_append(-1), TypeError, "callbacks_list is -1"),
        (lambda: session_helpers.close_session(None), TypeError, "close_session: sess is None"),
        (
            lambda: session_helpers.shutdown_resource(None, None),
            TypeError,
            "shutdown_resource: sess is None, allowed is a session",
        ),
        (lambda: hccl.c_str(None), TypeError, "c_str: string is None, allowed is a str"),
        (
            lambda: npu_aicore_ops.centralization([1.0], None),
            TypeError,
            "axes must be an integer or a list of integers, got None",
        ),
        (
            lambda: npu_ops.scatter_elements([1.0], [0], [2.0], axis=None),
            TypeError,
            "scatter_elements: axis must be an integer, got None",
        ),
        (lambda: npu_vector_ops.PReLU(shared_axes=-1), ValueError, "PReLU: shared_axes must be"),
        (lambda: npu_vector_ops.PReLU(shared_axes="x"), TypeError, "integers from 1, or None"),
    ],
)
def test_wrong_arguments_are_named(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_one_op_for_several_steps_needs_a_session():
    with tf.Graph().as_default():
        op = tf.no_op()
        with pytest.raises(TypeError, match="set_iteration_per_loop: sess is None"):
            util.set_iteration_per_loop(None, op, 2)
    with pytest.raises(TypeError, match="load_iteration_per_loop_var: sess is None"):
        util.IterationPerLoop().load_iteration_per_loop_var(None, 2)


def test_what_checks_let_through(tmp_path):
    assert util.check_not_none(0, "n") is None
    util.check_positive_integer(np.int64(3), "n")
    util.check_nonnegative_integer(0, "n")
    util.check_bool_type(False, "on")
    assert [util.convert_bool_to_int(value) for value in (True, False, 1, None)] == [1, 0, -1, -1]
    assert util.format_string(None, "x") == "" and util.format_string("a", "x") == "a"
    assert util.check_profiling_options(["task_time", "op_trace"]) == "task_time:op_trace"
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    assert util.check_path(str(link)) == str(tmp_path.resolve())
    util.check_aoe_mode("4")


def test_values_of_the_whole_process():
    util.global_dict_init()
    assert util.get_value("a") is None and util.get_value("a", 5) == 5
    util.set_value("a", None)
    assert util.get_value("a", 5) is None
    util.global_dict_init()
    assert util.get_value("a", 5) == 5


def item(size):
    made = util.GradDivisionItem(tf.constant(1.0), None)
    made.size = size
    return made


@pytest.mark.parametrize(
    ("sizes", "ranks", "expected"),
    [
        ([4, 4, 4, 4], 2, [0, 0, 1, 1]),
        ([4, 4, 4], 3, [0, 1, 2]),
        ([100, 1, 1, 1], 2, [0, 1, 1, 1]),
        ([1, 1, 1, 100], 2, [0, 0, 0, 1]),
        ([1, 100, 1, 1], 3, [0, 1, 2, 2]),
        ([0, 0, 0, 0, 8], 2, [0, 0, 0, 0, 1]),
        ([5], 1, [0]),
        ([3, 9, 2, 7, 4, 4, 1], 3, [0, 0, 1, 1, 2, 2, 2]),
        ([1, 2], 0, [-1, -1]),
    ],
)
def test_weights_are_divided_by_size(sizes, ranks, expected):
    with tf.Graph().as_default():
        items = [item(size) for size in sizes]
        assert util.fair_division(items, ranks) is items
        assert [one.root_rank_id for one in items] == expected


def test_divisions_are_fair_whatever_the_sizes():
    random = np.random.RandomState(3)
    with tf.Graph().as_default():
        for _ in range(200):
            ranks = random.randint(1, 9)
            sizes = random.randint(0, 1000, size=random.randint(ranks, 40))
            items = util.fair_division([item(int(size)) for size in sizes], ranks)
            roots = [one.root_rank_id for one in items]
            assert roots == sorted(roots) and set(roots) == set(range(ranks))
            sums = [sum(s for s, root in zip(sizes, roots) if root == r) for r in range(ranks)]
            # No rank has more than its share, the rest of the one before it, and one item more.
            assert max(sums) <= sum(sizes) / ranks + 2 * max(sizes), (sizes, sums)


def test_the_rank_of_a_gradient():
    with tf.Graph().as_default():
        variables = [tf.get_variable(f"v{i}", [4, 2]) for i in range(4)]
        dense = [tf.ones([4, 2], name=f"g{i}") for i in range(3)]
        sparse = tf.IndexedSlices(
            tf.placeholder(tf.float32, [None, 2], name="g3"), tf.constant([1])
        )
        util.add_grads_and_vars([*zip(dense, variables), (sparse, variables[3])], 2)
        assert [one.size for one in util.get_all_grad_item()] == [32] * 4
        assert [util.get_gid_by_weight(v) for v in variables] == [0, 0, 1, 1]
        assert [util.get_gid_by_grad(g) for g in [*dense, sparse]] == [0, 0, 1, 1]
        util.add_grads_and_vars([(None, variables[0]), (dense[1], variables[1])], 1)
        assert [one.var for one in util.get_all_grad_item()] == [variables[1]]
        assert util.get_gid_by_weight(variables[0]) == -1 == util.get_gid_by_grad(dense[0])
        with pytest.raises(ValueError, match="number is 3, allowed is 0 to 2"):
            util.add_grads_and_vars([*zip(dense[:2], variables)], 3)
        util.add_grads_and_vars([], 0)


def test_variables_of_options_and_initializers():
    with tf.Graph().as_default() as graph:
        one = util.create_or_get_var("loops")
        assert util.create_or_get_var("loops") is one and util.create_or_get_var("other") is not one
        assert one.dtype.base_dtype == tf.int64 and one in tf.local_variables()
        assert one not in tf.global_variables()
        v = tf.get_variable("v", [2])
        assert util.variable_initializer_in_host([v]).name == "var_in_host"
        for name in ("loops", "loops"):
            util.register_func(name)
        exported = tf.train.export_meta_graph(graph=graph)
        for call in (
            util.set_iteration_per_loop,
            util.IterationPerLoop().create_iteration_per_loop_var,
        ):
            with pytest.raises(ValueError, match="train_op is .* allowed is an op"):
                call(*([None] if call is util.set_iteration_per_loop else []), v)
        with tf.Graph().as_default():
            tf.train.import_meta_graph(exported)
            assert util.create_or_get_var("loops").op.name == one.op.name
        op = tf.no_op()
        assert util.set_iteration_per_loop(None, op) is op
        with pytest.raises(ValueError, match="iterations_per_loop is 0"):
            util.set_iteration_per_loop(None, op, 0)
        with tf.Session() as session:
            with pytest.raises(ValueError, match=r"Call create_iteration_per_loop_var"):
                util.IterationPerLoop().load_iteration_per_loop_var(session, 2)


def test_a_job_from_the_environment(become, table_file, two_servers):
    become()
    job = NPUBasics("").jobinfo
    assert (job._rank_size, job._device_info._index, job._job_id) == (1, "0", "")
    assert util.get_ranksize() == "1" and NPUBasics("no such file").size() == 1
    become(RANK_SIZE="4", RANK_ID="2", RANK_TABLE_FILE=table_file(two_servers), JOB_ID="j7")
    job = NPUBasics("").jobinfo
    assert (job._rank_size, job._job_id) == (4, "j7")
    assert job._rank_table_file.endswith("rank_table.json")
    device = job._device_info
    assert (device._index, device._server_id, device._dev_index) == ("2", "node_1", 4)
    assert not device.is_master_node() and DeviceInfo().is_master_node()
    assert util.get_ranksize() == "4"
    become(RANK_SIZE="2", CM_WORKER_SIZE="2", RANK_ID="0")
    with pytest.raises(ValueError, match="RANK_SIZE"):
        util.get_ranksize()


def test_a_job_from_a_file(tmp_path):
    path = tmp_path / "job.json"
    good = {"device_info": {"Index": 3}, "rank_table_file": "t.json", "rank_size": 8,
            "local_checkpoint_dir": "c"}  # fmt: skip
    path.write_text(json.dumps(good))
    basics = NPUBasics(str(path))
    job = basics.jobinfo
    assert basics.size() == 8 and job._device_info._index == "3"
    assert job._local_checkpoint_dir == "c" and job._rank_table_file == "t.json"
    for change, error, text in (
        ({"device_info": None}, ValueError, "$.device_info is None"),
        ({"device_info": {"Index": -1}}, ValueError, "$.device_info.Index is -1"),
        ({"rank_size": "8"}, TypeError, "$.rank_size is '8'"),
        ({"rank_table_file": None}, ValueError, "$.rank_table_file is None"),
    ):
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(error) as caught:
            NPUBasics(str(path))
        assert text in str(caught.value) and str(path) in str(caught.value)
    path.write_text("{")
    with pytest.raises(ValueError, match="is no JSON"):
        NPUBasics(str(path))
    assert JobInfo(job_id=5)._job_id == 5 and JobConfig(0.1, 8)._batch_size == 8


def test_start_and_end_without_a_session(become, native):
    current = become()
    npu_plugin.npu_resource_init()
    assert current.started() and native.starts == 1
    npu_plugin.npu_resource_shutdown()
    assert not current.started()
    npu_plugin.npu_resource_init(0, aicore_num="8")
    npu_plugin.npu_close()
    assert not current.started()


def test_numbers_overflow_to_infinity(caplog):
    npu_plugin.set_device_sat_mode(1)
    npu_plugin.set_device_sat_mode(2)
    assert not caplog.records
    logging.forget()
    npu_plugin.set_device_sat_mode(0)
    npu_plugin.set_device_sat_mode(0)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert npu_plugin.is_inf_nan_enabled() is True and saturation.INF_NAN == 1


def test_options_that_the_device_starts_with():
    init = {}
    npu_plugin.init_op_compiler_cache_mode(init, None)
    npu_plugin.init_op_compiler_cache_mode(init, "enable")
    npu_plugin.init_op_compiler_cache_dir(init, "/cache")
    npu_plugin.init_debug_dir(init, "/debug")
    assert init == {
        "ge.op_compiler_cache_mode": "enable",
        "ge.op_compiler_cache_dir": "/cache",
        "ge.debugDir": "/debug",
    }


@pytest.mark.parametrize(
    "call",
    [
        lambda: npu_plugin.init_rdma_pool(64),
        lambda: npu_plugin.rdma_remote_register([]),
        lambda: npu_plugin.rdma_remote_init([], 64),
        lambda: npu_plugin.get_var_addr_and_size("v"),
        lambda: npu_plugin.malloc_shared_memory("v", [1], tf.float32),
    ],
)
def test_what_needs_remote_memory_is_refused_with_a_reason(call):
    with pytest.raises(NotImplementedError, match="RDMA.*CPU ranks do not have"):
        call()


def test_arguments_of_what_is_refused_are_checked_first():
    for call in (
        lambda: npu_plugin.init_rdma_pool("64"),
        lambda: npu_plugin.rdma_remote_register(5),
        lambda: npu_plugin.rdma_remote_init([], "64"),
        lambda: npu_plugin.get_var_addr_and_size(5),
    ):
        with pytest.raises(ValueError, match="allowed is a"):
            call()
    with tf.Graph().as_default():
        cache = npu_plugin.get_rdma_cache(tf.float32, [2, 3])
        assert cache.op.name == "rdma_w" and cache.shape.as_list() == [2, 3]
        assert cache.op.get_attr("_output_memory_type") == 1

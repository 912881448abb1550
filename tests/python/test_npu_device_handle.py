"""Opening, closing and using the device of TensorFlow 2, and the functions about the whole of it."""

from __future__ import annotations

import pytest
import tensorflow as tf

from tests.harness import run_ranks
from tests.multiprocess import scripts
from tests.python.test_hccl_ops_single import run, run_alone

pytestmark = pytest.mark.core

on_version_2 = pytest.mark.skipif(
    tf.__version__.startswith("1."), reason="npu_device computes in TensorFlow 2 only"
)


def test_the_handle_says_which_rank_this_is():
    script = scripts.eager(
        """
        import npu_device as npu
        from npu_device.npu_device import global_npu_ctx, get_ranksize
        handle = npu.open()
        assert handle is npu.open().as_default() is npu.open(handle.device_id)
        assert (handle.workers_num, handle.worker_id) == (size, rank) == (get_ranksize(), rank)
        assert handle.is_cluster_worker() and global_npu_ctx() is handle
        assert float(npu.distribute.all_reduce(tf.constant(float(rank)), "sum")) == 1.0
        npu.npu_device.close()
        npu.npu_device.close()
        assert global_npu_ctx() is None
        second = npu.open().as_default()
        assert second is not handle and second.worker_id == rank
        assert float(npu.distribute.all_reduce(tf.constant(2.0), "sum")) == 4.0
        npu.npu_device.close()
        # A job of its own: what was read before is forgotten.
        os.environ.update(RANK_SIZE="1", RANK_ID="0", ASCEND_DEVICE_ID="3")
        again = npu.open()
        assert (again.device_id, again.workers_num, again.is_cluster_worker()) == (3, 1, False)
        assert float(npu.distribute.all_reduce(tf.constant(3.0), "sum")) == 3.0  # and stays open
        """
    )
    run_ranks(2, script, limit=180).expect_success()


def test_a_forked_child_opens_for_itself():
    script = scripts.eager(
        """
        import npu_device as npu

        def in_child(call):
            child = os.fork()
            if child == 0:
                try:
                    call()
                except BaseException as error:
                    print("child:", repr(error)); sys.stdout.flush()
                    os._exit(1)
                os._exit(0)
            assert os.waitpid(child, 0)[1] == 0

        def another_device():
            assert npu.npu_device.global_npu_ctx() is None
            assert npu.open(7).device_id == 7
            npu.npu_device.close()
            assert npu.open(6).device_id == 6

        npu.open(1)
        in_child(another_device)
        assert npu.npu_device.global_npu_ctx().device_id == 1
        # The parent is a rank from here on, and stays one whatever the child does.
        assert float(npu.distribute.all_reduce(tf.constant(2.0), "sum")) == 2.0 * size
        in_child(another_device)
        assert float(npu.distribute.all_reduce(tf.constant(3.0), "sum")) == 3.0 * size
        """
    )
    run_ranks(2, script, limit=180).expect_success()


@on_version_2
def test_functions_behave_as_without_a_device():
    run(
        "eager",
        """
        import tensorflow as tf
        import npu_device as npu
        before = (tf.function, tf.py_function, tf.device)
        handle = npu.open().as_default()
        assert (tf.function, tf.py_function, tf.device) == before
        traces = []

        @tf.function
        def inner(x):
            traces.append("inner")
            return x * 2.0

        @tf.function
        def outer(x, variable):
            with handle.scope():
                y = inner(x) + inner(x)
            z, = tf.numpy_function(lambda a: a + np.float32(1), [y], [tf.float32])
            w = tf.py_function(lambda a: tf.reduce_sum(a), [y], tf.float32)
            variable.assign_add(w)
            return y, z

        total = tf.Variable(0.0)
        for step in range(1, 3):
            y, z = outer(tf.ones([3]), total)
            assert y.numpy().tolist() == [4.0] * 3 and z.numpy().tolist() == [5.0] * 3
            assert float(total) == 12.0 * step
        assert traces == ["inner"]
        with handle.scope():
            assert "CPU:0" in tf.ones([2]).device
            tape = tf.GradientTape()
            with tape:
                loss = inner(total) ** 2
            assert float(tape.gradient(loss, total)) == 8.0 * float(total)

        @npu.npu_compat_function(jit_compile=True, input_signature=[tf.TensorSpec([None])])
        def compat(x):
            return hccl_ops.allreduce(inner(x), "sum")
        assert compat(tf.ones([2])).numpy().tolist() == [2.0, 2.0]
        assert npu.npu_compat_function(lambda x: x + 1)(tf.constant(1)).numpy() == 2

        from tensorflow.python.ops import script_ops
        from npu_device.npu_device import NpuCompatEagerFunc, wrap_cpu_only_api
        assert wrap_cpu_only_api(tf.py_function)(lambda: 5, [], tf.int32).numpy() == 5
        script_ops.EagerFunc = NpuCompatEagerFunc  # as the original puts it there
        called = tf.function(lambda x: tf.py_function(lambda a: a * 3, [x], tf.float32))
        with tf.GradientTape() as tape:
            x = tf.constant(2.0)
            tape.watch(x)
            y = called(x)
        assert float(y) == 6.0 and float(tape.gradient(y, x)) == 3.0
        """,
    )


@on_version_2
def test_settings_that_are_for_the_device():
    output = run_alone(
        """
import logging
logging.basicConfig(level=logging.INFO)
import tensorflow.compat.v1 as tf
tf.enable_eager_execution()
import npu_device as npu
from npu_device import npu_device as device

def refused(kind, text, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused: " + text)

assert npu.global_options() is device.global_options()
npu.global_options().precision_mode = "allow_mix_precision"
npu.global_options().precision_mode = "force_fp16"
for _ in range(2):
    npu.set_npu_loop_size(100)
refused(ValueError, "loop_size", npu.set_npu_loop_size, 0)
refused(TypeError, "loop_size", npu.set_npu_loop_size, 2.5)
for mode in (0, 1, 2):
    npu.set_device_sat_mode(mode)
refused(ValueError, "allowed is 0", npu.set_device_sat_mode, 3)
assert npu.is_inf_nan_enabled() is True
options = npu.configs.run_context_options()
options.experimental.graph_memory_optimize_config.recompute = "manual"
value = tf.Variable(1.0)

@tf.function
def step():
    return value.assign_add(1.0)
for given in (options, None):
    with npu.npu_run_context(given):
        step()
with npu.npu_run_context():
    step()
assert float(value) == 4.0
refused(ValueError, "run_context_options()", npu.npu_run_context, {"recompute": "auto"})
npu.open()
options.experimental.resource_config_path = "here.json"
npu.global_options().dump_config.enable_dump = True
device.close()
npu.global_options().debug_dir = "here"
with device.watch_op_register():
    pass
device.stupid_repeat("hello", 3)

job = npu.global_options().as_dict()
refused(RuntimeError, "RANK_ID is not set", device.set_rank_table_file_env, job)
refused(TypeError, "global_kw_options", device.set_rank_table_file_env)
refused(RuntimeError, "CM_CHIEF_PORT is not set", device.set_cm_chief_worksize_env, job)
import os
os.environ.update(RANK_ID="1", CM_CHIEF_PORT="6000", CM_CHIEF_DEVICE="0")
device.set_rank_table_file_env(job, "table.json")
device.set_cm_chief_worksize_env(job, "10.0.0.1", 2)
assert (job["_distribute.rank_table"], job["_distribute.rank_id"]) == ("table.json", "1")
assert job["_distribute.cm_chief_ip"] == "10.0.0.1" and job["_distribute.cm_worker_size"] == "2"
assert job["_distribute.cm_chief_port"] == "6000"
        """
    )
    assert output.count("Global option precision_mode is for the NPU") == 1, output
    assert output.count("is set after npu_device.open()") == 1, output
    assert "Global option enable_dump is set after npu_device.open()" in output
    assert output.count("set_npu_loop_size is for the NPU") == 1, output
    assert output.count("set_device_sat_mode(0) has no effect") == 1, output
    assert output.count("hello") == 3, output

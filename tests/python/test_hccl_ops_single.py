"""The ops in one process that no launcher started: every call works and is the identity.

RANK_SIZE is not set. Run in a process of its own, since TensorFlow's mode is one for a process.
"""

from __future__ import annotations

import textwrap

import pytest

from tests.harness import run_ranks

pytestmark = pytest.mark.core

BEGINNING = {
    "graph": """
        tf.disable_eager_execution()

        def value_of(result):
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                return session.run(result)
    """,
    "eager": """
        tf.enable_eager_execution()

        def value_of(result):
            return tf.nest.map_structure(lambda t: t.numpy(), result)
    """,
}

COMMON = """
import logging, os, subprocess, sys
import numpy as np
import tensorflow.compat.v1 as tf
from npu_bridge.hccl import hccl_ops
from npu_device.distribute import hccl_ops as hccl_ops_2
from hccl.manage.api import *

def refused(kind, text, call):
    try:
        call()
    except kind as error:
        assert text in str(error), error
    else:
        raise AssertionError("not refused: " + text)
"""


def run(mode, body):
    """Runs a script, after the usual imports, as `run_alone` does."""
    return run_alone(COMMON + textwrap.dedent(BEGINNING[mode]) + textwrap.dedent(body))


def run_alone(script):
    """Runs a script in a process without any variable that describes a job; returns its output."""
    nothing = dict.fromkeys(("RANK_ID", "RANK_SIZE", "JOB_ID"))
    job = run_ranks(1, script, limit=120, environment=nothing)
    job.expect_success()
    return job.outputs[0]


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_every_op_is_the_identity(mode):
    run(
        mode,
        """
        x = np.array([[1.5, -2.0, 3.0]], np.float32)
        for given in (x, tf.constant(x), x.tolist()):
            for how in ("sum", "prod", "max", "min"):
                assert (value_of(hccl_ops.allreduce(given, how)) == x).all()
                assert (value_of(hccl_ops.reduce(given, how, 0)) == x).all()
                assert (value_of(hccl_ops.reduce_scatter(given, how, 1)) == x).all()
            assert (value_of(hccl_ops.allgather(given, 1)) == x).all()
            assert (value_of(hccl_ops_2.allgather(given, 1)) == x).all()
            assert (value_of(hccl_ops.broadcast([given], 0)[0]) == x).all()
            assert (value_of(hccl_ops.all_to_all_v(given, [3], [0], [3], [0])) == x[0]).all()
            assert (value_of(hccl_ops.all_to_all_v_c(given, [[3]], 0)) == x[0]).all()
        assert value_of(hccl_ops.allreduce(2.5, "sum")) == np.float32(2.5)
        assert value_of(hccl_ops.allreduce(np.int64(7), "max")) == 7
        assert get_rank_size() == 1 and get_rank_id() == 0
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_broadcast_takes_and_returns_lists_tuples_and_single_tensors(mode):
    run(
        mode,
        """
        mixed = [1, 2.5, np.array([True, False]), np.zeros([0, 3], np.int8)]
        result = hccl_ops.broadcast(mixed, 0)
        assert isinstance(result, list)
        values = value_of(result)
        assert [v.dtype.name for v in values] == ["int32", "float32", "bool", "int8"], values
        assert values[3].shape == (0, 3)
        assert isinstance(hccl_ops.broadcast(tuple(mixed), 0), tuple)
        assert value_of(hccl_ops.broadcast(4.0, 0)) == 4.0
        assert hccl_ops.broadcast([], 0) == []
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_overlapping_blocks_and_gaps(mode):
    run(
        mode,
        """
        sent = value_of(hccl_ops.all_to_all_v([1.0, 2.0, 3.0], [2], [1], [2], [3]))
        assert sent.tolist() == [0, 0, 0, 2, 3], sent
        assert value_of(hccl_ops.all_to_all_v([1.0, 2.0], [0], [0], [0], [0])).shape == (0,)
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_bad_arguments(mode):
    run(
        mode,
        """
        one = np.ones([4], np.float32)
        refused(ValueError, "one of min, max, prod, sum, got 'mean'",
                lambda: hccl_ops.allreduce(one, "mean"))
        refused(ValueError, "one of 0, 1, 2, got fusion=3 with fusion_id=-1",
                lambda: hccl_ops.allreduce(one, "sum", fusion=3))
        refused(ValueError, "HcomAllReduce 'HcomAllReduce': fusion=1 needs fusion_id=-1, "
                "got fusion=1 with fusion_id=4",
                lambda: hccl_ops.allreduce(one, "sum", fusion=1, fusion_id=4))
        for number in (-1, 0x80000000):
            refused(ValueError, "fusion=2 needs a fusion_id from 0 to 2147483647, got fusion=2 "
                    "with fusion_id=%d" % number,
                    lambda: hccl_ops.allreduce(one, "sum", fusion=2, fusion_id=number))
        calls = {
            "HcomAllGather": lambda f: hccl_ops.allgather(one, 1, fusion=f),
            "HcomAllToAllVC": lambda f: hccl_ops.all_to_all_v_c(one, [[4]], 0, fusion=f),
            "HcomBroadcast": lambda f: hccl_ops.broadcast([one], 0, fusion=f),
            "HcomReduce": lambda f: hccl_ops.reduce(one, "sum", 0, fusion=f),
            "HcomReduceScatter": lambda f: hccl_ops.reduce_scatter(one, "sum", 1, fusion=f),
        }
        for op, call in calls.items():
            refused(ValueError, op + " '" + op + "': fusion must be one of 0, 2, got fusion=1",
                    lambda: call(1))
        refused(TypeError, "fusion must be an integer", lambda: hccl_ops.allreduce(one, "sum", "1"))
        refused(TypeError, "dtype bool, allowed are int8", lambda: hccl_ops.allreduce(True, "sum"))
        refused(TypeError, "complex64", lambda: hccl_ops.allgather(np.ones(2, np.complex64), 1))
        refused(TypeError, "string", lambda: hccl_ops.broadcast([one, "text"], 0))
        refused(ValueError, "at least one dimension", lambda: hccl_ops.allgather(1.0, 1))
        refused(ValueError, "at least one dimension",
                lambda: hccl_ops.reduce_scatter(1.0, "sum", 1))
        refused(ValueError, "rank_size must be at least 1", lambda: hccl_ops.allgather(one, 0))
        refused(TypeError, "root_rank must be an integer", lambda: hccl_ops.broadcast([one], 0.5))
        refused(ValueError, "group", lambda: hccl_ops.allreduce(one, "sum", group=""))
        refused(ValueError, "group", lambda: hccl_ops.allreduce(one, "sum", group="x" * 128))
        refused(ValueError, "group", lambda: hccl_ops.allreduce(one, "sum", group=None))
        refused(TypeError, "send_counts must hold integers",
                lambda: hccl_ops.all_to_all_v(one, [1.5], [0], [1], [0]))
        refused(ValueError, "fully known", lambda: hccl_ops.receive([None], tf.float32, 0, 0))
        refused(ValueError, "fully known", lambda: hccl_ops.receive([-1], tf.float32, 0, 0))

        # These depend on the group, and are found when the op runs.
        wrong = tf.errors.InvalidArgumentError
        refused(wrong, "nobody", lambda: value_of(hccl_ops.allreduce(one, "sum", group="nobody")))
        refused(wrong, "root", lambda: value_of(hccl_ops.broadcast([one], 1)))
        refused(wrong, "rank_size", lambda: value_of(hccl_ops.allgather(one, 2)))
        refused(wrong, "-1", lambda: value_of(hccl_ops.all_to_all_v(one, [-1], [0], [1], [0])))
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_what_no_transport_serves_is_refused_when_it_runs(mode):
    run(
        mode,
        """
        addresses = np.zeros([1, 3], np.uint64)
        served = (tf.errors.UnimplementedError, "transport")
        refused(*served, lambda: value_of(hccl_ops.remote_read(addresses, tf.float32)))
        refused(*served, lambda: value_of(hccl_ops.gather_all_to_all_v(
            np.zeros([1, 2], np.uint64), [1], [1], [0], tf.float32, 4)))

        def write():
            op = hccl_ops.remote_write(addresses, [1.0], tf.float32)
            return None if op is None else tf.Session().run(op)
        refused(*served, write)
        refused(TypeError, "ref variable",
                lambda: hccl_ops.remote_ref_read(addresses, np.ones(2), np.zeros(1, np.uint64)))
        """,
    )


def test_ref_variables_of_the_remote_ops():
    run(
        "graph",
        """
        addresses = np.zeros([1, 3], np.uint64)
        offsets = np.zeros([1], np.uint64)
        cache = tf.get_variable("cache", [4], use_resource=False)
        served = (tf.errors.UnimplementedError, "transport")
        refused(*served, lambda: value_of(hccl_ops.remote_ref_read(addresses, cache, offsets)))
        refused(*served, lambda: value_of(hccl_ops.remote_scatter_write(addresses, cache, offsets)))
        """,
    )


def test_start_and_shutdown_are_ops():
    run(
        "graph",
        """
        from npu_bridge.estimator import npu_ops
        start, stop = npu_ops.initialize_system(), npu_ops.shutdown_system(name="end")
        assert isinstance(start, tf.Operation) and stop.name == "end"
        with tf.Session() as session:
            for round in range(3):
                session.run(start)
                create_group("mine", 1, [0])
                assert session.run(hccl_ops.allreduce(2.0, "sum", group="mine")) == 2.0
                session.run(stop)
        """,
    )


def test_npu_init_gives_a_script_what_it_needs():
    run(
        "graph",
        """
        del tf
        from npu_bridge.npu_init import *
        assert callable(tf.Session) and callable(tf.placeholder)
        for name in ("RewriterConfig", "config_pb2", "create_group", "destroy_group",
                     "get_rank_id", "get_rank_size", "hccl_ops", "npu_ops", "os", "session",
                     "set_split_strategy_by_idx", "set_split_strategy_by_size"):
            assert name in globals(), name
        import npu_bridge
        assert npu_bridge.helper.get_gen_ops() is hccl_ops.gen_hccl_ops
        assert npu_bridge.__version__
        """,
    )


@pytest.mark.parametrize("mode", ["graph", "eager"])
def test_all_reduce_of_values(mode):
    run(
        mode,
        """
        import npu_device as npu
        reduce = npu.distribute.all_reduce
        x = np.array([1.5, 2.5], np.float32)
        for how in ("mean", "sum", "max", "min", "prod"):
            assert (value_of(reduce(x, how)) == x).all()
        assert reduce(None) is None
        three = reduce([x, None, tf.constant(4.0)])
        assert isinstance(three, list) and three[1] is None
        assert (value_of(three[0]) == x).all() and value_of(three[2]) == 4.0
        assert isinstance(reduce((x, x)), tuple)
        for dtype in (np.int8, np.int32, np.int64, np.uint8, np.uint32, np.uint64):
            whole = value_of(reduce(np.array([3, 5], dtype), "mean"))
            assert whole.dtype == dtype and whole.tolist() == [3, 5]
        slices = tf.IndexedSlices(x[:, None], np.array([4, 2]), np.array([6, 1]))
        result = reduce(slices)
        assert value_of(result.values).tolist() == x[:, None].tolist()
        assert value_of(result.indices).tolist() == [4, 2]
        refused(ValueError, "IndexedSlices", lambda: reduce(slices, "max"))
        refused(ValueError, "one of mean, min", lambda: reduce(x, "average"))
        """,
    )


def test_opening_the_device():
    run(
        "eager",
        """
        import npu_device as npu
        handle = npu.open()
        assert handle.as_default() is handle and npu.open() is handle and npu.open(0) is handle
        assert (handle.workers_num, handle.worker_id, handle.is_cluster_worker()) == (1, 0, False)
        refused(RuntimeError, "device 0 is open", lambda: npu.open(1))
        refused(ValueError, "device_id", lambda: npu.open(-1))
        with handle.scope(), tf.device(handle.name()):
            assert float(tf.constant(1.0) + 1.0) == 2.0
        npu.npu_device.close()
        assert npu.open(1).device_id == 1

        @npu.npu_compat_function
        def twice(x):
            return hccl_ops.allreduce(x, "sum") * 2
        assert float(twice(tf.constant(2.0))) == 4.0
        """,
    )


def test_importing_needs_no_tensorflow_until_it_is_used():
    run(
        "eager",
        """
        code = "import sys, npu_device, hccl.manage.api; assert 'tensorflow' not in sys.modules"
        subprocess.run([sys.executable, "-c", code], check=True)
        """,
    )


@pytest.mark.parametrize("package", ["npu_bridge", "npu_device"])
@pytest.mark.parametrize("keep", ["", "1"])
def test_another_hccl_package_on_the_path(tmp_path, package, keep):
    """CANN's own: its modules have been imported already, or would be found first."""
    modules = tmp_path / "hccl" / "manage"
    modules.mkdir(parents=True)
    for folder in (tmp_path / "hccl", modules):
        (folder / "__init__.py").write_text("")
    (modules / "api.py").write_text("def create_group(*_):\n    raise SystemExit('not ours')\n")
    for beginning in ("", "import hccl.manage.api"):
        script = """
            import logging, os, sys
            logging.basicConfig(level=logging.INFO)
            os.environ["NPU_BRIDGE_KEEP_HCCL"] = %r
            sys.path.insert(0, %r)
            %s
            import npu_device
            import %s
            from hccl.manage import api
            print("found", api.__file__)
            """
        output = run_alone(textwrap.dedent(script) % (keep, str(tmp_path), beginning, package))
        theirs = "found " + str(modules) in output
        assert theirs == bool(keep), output
        assert output.count("NPU_BRIDGE_KEEP_HCCL=1 keeps that") == (0 if keep else 1), output


def test_autograph_leaves_our_functions_alone():
    """Rewriting them would cost every trace a second."""
    run(
        "eager",
        """
        import traceback
        import npu_device as npu
        from npu_device._core import library
        real, stacks = library.ops, []
        library.ops = lambda: (stacks.append(traceback.extract_stack()), real())[1]
        calls = [lambda x: hccl_ops.allreduce(x, "sum"), lambda x: hccl_ops_2.allgather(x, 1),
                 npu.distribute.all_reduce, npu.distribute.broadcast]
        for call in calls:
            tf.function(lambda x: call(x))(tf.ones([2]))
            ours = [f for f in stacks.pop() if f.name in ("all_reduce", "all_gather", "broadcast")]
            assert ours and all(f.filename.endswith(".py") for f in ours), ours
            assert not any("__autograph" in f.filename for f in ours), ours
        """,
    )

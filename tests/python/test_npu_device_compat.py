"""npu_device.compat: scripts ported from TensorFlow 1 find npu_bridge under npu_device's paths."""

from __future__ import annotations

import textwrap

import pytest
import tensorflow as tf

from tests.harness import run_ranks

pytestmark = pytest.mark.core

on_version_2 = pytest.mark.skipif(
    tf.__version__.startswith("1."), reason="TensorFlow 1 has npu_bridge itself"
)

PORTED = """
import sys
import numpy as np
import tensorflow as tf
import npu_device
assert not any(name.split(".")[0] == "npu_bridge" for name in sys.modules)
import npu_device.compat.v1
assert not any(name.split(".")[0] == "npu_bridge" for name in sys.modules)
from npu_device.compat.v1.npu_init import *
npu_device.compat.enable_v1()
assert not tf.executing_eagerly()

builder = npu_device.compat.v1.SessionConfigBuilder()
builder.parameter_map["use_off_line"].b = True
config = builder.session_config
assert config.allow_soft_placement
rewriting = config.graph_options.rewrite_options
assert rewriting.remapping == RewriterConfig.OFF
assert [one.name for one in rewriting.custom_optimizers] == ["NpuOptimizer"]
given = tf.compat.v1.ConfigProto(log_device_placement=True)
assert npu_device.compat.utils.SessionConfigBuilder(given).session_config is given

w = tf.compat.v1.get_variable("w", initializer=[float(get_rank_id())])
start = hccl_ops.broadcast([w], 0)
loss = tf.reduce_sum((w - float(get_rank_id())) ** 2)
optimizer = NPUDistributedOptimizer(tf.compat.v1.train.GradientDescentOptimizer(0.25))
train = optimizer.minimize(loss)
with tf.compat.v1.Session(config=config) as session:
    session.run(tf.compat.v1.global_variables_initializer())
    session.run(start)
    for _ in range(40):
        session.run(train)
    weights = session.run(w)
assert abs(weights[0] - (get_rank_size() - 1) / 2) < 1e-5, weights
from npu_device._core import session_options
assert session_options.options() == {"use_off_line": True}
"""


@on_version_2
def test_a_ported_script_trains_on_two_ranks():
    run_ranks(2, PORTED, limit=180).expect_success()


def test_modules_are_those_of_npu_bridge():
    script = textwrap.dedent(
        """
        import importlib, sys
        import npu_device.compat.v1.estimator.npu.npu_config as config
        import npu_device.compat.v1.hccl
        from npu_device.compat.v1.hccl import hccl_ops
        from npu_device.compat.v1.estimator.npu import npu_scope, util
        from npu_device.compat.v1.estimator import npu_ops
        import npu_bridge.hccl.hccl_ops
        from npu_bridge.estimator.npu.npu_config import NPURunConfig
        assert hccl_ops is npu_bridge.hccl.hccl_ops is npu_device.compat.v1.hccl.hccl_ops
        assert config.NPURunConfig is NPURunConfig
        assert npu_bridge.hccl.__spec__.name == "npu_bridge.hccl" == npu_bridge.hccl.__name__
        files = [m.__file__ for m in list(sys.modules.values()) if getattr(m, "__file__", None)]
        loaded = {}
        for name, module in list(sys.modules.items()):
            if "npu_bridge" in str(getattr(module, "__file__", "")) and "_native" not in name:
                loaded.setdefault(module.__file__, set()).add(id(module))
        assert loaded and all(len(one) == 1 for one in loaded.values()), "loaded twice"
        for missing in ("nothing", "estimator.nothing", "nothing.below", "npu_init.below"):
            try:
                importlib.import_module("npu_device.compat.v1." + missing)
            except ModuleNotFoundError as error:
                assert "npu_device.compat.v1." in str(error), error
            else:
                raise AssertionError(missing)
        import npu_device
        assert npu_device.compat.enable_v1 is npu_device.npu_device.enable_v1
        """
    )
    nothing = dict.fromkeys(("RANK_ID", "RANK_SIZE", "JOB_ID"))
    run_ranks(1, script, limit=120, environment=nothing).expect_success()


@on_version_2
@pytest.mark.parametrize("early", [True, False])
def test_what_npu_device_gives_out_is_there_whatever_was_imported_before(early):
    """Importing npu_device.train.npu_convert makes `npu_device.train` another module."""
    modules = """
import npu_device.compat.v1.npu_init
import npu_device.configs.npu_config
import npu_device.ops.train_ops
import npu_device.train.npu_convert
"""
    script = """
import npu_device as npu
%s
assert npu.configs.run_context_options().experimental
assert float(npu.ops.gelu(0.0)) == 0.0
assert npu.train.optimizer.NpuLossScaleOptimizer.__name__ == "NpuLossScaleOptimizer"
assert npu.compat.enable_v1 and npu.compat.v1.SessionConfigBuilder
%s
assert npu.configs.run_context_options and npu.ops.gelu and npu.compat.enable_v1
assert npu.train.optimizer.NpuLossScaleOptimizer and npu.compat.v1.SessionConfigBuilder
for name in npu.__all__:
    getattr(npu, name)
"""
    script = script % ((modules, "") if early else ("", modules))
    nothing = dict.fromkeys(("RANK_ID", "RANK_SIZE", "JOB_ID"))
    run_ranks(1, script, limit=120, environment=nothing).expect_success()

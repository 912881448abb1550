"""NPURunConfig and the groups of options: what they take, refuse, keep and say."""

from __future__ import annotations

import copy
import inspect
import json
import logging

import pytest
import tensorflow.compat.v1 as tf

from npu_bridge.estimator.npu import npu_config, npu_estimator, run_config_options
from npu_bridge.estimator.npu.npu_config import (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    GraphMemoryOptimizeConfig,
    MemoryConfig,
    NPURunConfig,
    ProfilingConfig,
)
from npu_device._core import session_options

pytestmark = pytest.mark.core


@pytest.fixture
def needs_estimator(has_estimator):
    if not has_estimator:
        pytest.skip("this TensorFlow has no tf.estimator")


@pytest.fixture(autouse=True)
def _no_cluster(monkeypatch):
    for name in ("TF_CONFIG", "LOCAL_CHECKPOINT_DIR", "RESTORE_FROM"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"iterations_per_loop": 0}, ValueError, "iterations_per_loop is 0"),
        ({"iterations_per_loop": 1.5}, TypeError, "iterations_per_loop is 1.5 of type float"),
        ({"iterations_per_loop": True}, TypeError, "iterations_per_loop is True"),
        ({"mix_compile_mode": 1}, TypeError, "mix_compile_mode is 1, allowed is True or False"),
        ({"horovod_mode": "yes"}, TypeError, "horovod_mode is 'yes'"),
        (
            {"mix_compile_mode": True, "iterations_per_loop": 2},
            ValueError,
            "iterations_per_loop is 2 and mix_compile_mode is True",
        ),
        ({"save_checkpoints_steps": "x"}, TypeError, "save_checkpoints_steps is 'x', allowed is a"),
        ({"keep_checkpoint_max": []}, TypeError, "keep_checkpoint_max is []"),
        ({"graph_run_mode": 2}, ValueError, "graph_run_mode is 2, allowed is 0"),
        ({"graph_run_mode": -1}, ValueError, "graph_run_mode is -1"),
        ({"enable_exception_dump": 3}, ValueError, "enable_exception_dump is 3, allowed is one of"),
        (
            {"enable_exception_dump": "1"},
            TypeError,
            "enable_exception_dump is '1', allowed is an int",
        ),
        (
            {"precision_mode": "fp64"},
            ValueError,
            "precision_mode is 'fp64', allowed is one of allow_",
        ),
        ({"precision_mode": 16}, TypeError, "precision_mode is 16, allowed is a str"),
        ({"precision_mode_v2": "force_fp16"}, ValueError, "precision_mode_v2"),
        ({"hcom_parallel": "True"}, TypeError, "hcom_parallel is 'True', allowed is a bool"),
        ({"hcom_parallel": 2}, TypeError, "hcom_parallel is 2"),
        ({"op_debug_level": 5}, ValueError, "op_debug_level"),
        ({"aoe_mode": "5"}, ValueError, "aoe_mode is '5', allowed is one of 1, 2, 4, 3"),
        ({"jit_compile": "yes"}, ValueError, "jit_compile is 'yes', allowed is one of auto"),
        ({"variable_placement": "device"}, ValueError, "allowed is one of Device, Host"),
        ({"topo_sorting_mode": 4}, ValueError, "topo_sorting_mode"),
        ({"deterministic": 3}, ValueError, "deterministic"),
        ({"input_fusion_size": 2**25 + 1}, ValueError, "from 0 to 33554432"),
        ({"graph_max_parallel_model_num": 0}, ValueError, "from 1 to 2147483647"),
        ({"stream_sync_timeout": -2}, ValueError, "from -1"),
        ({"hccl_timeout": -1}, ValueError, "hccl_timeout is -1"),
        ({"session_device_id": -1}, ValueError, "session_device_id"),
        ({"graph_memory_max_size": 1.5}, TypeError, "graph_memory_max_size is 1.5"),
        ({"dump_config": {}}, ValueError, "dump_config is {}, allowed is an object of DumpConfig"),
        ({"memory_config": 1}, ValueError, "memory_config"),
        ({"profiling_config": True}, ValueError, "profiling_config"),
        ({"experimental_config": "LB"}, ValueError, "experimental_config"),
        ({"dynamic_input_config": "1,2"}, ValueError, "dynamic_input_config"),
        ({"distribute": object()}, ValueError, "TF_CONFIG has no cluster"),
        ({"save_checkpoints_steps": 5, "save_checkpoints_secs": 5}, ValueError, ""),
    ],
)
def test_what_a_run_config_refuses(needs_estimator, arguments, error, text):
    with pytest.raises(error) as caught:
        NPURunConfig(**arguments)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: DumpConfig(dump_mode="both"), ValueError, "DumpConfig: dump_mode is 'both'"),
        (lambda: DumpConfig(dump_debug_mode="x"), ValueError, "aicore_overflow"),
        (lambda: DumpConfig(dump_data="sums"), ValueError, "allowed is one of tensor, stats"),
        (lambda: DumpConfig(enable_dump="yes"), TypeError, "allowed is a bool"),
        (lambda: DumpConfig(dump_path=3), TypeError, "allowed is a str"),
        (lambda: MemoryConfig(static_memory_policy=9), ValueError, "static_memory_policy is 9"),
        (lambda: MemoryConfig(atomic_clean_policy=2), ValueError, "allowed is one of 0, 1"),
        (lambda: MemoryConfig(variable_use_1g_huge_page="1"), TypeError, "allowed is an int"),
        (lambda: ProfilingConfig(enable_profiling="on"), TypeError, "enable_profiling is 'on'"),
        (lambda: ProfilingConfig(True, 5), TypeError, "profiling_options is 5"),
        (lambda: ProfilingConfig(True, ["x", None]), TypeError, "profiling_options is ['x', None]"),
        (lambda: GraphMemoryOptimizeConfig(recompute="on"), ValueError, "recompute is 'on'"),
        (lambda: GraphMemoryOptimizeConfig(graph_slice=1), ValueError, "auto, manual"),
        (
            lambda: ExperimentalConfig(graph_memory_optimize_config="auto"),
            ValueError,
            "GraphMemory",
        ),
        (lambda: ExperimentalConfig(enable_graph_parallel="1"), TypeError, "a bool"),
        (lambda: DynamicInputConfig("a:-1", "1;2", 2, 0), ValueError, "dynamic_node_type is 2"),
        (lambda: DynamicInputConfig(["a"], "1;2", 1, 0), TypeError, "input_shape"),
    ],
)
def test_what_groups_of_options_refuse(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_what_old_scripts_pass_is_taken():
    assert MemoryConfig(atomic_clean_policy=True)._atomic_clean_policy == 1
    assert DumpConfig(enable_dump=1)._enable_dump is True
    assert ProfilingConfig(True, ["task_trace", "training_trace"])._profiling_options == (
        "task_trace:training_trace"
    )


def full():
    """A value other than the default for every argument that is an option."""
    arguments = {}
    for argument in run_config_options.ARGUMENTS:
        option = session_options.BY_NAME[argument.name]
        default = inspect.signature(NPURunConfig.__init__).parameters[argument.name].default
        kind = option.kinds[0]
        choices = option.values + option.older_values
        if kind == "b":
            choices = [not default]
        elif kind == "i":
            choices = [int(choice) for choice in choices] or [7]
        else:
            choices = choices or ["text"]
        arguments[argument.name] = next(choice for choice in choices if choice != default)
    arguments["mix_compile_mode"] = True
    arguments["graph_memory_max_size"] = 1024
    arguments["variable_memory_max_size"] = "2 * 1024"
    return arguments


def test_every_option_is_kept_and_becomes_a_parameter(needs_estimator, caplog):
    caplog.set_level(logging.INFO, logger="npu_bridge")
    config = NPURunConfig(
        **full(),
        profiling_config=ProfilingConfig(True, '{"output": "/tmp"}'),
        memory_config=MemoryConfig(1, 2, "MemoryPriority", 1),
        dump_config=DumpConfig(True, "/d", "0|5", "all", True, "all", "stats", "a b"),
        dynamic_input_config=DynamicInputConfig("a:-1", "1;2", 1, 0),
        experimental_config=ExperimentalConfig(
            "SINGLE", "0:0", "SPMD", "0", GraphMemoryOptimizeConfig("auto", "manual"), True,
            "/o", "/c", "/r", "fast",
        ),
    )  # fmt: skip
    options = run_config_options.parameter_map(config)
    for name, value in full().items():
        assert options[name] == (str(value) if name.endswith("max_size") else value), name
    assert options["dump_layer"] == "a b" and options["dynamic_dims"] == "1;2"
    assert options["experimental_logical_device_id"] == "0:0"
    assert options["recompute"] == "auto" and options["graph_slice"] == "manual"
    assert options["job"] == "localhost" and options["task_index"] == 0
    # All that NpuOptimizer knows can be said, but for what the TF1 API sets in other ways.
    missing = set(session_options.BY_NAME) - set(options)
    assert missing == {
        "in_out_pair", "in_out_pair_flag", "lower_functional_ops", "es_cluster_config",
        "graph_exec_timeout", "auto_tune_mode", "mstune_mode", "fp_point", "bp_point",
    }  # fmt: skip
    assert set(options) <= set(session_options.BY_NAME)
    said = [record.getMessage() for record in caplog.records]
    for name in full():
        assert sum(f"option {name} " in line or f"option {name}," in line for line in said) == 1, (
            name
        )
    assert "NPURunConfig argument dump_config is for the NPU" in " ".join(said)
    NPURunConfig(**full())
    assert len(caplog.records) == len(said), "said twice"


def test_options_that_are_not_set_say_nothing(needs_estimator, caplog):
    caplog.set_level(logging.INFO, logger="npu_bridge")
    config = NPURunConfig()
    assert not caplog.records
    assert config.save_checkpoints_steps == 100 and config.save_summary_steps == 0
    assert config.keep_checkpoint_max == 5 and config.log_step_count_steps == 100
    options = run_config_options.parameter_map(config)
    assert options["use_off_line"] is True and options["iterations_per_loop"] == 1
    assert options["hcom_parallel"] is True and options["jit_compile"] == "auto"
    assert "precision_mode" not in options and "work_path" not in options
    assert NPURunConfig(aoe_mode="2").__dict__["_aoe_mode"] == "2"
    assert run_config_options.parameter_map(NPURunConfig(aoe_mode="2"))["work_path"] == "./"


def test_an_estimator_puts_the_options_into_its_sessions(needs_estimator, tmp_path):
    given = tf.ConfigProto(intra_op_parallelism_threads=3)
    entry = given.graph_options.rewrite_options.custom_optimizers.add()
    entry.name = "NpuOptimizer"
    entry.parameter_map["precision_mode"].s = b"force_fp16"
    entry.parameter_map["iterations_per_loop"].i = 3
    before = copy.deepcopy(given)
    config = NPURunConfig(
        iterations_per_loop=10, session_config=given, precision_mode="force_fp32", model_dir="m"
    )
    estimator = npu_estimator.NPUEstimator(lambda features, labels, mode: None, config=config)
    assert given == before, "the script's own configuration is left as it was"
    made = estimator.config.session_config
    assert made.intra_op_parallelism_threads == 3
    optimizers = made.graph_options.rewrite_options.custom_optimizers
    assert [one.name for one in optimizers] == ["NpuOptimizer"]
    parameters = optimizers[0].parameter_map
    assert parameters["precision_mode"].s == b"force_fp16", "the script's own entry stays"
    assert parameters["iterations_per_loop"].i == 10
    assert parameters["use_off_line"].b and parameters["device_type"].s == b"default_device_type"
    copied = config.replace(model_dir="other")
    assert copied.model_dir == "other" and copied.iterations_per_loop == 10
    with pytest.raises(ValueError, match="allowed is an NPURunConfig"):
        npu_estimator.NPUEstimator(lambda features: None, config=tf.estimator.RunConfig())
    with pytest.raises(TypeError, match="model_fn is 'x', allowed is what is callable"):
        npu_estimator.NPUEstimator("x", config=config)
    with pytest.raises(ValueError, match="model_dir"):
        npu_estimator.NPUEstimator(
            lambda features: None, str(tmp_path), NPURunConfig(model_dir="other")
        )


def test_an_estimator_starts_from_what_the_environment_names(needs_estimator, monkeypatch):
    def source(**arguments):
        config = NPURunConfig(model_dir="m")
        estimator = npu_estimator.NPUEstimator(lambda features: None, config=config, **arguments)
        settings = estimator._warm_start_settings
        return settings and settings.ckpt_to_initialize_from

    assert source() is None
    monkeypatch.setenv("RESTORE_FROM", "/second")
    assert source() == "/second"
    monkeypatch.setenv("LOCAL_CHECKPOINT_DIR", "/first")
    assert source() == "/first" and source(warm_start_from="/own") == "/own"


def test_parameter_servers_need_both_descriptions(needs_estimator, monkeypatch):
    cluster = {"cluster": {"ps": ["a:1"], "chief": ["b:1"]}, "task": {"type": "ps", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(ValueError, match="distribute is None and TF_CONFIG has a cluster"):
        NPURunConfig(mix_compile_mode=True)
    with pytest.raises(ValueError, match="mix_compile_mode must be True"):
        NPURunConfig(distribute=tf.distribute.OneDeviceStrategy("/cpu:0"))
    monkeypatch.setenv("TF_CONFIG", "no JSON")
    with pytest.raises(ValueError, match="TF_CONFIG is 'no JSON'"):
        NPURunConfig()


def test_without_an_estimator_a_sentence_names_the_versions_that_have_it(has_estimator):
    if has_estimator:
        pytest.skip("this TensorFlow has tf.estimator")
    from npu_bridge.npu_init import (
        NPUEstimator,
        NPUEstimatorSpec,
        keras_to_npu,
        npu_run_config_init,
    )

    for call in (
        NPURunConfig,
        lambda: NPUEstimator(lambda features: None, config=None),
        lambda: NPUEstimatorSpec("train"),
        npu_estimator.no_check_override().__enter__,
        keras_to_npu.model_to_npu_estimator,
        npu_run_config_init,
    ):
        with pytest.raises(RuntimeError, match="has no tf.estimator.* TensorFlow 1.15 to 2.15"):
            call()


def test_a_decorated_session_gets_npu_optimizer():
    class Session:
        def __init__(self, target="", graph=None, config=None):
            self.given = (target, graph, config)

    init = npu_config.decorator_tf_session(Session.__init__)
    own = tf.ConfigProto(intra_op_parallelism_threads=2)
    before = copy.deepcopy(own)
    for arguments, named in (
        ((), {}),
        ((), {"config": own}),
        (("t", "g", own), {}),
        (("t",), {"graph": "g", "config": own}),
    ):
        session = Session()
        init(session, *arguments, **named)
        target, graph, config = session.given
        assert (target, graph) == (("t", "g") if arguments else ("", None))
        names = [one.name for one in config.graph_options.rewrite_options.custom_optimizers]
        assert names == ["NpuOptimizer"] and config.allow_soft_placement
        assert config.intra_op_parallelism_threads == (2 if named or arguments else 0)
    assert own == before
    with pytest.raises(ValueError, match="no parameter config"):
        npu_config.set_npu_default_config(lambda self: None, (), {})

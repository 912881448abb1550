"""npu_device.global_options(): every option, what may be assigned to it, and what is said of it."""

from __future__ import annotations

import copy
import logging
import os
import pathlib
import pickle
import re

import pytest

from npu_device._core import device_options, session_options
from npu_device.configs import (
    dump_config,
    experimental_config,
    npu_config,
    npu_run_context_option,
    option_base,
)

pytestmark = pytest.mark.core

PATHS = {
    "NpuConfig": (),
    "NpuDumpConfig": ("dump_config",),
    "NpuAoeConfig": ("aoe_config",),
    "NpuProfilingConfig": ("profiling_config",),
    "MemoryConfig": ("memory_config",),
    "NpuExperimentalConfig": ("experimental",),
    "NpuMultiBranchesConfig": ("experimental", "multi_branches_config"),
    "LogicalDeviceDeployConfig": ("experimental", "logical_device_deploy_config"),
    "ModelDeployConfig": ("experimental", "model_deploy_config"),
    "GraphMemoryOptimizeConfig": ("experimental", "graph_memory_optimize_config"),
    "GraphParallelConfig": ("experimental", "graph_parallel_config"),
}
OPTIONS = [(group, option) for group in PATHS for option in device_options.GROUPS[group]]


@pytest.fixture(autouse=True)
def rank_0(monkeypatch):
    for name in ("RANK_ID", "RANK_SIZE", "CM_WORKER_SIZE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def options():
    return npu_config.NpuConfig()


@pytest.fixture
def said(caplog):
    caplog.set_level(logging.INFO, "npu_bridge")

    def take():
        taken = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return taken

    return take


def group_of(options, group):
    for part in PATHS[group]:
        options = getattr(options, part)
    assert type(options).__name__ == group
    return options


def test_the_table_is_in_order():
    assert set(device_options.GROUPS) == set(PATHS)
    for group, option in OPTIONS:
        assert option.explanation, (group, option)
        assert option.default is None or option.values is None or option.default in option.values
        assert option.limits is None or option.values is None
    names = [option.name for _, option in OPTIONS]
    twice = {name for name in names if names.count(name) > 1}
    assert twice == {"enable_graph_parallel"}  # an older release had it in a group of its own
    print(len(names), "options")
    assert len(names) > 70


@pytest.mark.parametrize(("group", "option"), OPTIONS, ids=lambda one: getattr(one, "name", one))
def test_an_option_takes_what_the_table_says_and_nothing_else(options, said, group, option):
    held = group_of(options, group)
    value = getattr(held, option.name)
    assert isinstance(value, option_base.OptionValue) and value.default == option.default
    if option.limits:
        right, wrong = [*option.limits, str(option.limits[0])], [option.limits[0] - 1, "x", True]
    elif option.values:
        right, wrong = [*option.values, *option.older_values], ["no such value", 17]
    else:
        right, wrong = ["text", 3, pathlib.Path("a") / "b"], [[1], {}, object()]
    for one in right:
        setattr(held, option.name, one)
        text = {"True": "1", "False": "0", "None": None}.get(str(one), str(one))
        assert value.value == text and options.as_dict().get(option.name) == text
    messages = said()
    assert len(messages) == 1 and messages[0][0] == "INFO"
    assert option.name in messages[0][1] and device_options.NPU_ONLY in messages[0][1]
    assert option.older is None or "older release" in messages[0][1]
    before = value.value
    for one in wrong:
        with pytest.raises((TypeError, ValueError)) as caught:
            setattr(held, option.name, one)
        text = str(caught.value)
        assert f"{group} option {option.name} is " in text and "allowed is" in text
        assert all(repr(each) in text for each in option.values or ())
    assert value.value == before and said() == []


def test_what_is_wrong_is_told_with_what_is_right(options):
    def refusal(name, value, kind=ValueError, held=options):
        with pytest.raises(kind) as caught:
            setattr(held, name, value)
        return str(caught.value)

    assert "Was precision_mode meant?" in refusal("percision_mode", "force_fp16")
    assert "Was 'allow_mix_precision' meant?" in refusal("precision_mode", "allow_mix_precison")
    assert "write dump_config.dump_path." in refusal("dump_path", "here")
    assert "write experimental.graph_memory_optimize_config.recompute." in refusal(
        "recompute", "auto"
    )
    assert "Was aoe_config.aoe_mode meant?" in refusal("aoe_mod", "1")
    assert "True, False" in refusal("hcom_parallel", "yes", TypeError)
    assert "It has enable_dump, dump_path" in refusal("q", 1, held=options.dump_config)
    assert "dump_config.enable_dump" in refusal("dump_config", True)
    with pytest.raises(AttributeError, match="Was debug_dir meant"):
        _ = options.debug_dirr
    assert not hasattr(options, "no_such_thing")


def test_as_dict_is_flat_and_holds_what_has_a_value(options):
    found = options.as_dict()
    assert found["graph_run_mode"] == "1" and found["hcom_parallel"] == "1"
    assert found["enable_dump"] == "0" and found["dump_mode"] == "output"
    assert found["profiling_options"].startswith('{"output":"./"')
    assert "precision_mode" not in found and "auto_tune_mode" not in found
    options.experimental.multi_branches_config.dynamic_dims = "1;2"
    options.aoe_config.aoe_mode = "1"
    options.enable_small_channel = 1
    options.graph_memory_max_size = str(26 * 1024**3)
    changed = options.as_dict()
    news = {name: changed[name] for name in changed if changed[name] != found.get(name)}
    assert news == {
        "dynamic_dims": "1;2", "aoe_mode": "1", "enable_small_channel": "1",
        "graph_memory_max_size": "27917287424",
    }  # fmt: skip
    assert all(isinstance(one, str) for one in changed.values())
    assert repr(options) == f"NpuConfig({changed!r})"
    assert repr(options.aoe_config.aoe_mode) == "OptionValue('1')"


def test_options_are_copied_and_replaced_as_a_group(options):
    options.dump_config.dump_step = "0|5"
    for other in (copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert other.as_dict() == options.as_dict()
        other.dump_config.dump_step = "1"
    assert options.dump_config.dump_step.value == "0|5"
    options.dump_config = dump_config.NpuDumpConfig()
    assert options.dump_config.dump_step.value is None


def test_what_an_older_release_took_says_what_takes_its_place(options, said):
    options.auto_tune_mode = "RL,GA"
    options.op_select_implmode = "high_precision"
    options.variable_format_optimize = True
    texts = [text for _, text in said()]
    assert "(use aoe_config.aoe_mode instead)" in texts[0]
    assert "(use op_precision_mode instead)" in texts[1]
    assert "of an older release, is for the NPU" in texts[2]
    assert isinstance(options.auto_tune_mode, option_base.DeprecatedValue)
    assert options.auto_tune_mode.replacement == "aoe_config.aoe_mode"


def test_only_rank_0_says_that_an_option_has_no_effect(options, said, monkeypatch):
    monkeypatch.setitem(os.environ, "RANK_SIZE", "2")
    monkeypatch.setitem(os.environ, "RANK_ID", "1")
    options.hcom_parallel = False
    assert said() == []
    monkeypatch.setitem(os.environ, "RANK_ID", "0")
    options.hcom_parallel = True
    assert len(said()) == 1


def test_classes_that_scripts_derive_themselves(said):
    class Mine(option_base.NpuBaseConfig):
        def __init__(self):
            self.size = option_base.OptionValue(1, [1, 2])
            self.old = option_base.DeprecatedValue(None, replacement="size")
            super().__init__()

    mine = Mine()
    mine.size = 2
    assert mine.as_dict() == {"size": "2"} and mine.size.optional == [1, 2]
    with pytest.raises(ValueError, match="Mine option size is 3 of type int, allowed is one of 1"):
        mine.size = 3
    with pytest.raises(TypeError):
        mine.size.value = "2"
    mine.size.value = 1
    mine.old = "anything"
    assert mine.as_dict() == {"size": "1", "old": "anything"} and said() == []


def test_context_options_are_the_experimental_ones():
    context = npu_run_context_option.NpuRunContextOptions()
    assert isinstance(context.experimental, experimental_config.NpuExperimentalConfig)
    context.experimental.graph_memory_optimize_config.recompute = "manual"
    assert context.as_dict()["recompute"] == "manual"
    assert "precision_mode" not in context.as_dict()


def test_options_that_sessions_have_too_take_the_same_values():
    for _, option in OPTIONS:
        known = session_options.BY_NAME.get(option.name)
        if known is None or not known.values or not option.values:
            continue
        theirs = set(known.values) | {"None"}
        ours = {re.sub(r"^True$", "1", re.sub(r"^False$", "0", str(v))) for v in option.values}
        assert ours <= theirs, option.name

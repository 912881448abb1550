"""The options of NpuOptimizer: what is kept of them, and what is said once.

The table stands in npu_device/_core/session_options.py; tests/python/test_npu_optimizer.py has the
way from a session to here.
"""

from __future__ import annotations

import inspect
import logging
import os
import subprocess
import sys

import pytest

from npu_device._core import session_options


@pytest.fixture(autouse=True)
def sessions(monkeypatch):
    """Each test starts without sessions, as rank 0 of one rank."""
    session_options._kept.clear()
    for name in ("RANK_ID", "RANK_SIZE", "CM_WORKER_SIZE"):
        monkeypatch.delenv(name, raising=False)
    yield
    session_options._kept.clear()


@pytest.fixture
def said(caplog):
    """Returns what was said since it was last asked: level and text."""
    caplog.set_level(logging.INFO, "npu_bridge")

    def take():
        taken = [(record.levelname, record.getMessage()) for record in caplog.records]
        caplog.clear()
        return taken

    return take


def record(**values):
    """Passes options as native code does: b=True is {"name": ("b", True)}."""
    session_options.record([(name.encode(), *entry) for name, entry in values.items()])


def warnings(taken):
    return [text for level, text in taken if level == "WARNING"]


def test_the_table_is_in_order():
    names = [option.name for option in session_options.OPTIONS]
    assert len(names) == len(set(names)) == len(session_options.BY_NAME) > 100
    effects = (session_options.USED, session_options.NPU_ONLY, session_options.NOT_IN_BUILD)
    for option in session_options.OPTIONS:
        assert option.kinds and set(option.kinds) <= set("bifs"), option
        assert option.meaning and option.effect in effects, option
        assert not set(option.values) & set(option.older_values), option
        assert option.values or not option.older_values, option
        if "b" not in option.kinds and option.kinds != ("s",):
            assert all(value.isdigit() for value in option.values), option


# The published arguments of NPURunConfig that are no options of a session by the same name.
_RUN_CONFIG_ONLY = {
    "profiling_config", "model_dir", "tf_random_seed", "save_summary_steps",
    "save_checkpoints_steps", "save_checkpoints_secs", "session_config", "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours", "log_step_count_steps", "distribute", "dump_config",
    "horovod_mode", "dynamic_input_config", "train_distribute", "eval_distribute", "memory_config",
    "experimental_config",
}  # fmt: skip


def test_every_published_argument_of_the_run_config_is_an_option():
    path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "api", "signatures.tsv")
    with open(path, encoding="utf-8") as file:
        line = next(line for line in file if "\tNPURunConfig\t" in line)
    arguments = line.split("\t")[-1].split(" < ")[0].strip()[1:-1]
    names = [argument.split("=")[0] for argument in arguments.split(", ")]
    assert len(names) > 80
    missing = set(names) - set(session_options.BY_NAME) - _RUN_CONFIG_ONLY
    assert not missing
    assert set(names) >= _RUN_CONFIG_ONLY


def test_options_are_kept_as_python_values():
    assert session_options.options() == {}
    assert session_options.all_options() == ()
    record(
        hcom_parallel=("b", False),
        iterations_per_loop=("i", 2**62),
        precision_mode=("s", b"force_fp32"),
    )
    expected = {
        "hcom_parallel": False,
        "iterations_per_loop": 2**62,
        "precision_mode": "force_fp32",
    }
    assert session_options.options() == expected
    assert session_options.options()["hcom_parallel"] is False
    session_options.options()["hcom_parallel"] = True  # a copy
    session_options.all_options()[0].clear()
    assert session_options.all_options() == (expected,)


def test_equal_sessions_are_kept_once_and_the_one_used_last_comes_last():
    for loops in (1, 2, 1):
        record(iterations_per_loop=("i", loops))
    assert [one["iterations_per_loop"] for one in session_options.all_options()] == [2, 1]
    assert session_options.options() == {"iterations_per_loop": 1}
    record()
    assert session_options.options() == {}
    assert len(session_options.all_options()) == 3


def test_what_is_kept_is_bounded():
    for loops in range(3 * session_options.MOST_SESSIONS):
        record(iterations_per_loop=("i", loops))
    assert len(session_options.all_options()) == session_options.MOST_SESSIONS
    assert session_options.options() == {
        "iterations_per_loop": 3 * session_options.MOST_SESSIONS - 1
    }


@pytest.mark.parametrize("option", session_options.OPTIONS, ids=lambda option: option.name)
def test_each_option_is_taken_from_its_field_and_says_so_once_without_effect(option, said):
    for kind in option.kinds:
        if kind == "b":
            value = True
        elif kind == "i":
            value = int(option.values[0]) if option.values else 7
        else:
            value = (option.values[0] if option.values else "/a/b").encode()
        record(**{option.name: (kind, value)})
        kept = session_options.options()[option.name]
        assert kept == (value.decode() if kind == "s" else value) and type(kept) is not bytes
    taken = said()
    if option.effect == session_options.USED:
        assert taken == []
    else:
        assert len(taken) == 1
        level, text = taken[0]
        assert level == "INFO"
        assert text.startswith(f"NpuOptimizer option {option.name}")
        assert text.endswith(f"{option.effect}.")
        assert ("of an older release" in text) == bool(option.older)
    record(**{option.name: (kind, value)})
    assert said() == []


def test_an_older_option_names_what_took_its_place(said):
    record(auto_tune_mode=("s", b"RL,GA"))
    assert said() == [
        (
            "INFO",
            "NpuOptimizer option auto_tune_mode, of an older release (aoe_mode took its place), "
            "is for the NPU and has no effect on CPU ranks.",
        )
    ]


_WITH_OLDER_VALUES = [
    (option, value) for option in session_options.OPTIONS for value in option.older_values
]


@pytest.mark.parametrize(("option", "value"), _WITH_OLDER_VALUES)
def test_a_value_of_an_older_release_is_noted_once(option, value, said):
    for _ in range(2):
        record(**{option.name: ("s", value.encode())})
        assert session_options.options() == {option.name: value}
    taken = said()
    assert warnings(taken) == []
    assert sum(f"has the value {value} of an older release" in text for _, text in taken) == 1


def test_a_value_that_no_release_knows_is_pointed_out_once_with_the_nearest(said):
    for _ in range(2):
        record(precision_mode=("s", b"allow_mixed_precision"), graph_run_mode=("i", 7))
    first, second = warnings(said())
    assert first == "NpuOptimizer option graph_run_mode is 7, known are 0, 1."
    assert second.startswith("NpuOptimizer option precision_mode is allow_mixed_precision, known")
    assert second.endswith("Was allow_mix_precision meant?")
    assert session_options.options()["precision_mode"] == "allow_mixed_precision"


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("precison_mode", "precision_mode"),
        ("hcom_paralel", "hcom_parallel"),
        ("is_tail_optimization", "is_tailing_optimization"),
        ("iteration_per_loop", "iterations_per_loop"),
        ("hccl_algorithm", "HCCL_algorithm"),
        ("PRECISION_MODE", "precision_mode"),
        ("use_offline", "use_off_line"),
        ("fusion_switch_files", "fusion_switch_file"),
    ],
)
def test_a_misspelt_name_is_pointed_out_once_with_the_nearest(name, nearest, said):
    for loops in (1, 2):
        record(**{name: ("i", loops)})
        assert session_options.options() == {name: loops}
    assert said() == [
        (
            "WARNING",
            f"NpuOptimizer option {name} is not one that npu_bridge knows. Was {nearest} meant?",
        )
    ]


def test_a_name_like_no_other_is_pointed_out_without_a_guess(said):
    record(zyx=("b", True))
    assert said() == [
        (
            "WARNING",
            "NpuOptimizer option zyx is not one that npu_bridge knows. It has no effect.",
        )
    ]


@pytest.mark.parametrize(
    ("name", "kind", "value", "right", "kept"),
    [
        ("hcom_parallel", "i", 1, "b", True),
        ("hcom_parallel", "i", 0, "b", False),
        ("hcom_parallel", "s", b"False", "b", False),
        ("hcom_parallel", "s", b"true", "b", True),
        ("hcom_parallel", "s", b"perhaps", "b", "perhaps"),
        ("hcom_parallel", "i", 2, "b", 2),
        ("hcom_parallel", "f", 1.0, "b", 1.0),
        ("iterations_per_loop", "s", b"10", "i", 10),
        ("iterations_per_loop", "s", b"1_0", "i", "1_0"),
        ("iterations_per_loop", "s", b"9" * 5000, "i", "9" * 5000),
        ("iterations_per_loop", "b", True, "i", 1),
        ("iterations_per_loop", "f", 2.5, "i", 2.5),
        ("graph_memory_max_size", "i", 2**34, "s", str(2**34)),
        ("precision_mode", "b", True, "s", "True"),
        ("precision_mode", "list", [b"force_fp16"], "s", ["force_fp16"]),
        ("precision_mode", "type", None, "s", None),
        ("jit_compile", "i", 1, "s", "1"),
    ],
)
def test_a_wrong_field_is_pointed_out_once_and_converted_where_that_loses_nothing(
    name, kind, value, right, kept, said
):
    for _ in range(2):
        record(**{name: (kind, value)})
        found = session_options.options()[name]
        assert found == kept and type(found) is type(kept)
    assert warnings(said()) == [
        f"NpuOptimizer option {name} is set as .{kind}, and is read as .{right}: write "
        f'parameter_map["{name}"].{right}.'
    ]


def test_reading_an_option_that_was_not_set_sets_none(said):
    record(precision_mode=("", None), zyx=("", None))
    assert session_options.options() == {}
    assert [level for level, _ in said()] == ["WARNING"]  # of the name


_ODD_BYTES = [b"", b"\xff\xfe", b"\xed\xa0\x80", b"a\x00b", b"\n%s", "größe".encode(), b"x" * 10**6]


@pytest.mark.parametrize("odd", _ODD_BYTES, ids=lambda odd: repr(odd[:8]))
def test_any_bytes_are_taken(odd, said):
    """As a name, as a value with a list of known ones, as one without, and within a list."""
    session_options.record(
        [(odd, "s", odd), (b"precision_mode", "s", odd), (b"dump_path", "s", odd)]
        + [(b"aoe_mode", "list", [odd, 1, 2.5, True])]
    )
    kept = session_options.options()
    assert kept["dump_path"].encode("utf-8", "surrogateescape") == odd
    assert kept["aoe_mode"][1:] == [1, 2.5, True]
    assert len(kept) == 4
    for text in warnings(said()):
        assert text.isprintable() and text.isascii() and len(text) < 400, text


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("i", 2**63 - 1),
        ("i", -(2**63)),
        ("f", float("inf")),
        ("f", float("nan")),
        ("f", 3.4e38),
        ("list", []),
        ("list", [b"a"] * 100000),
        ("tensor", None),
        ("a kind of a later TensorFlow", None),
    ],
)
@pytest.mark.parametrize("name", ["hcom_parallel", "graph_run_mode", "precision_mode", "zyx"])
def test_any_value_is_taken_in_any_field(name, kind, value):
    record(**{name: (kind, value)})
    record(**{name: (kind, value)})
    assert list(session_options.options()) == [name]


def test_messages_come_in_the_order_of_names(said):
    record(zyx=("b", True), precison_mode=("b", True), abc=("b", True))
    names = [text.split()[2] for text in warnings(said())]
    assert names == ["abc", "precison_mode", "zyx"]


@pytest.mark.parametrize("rank", ["0", "1"])
def test_rank_0_alone_speaks_and_each_rank_keeps(rank, said, monkeypatch):
    monkeypatch.setenv("RANK_ID", rank)
    monkeypatch.setenv("RANK_SIZE", "2")
    record(precison_mode=("s", b"a"), use_off_line=("b", True), hcom_parallel=("i", 1))
    assert len(session_options.options()) == 3
    assert len(said()) == (4 if rank == "0" else 0)


def test_the_table_needs_no_tensorflow():
    """The page is made from it by a tool that runs where TensorFlow is not installed."""
    source = inspect.getsource(session_options)
    assert "import tensorflow" not in source
    script = "import sys; sys.modules['tensorflow'] = None; import npu_device._core.session_options"
    subprocess.run([sys.executable, "-c", script], check=True)

"""npurun: the command line, and what ranks find in their environment."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys

import pytest

from npurun import command_line, rank_environment
from npurun.rank_environment import RankEnvironment
from tests.harness import run_ranks
from tests.harness.command import run_npurun, write_script
from tests.harness.program import ROOT

# The environment.


def test_ranks_find_their_job_in_the_environment():
    code = """
        import json, os
        print(json.dumps(dict(os.environ)))
        with open(os.environ["RANK_TABLE_FILE"]) as file:
            table = json.load(file)
        print(json.dumps(table))
        print(os.system("test -s $RANK_TABLE_FILE"))  # a child of a rank reads it too
    """
    job = run_ranks(3, code, limit=30, launcher="npurun")
    job.expect_success()
    job_ids = set()
    for rank, output in enumerate(job.outputs):
        environment, table, child = map(json.loads, output.splitlines())
        for name in ("RANK_ID", "DEVICE_ID", "DEVICE_INDEX", "ASCEND_DEVICE_ID"):
            assert environment[name] == str(rank)
        assert environment["RANK_SIZE"] == "3"
        assert re.match(r"[A-Za-z0-9_-]{1,128}\Z", environment["JOB_ID"])
        job_ids.add(environment["JOB_ID"])
        assert child == 0
        assert table["status"] == "completed"
        assert table["version"] == "1.0"
        assert table["server_count"] == "1"
        (server,) = table["server_list"]
        assert 0 < len(server["server_id"].encode()) <= 64
        assert [d["rank_id"] for d in server["device"]] == ["0", "1", "2"]
        assert [d["device_id"] for d in server["device"]] == ["0", "1", "2"]
    assert len(job_ids) == 1
    job.expect_nothing_left()


def test_nobody_can_change_the_rank_table():
    environment = RankEnvironment(2, {})
    try:
        path = environment.of_rank(0)["RANK_TABLE_FILE"]
        with open(path, "r+b") as file, pytest.raises(PermissionError):
            os.write(file.fileno(), b"x")
        with open(path) as file:
            assert json.load(file)["status"] == "completed"
    finally:
        environment.close()
    assert not os.path.exists(path)


def test_every_run_has_a_job_id_of_its_own():
    environments = [RankEnvironment(2, {"JOB_ID": "mine"}) for _ in range(2)]
    names = {environment.of_rank(0)["JOB_ID"] for environment in environments}
    for environment in environments:
        environment.close()
    assert len(names) == 2
    assert "mine" not in names


@pytest.mark.parametrize(
    ("processors", "ranks", "threads"), [(2, 8, "1"), (8, 2, "4"), (8, 3, "2"), (1, 1, "1")]
)
def test_threads_are_bounded_unless_the_user_says_otherwise(
    processors, ranks, threads, monkeypatch
):
    monkeypatch.setattr(rank_environment, "available_processors", lambda: processors)
    environment = RankEnvironment(ranks, {"OMP_NUM_THREADS": "7", "TF_NUM_INTEROP_THREADS": ""})
    variables = environment.of_rank(0)
    environment.close()
    assert variables["OMP_NUM_THREADS"] == "7"
    assert variables["TF_NUM_INTRAOP_THREADS"] == threads
    assert variables["TF_NUM_INTEROP_THREADS"] == threads


def test_another_description_of_a_job_is_not_passed_on_and_that_is_said():
    job = run_ranks(
        1,
        "import os; print('CM_CHIEF_IP' in os.environ)\n",
        limit=30,
        launcher="npurun",
        environment={"CM_CHIEF_IP": "10.0.0.1", "CM_WORKER_SIZE": "2"},
    )
    job.expect_success()
    assert job.outputs == ["False\n"]
    assert "CM_CHIEF_IP, CM_WORKER_SIZE not passed" in job.launcher_output


# The command line.


@pytest.mark.parametrize("ranks", ["0", "-1", "1.5", "x", "", "32769", "1_0", "\u0663"])
def test_a_wrong_number_of_ranks_is_refused_in_a_sentence(ranks, tmp_path):
    result = run_npurun("-n", ranks, write_script(tmp_path, ""))
    assert result.returncode == 2
    assert b"integer from 1 to 32768" in result.stderr or b"expected one argument" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["-n", "2"], "no script"),
        (["-n", "2", "-m"], "no script"),
        (["-n", "2", "no_such.py"], "no_such.py does not exist"),
        (["script.py"], "-n"),
        (["-n", "2", "--grace", "soon", ROOT], "--grace soon"),
        (["-n", "2", "--log-dir", "/proc/nowhere", ROOT], "--log-dir /proc/nowhere"),
        (["-n", "2", "--unknown", ROOT], "--unknown"),
    ],
)
def test_a_wrong_command_line_is_refused_in_a_sentence(arguments, text):
    result = run_npurun(*arguments)
    assert result.returncode == 2
    assert text in result.stderr.decode()
    assert "Traceback" not in result.stderr.decode()


def test_the_script_gets_its_own_arguments_whatever_they_look_like(tmp_path):
    path = write_script(tmp_path, "import sys; print(sys.argv)")
    own = ["-n", "7", "--log", "--no", "--tf1", "-m", "--", "-h", ""]
    result = run_npurun("-n", "1", path, *own)
    assert result.stdout.decode() == f"[0] {[path, *own]}\n"


def test_options_with_a_value_are_known_to_the_splitter():
    takes_value = [
        option
        for action in command_line.build_parser()._actions
        for option in action.option_strings
        if action.nargs != 0
    ]
    assert sorted(takes_value) == sorted(command_line.OPTIONS_WITH_VALUE)


def test_a_script_runs_as_python_runs_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "beside.py").write_text("VALUE = 3\n")
    (folder / "script.py").write_text(
        "import beside, sys; print(__name__, beside.VALUE, sys.path[0], sys.argv[0])\n"
    )
    result = run_npurun("-n", "1", "folder/script.py", cwd=str(tmp_path))
    assert result.stdout.decode() == f"[0] __main__ 3 {folder} folder/script.py\n"


@pytest.mark.parametrize("dashes", [[], ["--"]])
def test_a_module_is_run_by_name(tmp_path, dashes):
    (tmp_path / "named.py").write_text("import sys; print(__name__, sys.argv[1:])\n")
    result = run_npurun("-n", "2", *dashes, "-m", "named", "-n", "x", cwd=str(tmp_path))
    assert sorted(result.stdout.decode().splitlines()) == [
        f"[{rank}] __main__ ['-n', 'x']" for rank in range(2)
    ]


@pytest.mark.parametrize("module", ["npurun", "npu_device.run"])
def test_a_module_does_what_the_command_does(module, tmp_path):
    path = write_script(tmp_path, "print('hello')")
    result = subprocess.run(
        [sys.executable, "-m", module, "-n", "1", path],
        stdout=subprocess.PIPE,
        env=dict(os.environ, PYTHONPATH=ROOT),
        timeout=60,
        check=True,
    )
    assert result.stdout == b"[0] hello\n"


def test_npurun_does_not_import_tensorflow_or_our_packages():
    code = (
        f"import sys; sys.path.append({ROOT!r}); before = set(sys.modules);"
        "import npurun.command_line;"
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before}))"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=60, check=True
    ).stdout
    loaded = set(ast.literal_eval(output.decode()))
    assert "npurun" in loaded
    assert not loaded & {"tensorflow", "numpy", "npu_device", "npu_bridge", "hccl"}

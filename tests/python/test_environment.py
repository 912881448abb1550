"""Environment variables: every line of the table, and names that were misspelt."""

from __future__ import annotations

import os

import pytest

from npu_device._core import environment
from npu_device._core.environment import BY_NAME, VARIABLES, read

# name: (texts that are allowed with the values they give, texts that are not)
VALUES = {
    "RANK_SIZE": ({"1": 1, "8": 8, " 8 ": 8, "32768": 32768}, ["0", "-1", "32769", "two", "8.0"]),
    "RANK_ID": ({"0": 0, "007": 7, "32767": 32767}, ["-1", "32768", "0x1", "1 2"]),
    "ASCEND_DEVICE_ID": ({"0": 0, "15": 15}, ["-1", "npu0"]),
    "DEVICE_ID": ({"0": 0, "15": 15}, ["-1", "1_0"]),
    "DEVICE_INDEX": ({"3": 3}, ["-1", "٣"]),
    "RANK_TABLE_FILE": ({"/no/such/file": "/no/such/file"}, []),
    "JOB_ID": ({"10086": "10086", "a-B_9": "a-B_9", "x" * 128: "x" * 128}, ["a b", "x" * 129, "ä"]),
    "CM_CHIEF_IP": ({"10.0.0.1": "10.0.0.1", "0:0::1": "::1", "fe80::1%eth0": "fe80::1%eth0"},
                    ["host", "10.0.0", "10.0.0.256", "10.0.0.1%eth0", "fe80::1%"]),
    "CM_CHIEF_PORT": ({"0": 0, "65520": 65520}, ["-1", "65521", "http"]),
    "CM_CHIEF_DEVICE": ({"0": 0}, ["-1"]),
    "CM_WORKER_SIZE": ({"1": 1, "32768": 32768}, ["0", "32769"]),
    "CM_WORKER_IP": ({"192.168.0.1": "192.168.0.1"}, ["localhost"]),
    "HCCL_CONNECT_TIMEOUT": ({"120": 120, "600": 600, "7200": 7200}, ["119", "7201", "10s"]),
    "HCCL_EXEC_TIMEOUT": ({"0": 0, "20": 20, "2147483647": 2**31 - 1}, ["-1", "2147483648", "1e3"]),
    "HCCL_BUFFSIZE": ({"1": 1, "200": 200}, ["0", "-5", "200MB"]),
    "HCCL_IF_IP": ({"10.10.10.1": "10.10.10.1", "::1": "::1"}, ["eth0"]),
    "HCCL_SOCKET_IFNAME": ({"eth": "eth", "^eth": "^eth", "=eth0": "=eth0", "^=eth0": "^=eth0",
                            "=eth0,enp1": "=eth0,enp1"}, ["=", "^", "a b", "x" * 16, "=^eth0"]),
    "HCCL_SOCKET_FAMILY": ({"AF_INET": "AF_INET", "AF_INET6": "AF_INET6"}, ["INET", "4"]),
    "HCCL_IF_BASE_PORT": ({"1024": 1024, "65504": 65504}, ["1023", "65505"]),
    "HCCL_DETERMINISTIC": ({"true": "true", "FALSE": "false", "strict": "strict"}, ["1", "yes"]),
    "HCCL_WHITELIST_DISABLE": ({"1": "1"}, []),
    "HCCL_ALGO": ({"level0:NA;level1:H-D_R": "level0:NA;level1:H-D_R"}, []),
    "HCCL_OP_EXPANSION_MODE": ({"AI_CPU": "AI_CPU"}, []),
    "FUSION_TENSOR_SIZE": ({"1": 1, "524288000": 524288000}, ["0", "500M", "9" * 19, "9" * 5000]),
    "NPU_BRIDGE_TRANSPORT": ({"auto": "auto", "SHM": "shm", "gloo": "gloo", "hccl": "hccl",
                              __file__: __file__}, ["mpi", "/no/such/library.so", "lib.so", "/"]),
    "NPU_BRIDGE_MISMATCH_TIMEOUT": ({"1": 1, "20": 20}, ["0", "-1"]),
    "NPU_BRIDGE_STALL_WARN": ({"1": 1}, ["0"]),
    "NPU_BRIDGE_CHECK_NAMES": ({"0": 0, "1": 1}, ["2", "yes"]),
    "NPU_BRIDGE_POOL_LIMIT": ({"0": 0, "4096": 4096}, ["-1"]),
    "NPU_BRIDGE_FUSION": ({"0": 0, "1": 1}, ["2", "off"]),
    "NPU_BRIDGE_FUSION_REPORT": ({"report.json": "report.json"}, []),
    "NPU_BRIDGE_PRODUCT": ({"Atlas A2": "Atlas A2"}, []),
    "NPU_BRIDGE_FLIGHT_RECORD": ({"folder": "folder"}, []),
    "NPU_BRIDGE_TIMELINE": ({"t.json": "t.json"}, []),
    "NPU_BRIDGE_KEEP_HCCL": ({"0": 0, "1": 1}, ["true"]),
    "LOCAL_CHECKPOINT_DIR": ({"/ckpt/model.ckpt-5": "/ckpt/model.ckpt-5"}, []),
    "RESTORE_FROM": ({"old": "old"}, []),
    "TF_CONFIG": ({'{"cluster": {}}': '{"cluster": {}}'}, []),
}  # fmt: skip

DEFAULTS = {
    "HCCL_CONNECT_TIMEOUT": 120,
    "HCCL_EXEC_TIMEOUT": 1836,
    "HCCL_BUFFSIZE": 200,
    "HCCL_IF_BASE_PORT": 60000,
    "HCCL_DETERMINISTIC": "true",
    "FUSION_TENSOR_SIZE": 524288000,
    "NPU_BRIDGE_TRANSPORT": "auto",
    "NPU_BRIDGE_MISMATCH_TIMEOUT": 20,
    "NPU_BRIDGE_STALL_WARN": 60,
    "NPU_BRIDGE_CHECK_NAMES": 0,
    "NPU_BRIDGE_POOL_LIMIT": 0,
    "NPU_BRIDGE_FUSION": 1,
    "NPU_BRIDGE_KEEP_HCCL": 0,
}

ALLOWED = [(n, text, value) for n, (good, _) in VALUES.items() for text, value in good.items()]
REFUSED = [(n, text) for n, (_, bad) in VALUES.items() for text in bad]


def test_the_cases_cover_every_variable_once():
    assert list(VALUES) == [variable.name for variable in VARIABLES]
    assert len(BY_NAME) == len(VARIABLES)


@pytest.mark.parametrize(("name", "text", "value"), ALLOWED)
def test_allowed_value(name, text, value):
    env = read({name: text})
    assert env[name] == value
    assert type(env[name]) is type(value)
    assert env.names_set == (name,)
    assert environment.value(name, {name: text}) == value


@pytest.mark.parametrize(("name", "text"), REFUSED)
def test_refused_value_is_named_with_what_was_found_and_is_allowed(name, text):
    with pytest.raises(ValueError, match=name) as error:
        read({name: text})
    message = str(error.value)
    assert (repr(text) if len(text) <= 80 else text[:77] + "...") in message
    assert f"allowed is {BY_NAME[name].kind.allowed}" in message
    assert BY_NAME[name].meaning in message
    assert "\n" not in message
    with pytest.raises(ValueError, match=name):
        environment.value(name, {name: text})


@pytest.mark.parametrize("name", [variable.name for variable in VARIABLES])
@pytest.mark.parametrize("environ", [{}, {"": ""}])
def test_default(name, environ):
    assert read(environ)[name] == DEFAULTS.get(name)


@pytest.mark.parametrize("name", [variable.name for variable in VARIABLES])
@pytest.mark.parametrize("text", ["", "  "])
def test_an_empty_value_counts_as_not_set(name, text):
    env = read({name: text})
    assert env[name] == DEFAULTS.get(name)
    assert not env.is_set(name)


def test_all_wrong_values_are_reported_together():
    with pytest.raises(ValueError, match=r"(?s)HCCL_BUFFSIZE is '0'.*\n.*STALL_WARN is 'x'"):
        read({"NPU_BRIDGE_STALL_WARN": "x", "HCCL_BUFFSIZE": "0"})


def test_read_as_it_is_now(monkeypatch):
    monkeypatch.setenv("NPU_BRIDGE_KEEP_HCCL", "1")
    assert environment.value("NPU_BRIDGE_KEEP_HCCL") == 1
    monkeypatch.setenv("NPU_BRIDGE_KEEP_HCCL", "0")
    assert environment.value("NPU_BRIDGE_KEEP_HCCL") == 0


@pytest.mark.parametrize(
    ("environ", "device"),
    [
        ({}, 0),
        ({"DEVICE_INDEX": "3"}, 3),
        ({"DEVICE_INDEX": "3", "DEVICE_ID": "2"}, 2),
        ({"DEVICE_INDEX": "3", "DEVICE_ID": "2", "ASCEND_DEVICE_ID": "1"}, 1),
        ({"DEVICE_INDEX": "3", "ASCEND_DEVICE_ID": "0"}, 0),
    ],
)
def test_which_device_variable_goes_first(environ, device):
    assert read(environ).device() == device


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("HCCL_CONNECT_TIME_OUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_CONECT_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_CONNECTION_TIMEOUT", "HCCL_CONNECT_TIMEOUT"),
        ("HCCL_TIMEOUT", "HCCL_EXEC_TIMEOUT"),
        ("HCCL_EXEC_TIMEUOT", "HCCL_EXEC_TIMEOUT"),
        ("HCCL_BUFFER_SIZE", "HCCL_BUFFSIZE"),
        ("HCCL_SOCKET_IF_NAME", "HCCL_SOCKET_IFNAME"),
        ("HCCL_RDMA_TIMEOUTS", "HCCL_RDMA_TIMEOUT"),
        ("RANK_ZISE", "RANK_SIZE"),
        ("RANK_SIEZ", "RANK_SIZE"),
        ("RANK_IDD", "RANK_ID"),
        ("RANK_DI", "RANK_ID"),
        ("RANK_TABLE", "RANK_TABLE_FILE"),
        ("RANK_TABEL_FILE", "RANK_TABLE_FILE"),
        ("NPU_BRIDGE_TRANSPRT", "NPU_BRIDGE_TRANSPORT"),
        ("NPU_BRIDGE_STALL_WARNING", "NPU_BRIDGE_STALL_WARN"),
        ("NPU_BRIDGE_", None),
        ("NPU_BRIDGE_COLOUR", None),
    ],
)
def test_misspelt_name(name, nearest):
    ((found, known),) = environment.misspelt({name: "1", "PATH": "/bin"})
    assert found == name
    assert known == nearest if nearest else known in BY_NAME


@pytest.mark.parametrize(
    "name",
    [
        *(variable.name for variable in VARIABLES),
        *("RANK_ID_START", "RANK_INDEX", "RANK_IDS", "RANK_SIZES"),
        *("RANK_TABLE_PATH", "RANK_START", "RANK_NUM", "RANK_IP", "RANK_ID_LOCAL", "RANK", "RANK_"),
        *("HCCL_RDMA_TC", "HCCL_RDMA_RETRY_CNT", "HCCL_INTRA_ROCE_ENABLE", "HCCL_LOG", "HCCL_"),
        *("hccl_buffer_size", "XHCCL_BUFFER_SIZE", "CM_CHIEF_IPS"),
    ],
)
def test_name_that_is_not_misspelt(name):
    assert environment.misspelt({name: "1"}) == []


@pytest.mark.parametrize(
    ("environ", "speaks"),
    [
        ({}, True),
        ({"RANK_ID": "0", "RANK_SIZE": "2"}, True),
        ({"RANK_ID": "00", "RANK_SIZE": "2"}, True),
        ({"RANK_ID": "1", "RANK_SIZE": "2"}, False),
        ({"RANK_ID": "10", "RANK_SIZE": "20"}, False),
        ({"RANK_ID": "5", "RANK_SIZE": "1"}, True),
        ({"RANK_ID": "x", "RANK_SIZE": "2"}, True),
    ],
)
def test_which_rank_speaks_for_the_job(environ, speaks):
    assert environment.speaks_for_job(environ) is speaks


def test_the_chief_speaks_for_a_job_without_rank_numbers():
    chief = {
        "CM_CHIEF_IP": "::1",
        "CM_CHIEF_PORT": "1",
        "CM_CHIEF_DEVICE": "2",
        "CM_WORKER_SIZE": "4",
        "CM_WORKER_IP": "0::1",
        "DEVICE_ID": "2",
    }
    assert environment.speaks_for_job(chief)
    assert not environment.speaks_for_job(dict(chief, DEVICE_ID="3"))
    assert not environment.speaks_for_job(dict(chief, CM_WORKER_IP="::2"))


def test_importing_reads_no_environment(monkeypatch):
    import subprocess
    import sys

    script = (
        "import os, npu_device\n"
        "from hccl.manage.api import get_rank_id, get_rank_size\n"
        "from hccl.split import api\n"
        "os.environ.update(RANK_ID='1', RANK_SIZE='3')\n"
        "print(get_rank_id(), get_rank_size())\n"
    )
    monkeypatch.setenv("RANK_SIZE", "wrong")
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=os.getcwd(),
    )
    assert done.stdout == "1 3\n", done.stderr


def test_the_cluster_of_tensorflow():
    text = '{"cluster": {"ps": ["a:1"]}, "task": {"type": "worker", "index": 2}}'
    assert environment.cluster_specification({"TF_CONFIG": text}) == {"ps": ["a:1"]}
    assert environment.cluster_task({"TF_CONFIG": text}) == ("worker", 2)
    for empty in ({}, {"TF_CONFIG": "{}"}, {"TF_CONFIG": " "}):
        assert environment.cluster_specification(empty) == {}
        assert environment.cluster_task(empty) == ("localhost", 0)
    for wrong in ("{", "[]", "5"):
        with pytest.raises(ValueError, match="allowed is a JSON object"):
            environment.cluster_task({"TF_CONFIG": wrong})

"""npu-doctor: what it finds, and its exit code."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

from npu_device._core.doctor import job, machine, trial
from npu_device._core.doctor.finding import FAILURE, NOTE, OK, WARNING, Finding

pytestmark = pytest.mark.core


def run_doctor(*arguments, limits=None, **variables):
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RANK_", "HCCL_", "CM_", "NPU_BRIDGE_"))
    }
    environment.update(variables)

    def lower():
        for limit, value in (limits or {}).items():
            resource.setrlimit(limit, (value, value))

    done = subprocess.run(
        [sys.executable, "-m", "npu_device._core.doctor.command_line", *arguments],
        # Not the source tree, which `-m` would take the packages from.
        cwd=os.sep,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=240,
        preexec_fn=lower,
    )
    return done.returncode, done.stdout.decode()


def levels(findings):
    return [finding.level for finding in findings]


def test_a_sound_machine_passes_with_a_trial():
    code, output = run_doctor("--json")
    found = json.loads(output)
    assert code == 0, output
    assert found["failures"] == 0
    assert list(found["sections"]) == ["versions", "job", "machine", "trial"]
    (met,) = found["sections"]["trial"]
    assert met["level"] == OK
    assert "2 ranks met and agreed" in met["text"]


def test_what_is_in_the_way_is_on_the_page_and_in_the_exit_code():
    code, output = run_doctor(
        "--no-trial", RANK_SIZE="2", RANK_ID="5", RANK_SIZES="x", HCCL_BUFSIZE="7"
    )
    assert code == 1, output
    assert "failure Environment variable RANK_ID is 5" in output
    assert "warning HCCL_BUFSIZE is not a variable that is read. Was HCCL_BUFFSIZE meant?" in output
    assert output.splitlines()[-1] == "in the way: 1, see failure"
    assert "trial" not in output


def test_a_trial_that_fails_shows_why():
    findings = trial.check(dict(os.environ, PYTHONSTARTUP="", HCCL_CONNECT_TIMEOUT="nonsense"))
    assert levels(findings) == [FAILURE]
    assert "HCCL_CONNECT_TIMEOUT is 'nonsense'" in findings[0].text


def test_a_trial_is_not_led_astray_by_the_job_at_hand():
    findings = trial.check(dict(os.environ, RANK_ID="3", RANK_SIZE="9", RANK_TABLE_FILE="/none"))
    assert levels(findings) == [OK], findings


def test_limits_that_stop_shared_memory_are_failures():
    one_gib = 1 << 30
    code, output = run_doctor("--no-trial", "--json", limits={resource.RLIMIT_FSIZE: one_gib})
    texts = [f["text"] for f in json.loads(output)["sections"]["machine"] if f["level"] == FAILURE]
    assert code == 1
    assert len(texts) == 1
    assert "ulimit -f unlimited" in texts[0]


@pytest.mark.parametrize(
    ("variables", "ranks", "expected", "text"),
    [
        ({}, 1, [OK], "a world of one rank"),
        ({"RANK_SIZE": "4", "RANK_ID": "3"}, 4, [OK, OK, OK], "rank 3 of 4, device 0"),
        ({"RANK_SIZE": "4"}, 1, [FAILURE, OK], "RANK_ID"),
        ({"RANK_SIZE": "0"}, 1, [FAILURE], "RANK_SIZE is '0'"),
        ({"HCCL_ALGO": "ring"}, 1, [OK, NOTE], "world of one rank"),
        ({"NPU_BRIDGE_TRANSPORTS": "shm"}, 1, [OK, WARNING], "world of one rank"),
        ({"RANK_TABLE_FILE": "/no/table.json", "RANK_ID": "0"}, 1, [FAILURE, OK, OK], "/no/table"),
    ],
)
def test_the_job_that_the_environment_describes(variables, ranks, expected, text):
    findings, found = job.check(variables)
    assert levels(findings) == expected, findings
    assert text in findings[0].text
    assert found == ranks


def test_little_memory_and_many_ranks_are_told():
    class Little:
        @staticmethod
        def available_memory_bytes():
            return 1 << 28

    findings = machine.check(Little, 100000)
    texts = {finding.level: finding.text for finding in findings}
    assert "0.2 GiB of memory" in texts[WARNING] or "ulimit -n" in texts[WARNING]
    assert any("they take turns" in finding.text for finding in findings)
    assert [f for f in findings if f.level == WARNING and "0.5 GiB" in f.text] == [
        Finding(
            WARNING,
            "0.2 GiB of memory available, limits of the container heeded; every rank with "
            "TensorFlow takes 0.5 GiB and more.",
        )
    ]

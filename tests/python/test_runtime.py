"""The runtime of a process: read once, started once, shut down; signals stay with who had them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading

import pytest

from npu_device._core import runtime
from npu_device._core.interrupts import SignalForwarding
from npu_device._core.logging import info_from_rank_0, once

CHIEF = {
    "CM_CHIEF_IP": "::1",
    "CM_CHIEF_PORT": "6000",
    "CM_CHIEF_DEVICE": "0",
    "CM_WORKER_SIZE": "4",
    "CM_WORKER_IP": "::1",
}


def test_rank_and_size_wait_for_nobody(become, native):
    become(RANK_ID="1", RANK_SIZE="3")
    assert (runtime.rank(), runtime.size(), runtime.current().server_ranks()) == (1, 3, (0, 1, 2))
    assert native.starts == 0


def test_environment_is_read_once_and_anew_after_shutdown(native):
    environ = {"RANK_ID": "1", "RANK_SIZE": "3"}
    process = runtime.Runtime(native_loader=lambda: native, environ=environ)
    assert (process.rank(), process.size()) == (1, 3)
    environ.update(RANK_ID="0", RANK_SIZE="2")
    assert (process.rank(), process.size()) == (1, 3)
    process.shutdown()
    assert (process.rank(), process.size()) == (0, 2)


def test_start_and_restart(become, native):
    process = become(RANK_ID="1", RANK_SIZE="3", HCCL_EXEC_TIMEOUT="20")
    assert not process.started()
    runtime.ensure_started()
    runtime.ensure_started()
    assert process.started()
    assert native.starts == 1
    assert native.configuration["rank"] == 1
    assert native.configuration["settings"]["exec_timeout_s"] == 20
    runtime.shutdown()
    assert not process.started()
    runtime.ensure_started()
    assert native.starts == 2


def test_shutdown_before_anything(become, native):
    become()
    runtime.shutdown()
    assert native.starts == 0


def test_numbered_by_the_meeting(become, native):
    native.numbered, native.met = 2, [2, 0]
    process = become(**CHIEF)
    assert process.size() == 4
    assert native.starts == 0
    assert process.rank() == 2
    assert process.server_ranks() == (0, 2)
    assert native.starts == 1


def test_wrong_environment_keeps_the_runtime_from_starting(become, native):
    become(RANK_ID="2", RANK_SIZE="2")
    with pytest.raises(ValueError, match="RANK_ID is 2, allowed is 0 to 1"):
        runtime.ensure_started()
    assert native.starts == 0


def test_start_that_fails_tells_where_the_absent_ranks_are(become, native, table_file, two_servers):
    native.start_error = RuntimeError("Ranks 2,3 did not come.")
    become(RANK_TABLE_FILE=table_file(two_servers), RANK_ID="0")
    with pytest.raises(RuntimeError, match=r"^Ranks 2,3 did not come\. .*'node_1'.*Gloo transport"):
        runtime.ensure_started()


def test_start_that_fails_for_another_reason_keeps_its_error(become, native):
    native.start_error = RuntimeError("Rank 0 is claimed by processes 17 and 18.")
    become(RANK_SIZE="2", RANK_ID="0")
    with pytest.raises(RuntimeError) as error:
        runtime.ensure_started()
    assert error.value is native.start_error


def test_the_configuration_can_be_asked_for_while_the_runtime_starts(become, native):
    """Native code asks on a thread of its own, while Python's waits for the start to end."""
    process = become(RANK_SIZE="2", RANK_ID="1")
    process.native()
    answers = []

    def start():
        thread = threading.Thread(target=lambda: answers.append(native.provider()), daemon=True)
        thread.start()
        thread.join(60)

    native.start = start
    process.ensure_started()
    assert [answer["rank"] for answer in answers] == [1]


def test_misspelt_name_is_pointed_out_once_by_rank_0(become, caplog):
    environ = {"RANK_SIZE": "2", "HCCL_BUFFER_SIZE": "1"}
    become(RANK_ID="1", **environ).size()
    assert caplog.messages == []
    for _ in range(2):
        become(RANK_ID="0", **environ).size()
    text = "Environment variable HCCL_BUFFER_SIZE is not one that npu_bridge knows. "
    assert caplog.messages == [text + "Was HCCL_BUFFSIZE meant?"]
    assert caplog.records[0].name == "npu_bridge"
    assert caplog.records[0].levelno == logging.WARNING


def test_misspelt_name_is_pointed_out_by_any_rank_that_fails(become, caplog):
    with pytest.raises(ValueError, match="RANK_ID is not set"):
        become(RANK_IDD="1", RANK_SIZE="2").size()
    assert [m for m in caplog.messages if "RANK_IDD" in m]


def test_variables_without_effect_say_so_at_info(become, caplog):
    caplog.set_level(logging.INFO)
    environ = {"HCCL_ALGO": "x", "HCCL_IF_IP": "10.0.0.1", "HCCL_EXEC_TIMEOUT": "20"}
    become(RANK_ID="1", RANK_SIZE="2", **environ).size()
    assert caplog.messages == []
    become(RANK_ID="0", RANK_SIZE="2", **environ).size()
    assert [message.split()[0] for message in caplog.messages] == ["HCCL_IF_IP", "HCCL_ALGO"]
    assert {record.levelno for record in caplog.records} == {logging.INFO}


def test_once(caplog):
    assert once(logging.WARNING, "%s of %d", "a", 1)
    assert not once(logging.WARNING, "%s of %d", "a", 1)
    assert once(logging.WARNING, "%s of %d", "a", 2)
    assert once(logging.ERROR, "100%")
    assert caplog.messages == ["a of 1", "a of 2", "100%"]


def test_once_remembers_a_bounded_number_of_messages(caplog):
    for number in range(5000):
        once(logging.DEBUG, "%d", number)
    assert once(logging.DEBUG, "0")  # forgotten
    assert not once(logging.DEBUG, "4999")


def test_info_from_rank_0(caplog):
    caplog.set_level(logging.INFO)
    assert not info_from_rank_0("said", environ={"RANK_ID": "1", "RANK_SIZE": "2"})
    assert info_from_rank_0("said", environ={"RANK_ID": "0", "RANK_SIZE": "2"})
    assert caplog.messages == ["said"]


@pytest.fixture
def interrupts():
    """Signal forwarding with SIGUSR1 handled by Python, all put back at the end."""
    handler = signal.signal(signal.SIGUSR1, lambda *_: None)
    before = signal.set_wakeup_fd(-1)
    forwarding = SignalForwarding()
    yield forwarding
    forwarding.remove()
    signal.set_wakeup_fd(before)
    signal.signal(signal.SIGUSR1, handler)


def _pair():
    reader, writer = socket.socketpair()
    reader.settimeout(60)
    writer.setblocking(False)
    return reader, writer


def _signal_arrives(*readers):
    os.kill(os.getpid(), signal.SIGUSR1)
    return [reader.recv(16) for reader in readers] == [bytes([signal.SIGUSR1])] * len(readers)


def _wakeup_descriptor():
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor


def test_signals_reach_our_descriptor(interrupts):
    ours = _pair()
    assert interrupts.install(ours[1].fileno())
    assert _signal_arrives(ours[0])
    assert interrupts.install(ours[1].fileno())
    assert _signal_arrives(ours[0])
    interrupts.remove()
    assert _wakeup_descriptor() == -1


@pytest.mark.parametrize("installs", [1, 3])
def test_an_earlier_descriptor_goes_on_getting_signals(interrupts, installs):
    ours, theirs = _pair(), _pair()
    signal.set_wakeup_fd(theirs[1].fileno())
    for _ in range(installs):
        interrupts.install(ours[1].fileno())
    assert _signal_arrives(ours[0], theirs[0])
    theirs[1].close()  # a loop that is closed does not take ours along
    theirs[0].close()
    assert _signal_arrives(ours[0])
    assert _signal_arrives(ours[0])


def test_the_earlier_descriptor_is_put_back(interrupts):
    ours, theirs = _pair(), _pair()
    signal.set_wakeup_fd(theirs[1].fileno())
    interrupts.install(ours[1].fileno())
    interrupts.remove()
    assert _wakeup_descriptor() == theirs[1].fileno()
    assert _signal_arrives(theirs[0])


def test_one_that_replaced_us_is_served_too_when_we_return(interrupts):
    ours, theirs = _pair(), _pair()
    interrupts.install(ours[1].fileno())
    signal.set_wakeup_fd(theirs[1].fileno())
    interrupts.install(ours[1].fileno())
    assert _signal_arrives(ours[0], theirs[0])


def test_one_that_replaced_us_stays_when_we_leave(interrupts):
    ours, theirs = _pair(), _pair()
    interrupts.install(ours[1].fileno())
    signal.set_wakeup_fd(theirs[1].fileno())
    interrupts.remove()
    assert _wakeup_descriptor() == theirs[1].fileno()


def test_a_new_descriptor_of_ours_takes_the_place_of_the_old(interrupts):
    old, new, theirs = _pair(), _pair(), _pair()
    signal.set_wakeup_fd(theirs[1].fileno())
    interrupts.install(old[1].fileno())
    interrupts.install(new[1].fileno())
    assert _signal_arrives(new[0], theirs[0])
    old[0].setblocking(False)
    with pytest.raises(BlockingIOError):
        old[0].recv(1)


def test_only_the_main_thread_installs(interrupts):
    ours = _pair()
    answers = []
    thread = threading.Thread(target=lambda: answers.append(interrupts.install(ours[1].fileno())))
    thread.start()
    thread.join()
    assert answers == [False]
    assert _wakeup_descriptor() == -1


# A real process, since these happen once in a process's life. `native` writes what it is told.
PROCESS = """
import os, signal, sys, atexit
from npu_device._core import runtime
class Native:
    descriptor = os.pipe()[1]
    process = os.getpid()
    begun = False
    def set_configuration_provider(self, provider): pass
    def signal_descriptor(self):
        return -1 if self.begun and os.getpid() != self.process else self.descriptor
    def started(self): return True
    def shutdown(self): print("shutdown", flush=True)
runtime.replace(runtime.Runtime(native_loader=Native))
runtime.current().native()
def wakeup():
    descriptor = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(descriptor)
    return descriptor
"""


FORK = """
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    print("child", wakeup() == Native.descriptor, flush=True)
"""


@pytest.mark.parametrize(
    ("body", "output"),
    [
        ("atexit.register(print, 'script', flush=True)", "script\nshutdown\n"),
        ("sys.exit(3)", "shutdown\n"),
        ("raise KeyError", "shutdown\n"),
        # The child of a rank leaves the job to its parent, and our descriptor alone.
        ("Native.begun = True\n" + FORK, "child False\nshutdown\n"),
        # One that was forked before forgets what was read, and may be a rank itself.
        (FORK, "shutdown\nchild True\nshutdown\nshutdown\n"),
        ("print(wakeup() == Native.descriptor, flush=True)", "True\nshutdown\n"),
    ],
)
def test_end_of_a_process(body, output):
    done = subprocess.run(
        [sys.executable, "-c", PROCESS + body],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout == output, done.stderr

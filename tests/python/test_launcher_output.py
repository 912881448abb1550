"""npurun: what a person sees of the ranks' output."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios

import pytest

from npurun import lines
from npurun.console import Console
from tests.harness import run_ranks, start_ranks
from tests.harness.command import run_npurun, write_script
from tests.harness.program import npurun


def test_output_and_errors_are_kept_apart_with_the_rank_in_front(tmp_path):
    result = run_npurun(
        "-n", "2", write_script(tmp_path, "import sys; print('out'); print('err', file=sys.stderr)")
    )
    assert sorted(result.stdout.splitlines()) == [b"[0] out", b"[1] out"]
    assert sorted(result.stderr.splitlines()) == [b"[0] err", b"[1] err"]


def test_bytes_arrive_as_they_were_written(tmp_path):
    path = write_script(
        tmp_path, "import os; os.write(1, b'\\xff\\x00\\r\\n\\n no newline \\xe2\\x82')"
    )
    result = run_npurun("-n", "1", path)
    assert result.stdout == b"[0] \xff\x00\r\n[0] \n[0]  no newline \xe2\x82\n"


def test_a_line_comes_whole_however_it_was_written():
    code = """
        import os
        for _ in range(200):
            for piece in ("begin-", "middle-", "end\\n"):
                os.write(1, piece.encode())
    """
    job = run_ranks(4, code, limit=30, launcher="npurun")
    job.expect_success()
    assert job.outputs == ["begin-middle-end\n" * 200] * 4
    assert job.launcher_output == ""


def test_a_line_is_seen_when_it_is_printed():
    # The rank goes on only when the test has seen its line.
    with start_ranks(
        1, "print('now'); input(); print('later')\n", limit=30, launcher="npurun"
    ) as job:
        job.wait_for_line(0, "now")
        job.runner._inputs[0].write(b"\n")
        job.wait_for_line(0, "later")
    job.expect_success()


def test_very_long_lines_are_cut_between_characters(tmp_path):
    length = 3 * lines.MAX_LINE_BYTES
    path = write_script(tmp_path, f"print('\u20ac' * {length // 3})")
    result = run_npurun("-n", "1", path, env=dict(os.environ, PYTHONIOENCODING="utf-8"))
    shown = result.stdout.decode().splitlines()  # every piece is valid UTF-8
    assert all(line.startswith("[0] ") for line in shown)
    assert all(len(line.encode()) <= lines.MAX_LINE_BYTES + 4 for line in shown)
    assert "".join(line[4:] for line in shown) == "\u20ac" * (length // 3)


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
def test_lines_do_not_depend_on_how_bytes_arrive(size):
    data = "a\n\u20ac\u20ac\n\nlast".encode() * 50
    splitter = lines.LineSplitter()
    got = [line for i in range(0, len(data), size) for line in splitter.feed(data[i : i + size])]
    assert [*got, splitter.flush()] == data.splitlines(True)
    assert splitter.flush() == b""


def test_a_file_per_rank_keeps_what_it_wrote(tmp_path):
    folder = tmp_path / "a" / "logs"
    path = write_script(
        tmp_path, "import os, sys; print('rank', os.environ['RANK_ID']); sys.exit('last words')"
    )
    result = run_npurun("-n", "2", "--log-dir", str(folder), path)
    assert result.returncode == 1
    assert sorted(os.listdir(str(folder))) == ["rank_0.log", "rank_1.log"]
    for rank in range(2):
        content = (folder / f"rank_{rank}.log").read_text()
        assert sorted(content.splitlines()) == ["last words", f"rank {rank}"]


def take_terminal():
    """Makes standard input the terminal that controls this process, as a login does."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def read_terminal(arguments, answer=b"", wait_for=1, **options):
    """Runs npurun on a terminal of its own and returns what it shows, and its exit code.

    Types `answer` when it shows as many prompts as `wait_for` says, or more.
    """
    master, slave = pty.openpty()
    environment = dict(os.environ, TERM="xterm")
    environment.pop("NO_COLOR", None)
    environment.update(options.pop("environment", {}))
    process = subprocess.Popen(
        npurun(sys.executable) + arguments,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        preexec_fn=take_terminal,
        **options,
    )
    os.close(slave)
    shown = b""
    while True:
        assert select.select([master], [], [], 60)[0], shown
        try:
            chunk = os.read(master, 65536)
        except OSError:  # nobody has the terminal open any more
            break
        shown += chunk
        if answer and shown.count(b"? ") >= wait_for:  # several may come at once
            os.write(master, answer)
            answer = b""
    os.close(master)
    return shown, process.wait(timeout=60)


def test_ranks_have_colours_on_a_terminal_and_only_there(tmp_path):
    path = write_script(tmp_path, "print('hello')")
    shown, _ = read_terminal(["-n", "2", path])
    assert sorted(shown.splitlines()) == [
        b"\x1b[33m[1]\x1b[0m hello",
        b"\x1b[36m[0]\x1b[0m hello",
    ]
    for arguments, environment in (
        (["--no-color"], {}),
        ([], {"NO_COLOR": "1"}),
        ([], {"TERM": "dumb"}),
    ):
        shown, _ = read_terminal(["-n", "1", *arguments, path], environment=environment)
        assert shown == b"[0] hello\r\n"


def test_a_prompt_is_seen_on_a_terminal_and_rank_0_gets_the_answer(tmp_path):
    path = write_script(tmp_path, "print(repr(input('name? ')))")
    shown, code = read_terminal(["-n", "2", "--no-color", path], answer=b"Ada\n")
    assert b"[0] name? " in shown
    assert b"'Ada'" in shown
    assert code == 1  # rank 1 has nothing to read
    assert b"EOFError" in shown


def test_ctrl_c_at_a_terminal_interrupts_every_rank_once(tmp_path):
    code = """
import os, signal
interrupt = {signal.SIGINT}
signal.pthread_sigmask(signal.SIG_BLOCK, interrupt)
print("ready? ", end="", flush=True)
signal.sigwait(interrupt)
print("got it")
if signal.sigtimedwait(interrupt, 1.0):
    print("got it again")
os._exit(4)
"""
    path = write_script(tmp_path, code)
    shown, code = read_terminal(["-n", "2", "--no-color", path], answer=b"\x03", wait_for=2)
    assert code == 128 + signal.SIGINT
    assert shown.count(b"got it") == 2, shown
    assert b"SIGINT sent to all ranks" in shown
    assert b"ended by SIGINT." in shown


def test_a_progress_bar_does_not_hide_the_rank_on_a_terminal(tmp_path):
    path = write_script(tmp_path, "print('1/2\\r2/2')")
    shown, _ = read_terminal(["-n", "1", "--no-color", path])
    assert shown == b"[0] 1/2\r[0] 2/2\r\n"


def test_another_rank_does_not_write_into_an_unfinished_line(monkeypatch):
    console = Console(color=False)
    monkeypatch.setattr(console, "_terminal", {1: True, 2: True})
    written = []
    monkeypatch.setattr("npurun.console.write_all", lambda stream, data: written.append(data))
    console.show(1, 0, [b"half"])
    console.show(1, 0, [b" and"])
    console.show(1, 1, [b"other\n"])
    console.show(1, 0, [b" rest\n"])
    console.show(2, 0, [b"x"])
    console.say("text")
    assert b"".join(written) == b"[0] half and\n[1] other\n[0]  rest\n[0] x\nnpurun: text\n"


def test_ranks_end_when_nobody_reads_their_output(tmp_path):
    path = write_script(tmp_path, "import itertools\nfor n in itertools.count(): print(n)")
    process = subprocess.Popen(
        [*npurun(sys.executable), "-n", "2", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.stdout.close()  # as `npurun ... | head -1` does
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGPIPE
    assert b"Traceback" not in errors


def test_a_reader_that_does_not_read_does_not_keep_npurun_from_signals(tmp_path):
    path = write_script(tmp_path, "import itertools\nfor n in itertools.count(): print(n)")
    process = subprocess.Popen(
        [*npurun(sys.executable), "-n", "2", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 128 + signal.SIGTERM
    process.communicate()


def test_closed_standard_streams_do_no_harm(tmp_path):
    path = write_script(
        tmp_path, "import os; os.write(2, b'x'); print(open(os.environ['RANK_TABLE_FILE']).read(1))"
    )
    logs = tmp_path / "logs"
    command = [*npurun(sys.executable), "-n", "2", "--log-dir", str(logs), path]
    result = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *command], timeout=60)
    assert result.returncode == 0
    assert sorted((logs / "rank_1.log").read_text()) == ["\n", "x", "{"]


def test_standard_input_goes_to_rank_0_alone(tmp_path):
    path = write_script(tmp_path, "import sys; print(repr(sys.stdin.read()))")
    result = run_npurun("-n", "2", path, input=b"data\n")
    assert sorted(result.stdout.splitlines()) == [b"[0] 'data\\n'", b"[1] ''"]

"""Starts ranks as a shell script does: one after the other, in one session and process group.

A process of its own, so that the ranks have the parent, session and group that a script gives them,
and so that the whole group can be killed. It reads what to start from its standard input:

    {"command": [...], "environments": [{...}, ...], "streams": [[descriptor 0, 1, 2], ...],
     "folder": "the job's"}

and reports on its standard output, a line each: {"rank": r, "pid": p}, then {"rank": r,
"exit_code": c}. When its standard input ends, so does the group: the test process has died.
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading

# A Popen object that is let go of would take its process's exit code with it.
_kept = []


def run(start):
    """Runs one job.

    Args:
        start: starts a rank, given command, environment and streams, and returns its process id.
            Where it forks, it returns 0 in the rank, and so does this.

    Returns:
        Whether this is the loop, whose job has ended; not a rank that was forked in it.
    """
    job = json.loads(sys.stdin.buffer.readline().decode())
    # Ranks that are killed on purpose, or at the limit, leave no core files.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ranks = {}
    for rank, (environment, streams) in enumerate(zip(job["environments"], job["streams"])):
        process = start(job["command"], environment, streams)
        if process == 0:
            return False
        for descriptor in streams:
            os.close(descriptor)
        ranks[process] = rank
        _report(rank=rank, pid=process)
    threading.Thread(target=_end_with_the_test, args=[job["folder"]], daemon=True).start()
    while ranks:
        pid, status = os.wait()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        _report(rank=ranks.pop(pid), exit_code=code)
    return True


def _start_process(command, environment, streams):
    process = subprocess.Popen(
        command, env=environment, stdin=streams[0], stdout=streams[1], stderr=streams[2]
    )
    _kept.append(process)
    return process.pid


def _report(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def _end_with_the_test(folder):
    os.read(0, 1)
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    run(_start_process)

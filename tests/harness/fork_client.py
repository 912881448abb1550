"""The side of the tests of fork_server.py: servers of the test process, started when needed.

There is one for the TensorFlow that is installed, and one for it as `npurun --tf1` gives it.
"""

from __future__ import annotations

import array
import atexit
import os
import re
import select
import socket
import subprocess
import sys
from typing import IO, Dict, List, Mapping, Optional, Sequence, Set, Tuple

from tests.harness.fork_server import (
    FIRST_DESCRIPTOR,
    MAX_DESCRIPTORS,
    OWN_DESCRIPTORS,
    SPACE_BYTES,
    SPACE_VARIABLE,
)
from tests.harness.program import HERE

_IMPORTED = ["numpy", "tensorflow", "tensorflow.compat.v1", "sklearn.datasets"]
# Read when the interpreter starts or TensorFlow is imported: too late in a forked rank.
_READ_AT_START = re.compile(
    r"(PYTHON|TF_|KERAS_|OMP_|KMP_|GOMP_|OPENBLAS_|MKL_|LD_|XLA_|MALLOC_|GLIBC_)"
)
_servers: Dict[str, Server] = {}  # by PYTHONPATH, by which one imports another TensorFlow


def can_fork(changed: Set[str]) -> bool:
    """Whether ranks may be forked whose environment differs from that of others in `changed`."""
    return not any(_READ_AT_START.match(name) for name in changed)


def server(environment: Mapping[str, str]) -> Server:
    """Returns a server that has imported TensorFlow; starts it if that has not been done.

    Args:
        environment: what the server starts with: that of a rank without what describes its job.
    """
    path = environment.get("PYTHONPATH", "")
    if path not in _servers:
        _servers[path] = Server(environment)
    return _servers[path]


def stream_number(position: int) -> int:
    """Returns the number at which the loop finds a stream."""
    return FIRST_DESCRIPTOR + OWN_DESCRIPTORS + position


class ForkedLoop:
    """What a subprocess.Popen object is for a loop that was started as a process.

    Attributes:
        stdin: its standard input.
        stdout: its standard output.
    """

    def __init__(self, stdin: IO[bytes], stdout: IO[bytes], alive: int):
        self.stdin = stdin
        self.stdout = stdout
        self._alive = alive  # the loop has the other end, which nobody writes to
        self._ended = False

    def poll(self) -> Optional[int]:
        """Returns None while it runs."""
        return self._look(0)

    def wait(self) -> Optional[int]:
        """Waits until it has ended."""
        return self._look(None)

    def _look(self, timeout: Optional[float]) -> Optional[int]:
        if not self._ended and select.select([self._alive], [], [], timeout)[0]:
            os.close(self._alive)
            self._ended = True
        return 0 if self._ended else None


class Server:
    """A process that forks ranks.

    Args:
        environment: what it starts with.
    """

    def __init__(self, environment: Mapping[str, str]):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own: Dict[str, str] = dict(environment)
        own[SPACE_VARIABLE] = "-" * SPACE_BYTES
        # A library that starts threads when it is imported could leave a lock held in a fork.
        own["OPENBLAS_NUM_THREADS"] = "1"
        self._process = subprocess.Popen(
            [
                sys.executable,
                os.path.join(HERE, "fork_server.py"),
                str(theirs.fileno()),
                *_IMPORTED,
            ],
            env=own,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._requests = ours
        if not ours.recv(1):
            raise RuntimeError("the server that forks ranks ended before it was ready; see above")
        atexit.register(self._end)

    def start_loop(self, folder: Optional[str], streams: Sequence[int]) -> ForkedLoop:
        """Forks shell_loop.py's loop.

        Args:
            folder: where the ranks start; None: where this process is.
            streams: the descriptors of the ranks' streams. The loop finds the one at position i at
                `stream_number(i)`.
        """
        pipes: List[Tuple[int, int]] = [os.pipe() for _ in range(OWN_DESCRIPTORS)]
        (loop_input, our_input), (our_output, loop_output), (our_alive, loop_alive) = pipes
        passed = [loop_input, loop_output, loop_alive, *streams]
        assert len(passed) <= MAX_DESCRIPTORS, "too many ranks to be forked"
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))
        self._requests.sendmsg([os.fsencode(folder or os.getcwd())], [rights])
        for descriptor in (loop_input, loop_output, loop_alive):
            os.close(descriptor)
        return ForkedLoop(os.fdopen(our_input, "wb", 0), os.fdopen(our_output, "rb", 0), our_alive)

    def _end(self) -> None:
        self._requests.close()
        self._process.wait()

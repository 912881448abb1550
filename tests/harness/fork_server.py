"""Imports TensorFlow once and forks the ranks of many jobs: fork_server.py SOCKET MODULE...

Importing TensorFlow takes seconds of processor time in each rank. A rank that is forked after the
import differs from one that `python script.py` starts in little that a script can see: its command
line in /proc is the server's, all ranks share one seed of string hashes, and a script that comes to
its end leaves the imported modules to the kernel. Its environment, streams, arguments, working
directory, session and `__main__` are its own, and so are exceptions and what runs at exit.

A request is one message on the socket: the working directory, and the descriptors that the job's
loop (shell_loop.py) gets: its standard input and output, one that is held while it lives, and the
streams of the ranks.
"""

import atexit
import ctypes
import gc
import importlib
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import threading
import types

_HERE = os.path.dirname(os.path.abspath(__file__))
# Loops and ranks find a job's streams at fixed numbers; the first ones are the loop's own.
FIRST_DESCRIPTOR = 200
OWN_DESCRIPTORS = 3
MAX_DESCRIPTORS = 250  # the kernel passes 253 in a message
# Room for the environment of a rank, which is written over the server's own.
SPACE_VARIABLE = "HARNESS_SPACE"
SPACE_BYTES = 1 << 16


class _Rank:
    """What a rank runs. Set in the process that becomes one."""

    command = None


def serve(requests):
    """Forks a loop for each request. Returns in ranks, and when the other end is closed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a loop ended
    item = struct.calcsize("i")
    while True:
        folder, control, _, _ = requests.recvmsg(4096, socket.CMSG_SPACE(MAX_DESCRIPTORS * item))
        if not folder:
            return
        data = b"".join(one[2] for one in control)
        descriptors = [number for (number,) in struct.iter_unpack("i", data)]
        if os.fork() == 0:
            break
        for descriptor in descriptors:
            os.close(descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    requests.close()
    os.setsid()
    os.chdir(os.fsdecode(folder))
    for place, descriptor in enumerate(descriptors, FIRST_DESCRIPTOR):
        os.dup2(descriptor, place)
        os.close(descriptor)
    os.dup2(FIRST_DESCRIPTOR, 0)
    os.dup2(FIRST_DESCRIPTOR + 1, 1)
    import shell_loop

    if shell_loop.run(_fork_rank):
        os._exit(0)  # nothing that was imported belongs to this process


def _fork_rank(command, environment, streams):
    process = os.fork()
    if process == 0:
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        os.closerange(3, FIRST_DESCRIPTOR + MAX_DESCRIPTORS)
        os.environ.clear()
        os.environ.update(environment)
        _write_environment(environment)
        _Rank.command = command
    return process


def _write_environment(environment):
    """Shows a rank's environment in /proc, where processes of a job are looked for.

    The C library has no pointer into the old one: os.environ.clear() removed all.
    """
    text = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    with open("/proc/self/stat", "rb") as file:
        # After the command, in parentheses: the 3rd field and those that follow; see proc(5).
        fields = file.read().rpartition(b")")[2].split()
    begin, end = int(fields[50 - 3]), int(fields[51 - 3])
    if len(text) > end - begin:
        raise RuntimeError(f"an environment of {len(text)} bytes is too large for a forked rank")
    ctypes.memset(begin, 0, end - begin)
    ctypes.memmove(begin, text, len(text))


def _run_script(script):
    """Runs a script as `python script` does; what it raises goes on to the interpreter."""
    sys.argv = _Rank.command[1:]
    sys.path[0] = os.path.dirname(script)
    for name in ("shell_loop", "fork_server"):
        sys.modules.pop(name, None)
    # What processes that start anew have each of their own.
    tempfile.tempdir = None
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    main = types.ModuleType("__main__")
    main.__file__ = script
    main.__builtins__ = __builtins__
    sys.modules["__main__"] = main
    with open(script, "rb") as file:
        code = compile(file.read(), script, "exec")
    exec(code, main.__dict__)
    _end()


def _end():
    """Ends a rank whose script has come to its end, without taking apart what the server imported.

    What an interpreter does before that: wait for threads, call what is registered, write out.
    """
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(0)


def _main():
    requests = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    gc.freeze()  # a collection in a rank would copy the pages of all that was imported
    requests.send(b"!")  # ready
    serve(requests)


if __name__ == "__main__":
    _main()
    if _Rank.command is not None:
        _run_script(_Rank.command[1])

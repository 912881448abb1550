"""Files that live in memory only (memfd): nothing is left when their last descriptor closes."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os

_MFD_CLOEXEC = 1
_MFD_ALLOW_SEALING = 2
_F_ADD_SEALS = 1033
_SEAL_ALL = 0xF  # no more seals, shrinking, growing or writing
_CREATE_SYSTEM_CALL = {"x86_64": 319, "aarch64": 279}


def create(name: str, content: bytes) -> int:
    """Creates a memory file that nobody can change.

    Args:
        name: shown by /proc for the descriptor.
        content: all that it holds.

    Returns:
        Its descriptor, closed on exec. /proc/<pid>/fd/<descriptor> can be opened by every process
        of the same user for as long as this one holds it.

    Raises:
        OSError: the kernel has no memory files, or no memory.
    """
    descriptor = _create(name)
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        fcntl.fcntl(descriptor, _F_ADD_SEALS, _SEAL_ALL)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _create(name: str) -> int:
    flags = _MFD_CLOEXEC | _MFD_ALLOW_SEALING
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, flags)
    # Python 3.7, possibly with a C library that has no wrapper either.
    number = _CREATE_SYSTEM_CALL.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, "no memory files on " + os.uname().machine)
    system_call = ctypes.CDLL(None, use_errno=True).syscall
    descriptor = system_call(ctypes.c_long(number), name.encode(), ctypes.c_uint(flags))
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "memfd_create: " + os.strerror(ctypes.get_errno()))
    return int(descriptor)

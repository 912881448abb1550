"""Lets Ctrl-C end a wait in native code.

Python runs its signal handlers in the main thread, between two bytecodes: a rank that waits in a
collective would not see SIGINT until the collective ends. Before that, however, Python writes the
signal's number to the descriptor given to signal.set_wakeup_fd, from the C handler itself. Here
that descriptor is one that the native watcher thread reads. If there was a wake-up descriptor
before (an event loop's), it goes on getting every byte.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import Sequence

_NONE = -1


class SignalForwarding:
    """Stands behind signal.set_wakeup_fd. Only the main thread may install and remove it."""

    def __init__(self) -> None:
        self._installed = _NONE  # what we gave to set_wakeup_fd
        self._target = _NONE
        self._previous = _NONE
        self._relay: _Relay | None = None

    def install(self, target: int) -> bool:
        """Has every signal that Python handles written to `target` too.

        Called again, it does nothing, unless someone replaced us: then their descriptor is served
        along with ours.

        Args:
            target: descriptor to write signal numbers to, a byte each.

        Returns:
            False if this is not the main thread, which alone may do this.
        """
        if threading.current_thread() is not threading.main_thread():
            return False
        os.set_blocking(target, False)  # as set_wakeup_fd demands
        previous = signal.set_wakeup_fd(target, warn_on_full_buffer=False)
        if previous != _NONE and previous == self._installed and target == self._target:
            if previous != target:  # our relay, still in place
                signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
            return True
        if previous == self._installed:
            previous = self._previous
        if self._relay is not None:
            self._relay.close()
            self._relay = None
        self._target, self._previous, self._installed = target, previous, target
        if previous not in (_NONE, target):
            self._relay = _Relay([target, previous])
            self._installed = self._relay.descriptor
            signal.set_wakeup_fd(self._installed, warn_on_full_buffer=False)
        return True

    def remove(self) -> None:
        """Puts back the earlier descriptor, unless someone else's has replaced ours since."""
        if self._installed == _NONE:
            return
        if threading.current_thread() is threading.main_thread():
            try:
                current = signal.set_wakeup_fd(self._previous)
            except (OSError, ValueError):  # closed by its owner in the meantime
                current = signal.set_wakeup_fd(_NONE)
            if current != self._installed:
                signal.set_wakeup_fd(current)
        if self._relay is not None:
            self._relay.close()
        self._relay = None
        self._installed = self._target = self._previous = _NONE


class _Relay:
    """Copies what is written to one descriptor to several."""

    def __init__(self, targets: Sequence[int]) -> None:
        self._targets = list(targets)
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.descriptor = self._writer.fileno()
        threading.Thread(target=self._run, name="npu_bridge-signals", daemon=True).start()

    def close(self) -> None:
        """Ends the thread, once it has copied what was written."""
        self._writer.close()

    def _run(self) -> None:
        with self._reader:
            while True:
                numbers = self._reader.recv(4096)
                if not numbers:
                    return
                for target in list(self._targets):
                    try:
                        os.write(target, numbers)
                    except BlockingIOError:
                        pass  # its reader has wake-ups enough to read
                    except OSError:
                        self._targets.remove(target)  # closed by its owner

"""The one runtime of this process: what it knows of the job, its start and its end.

The native runtime does the work; this side reads the environment and the rank table once, when
something first needs them, and keeps that until `shutdown`. Starting afterwards reads them anew.

Rank and size are answered from the description, without waiting for peers. With CM_* ranks have no
number until they meet, so there the question starts the runtime.

Tests put a runtime of their own, with a fake native module and environment, in place of the
process's: `replace(Runtime(native_loader=..., environ=...))`.
"""

from __future__ import annotations

import atexit
import logging as levels
import multiprocessing.util
import os
import threading
from typing import Any, Callable, Mapping

from npu_device._core import cluster, environment, library, logging
from npu_device._core.cluster import ClusterDescription
from npu_device._core.interrupts import SignalForwarding
from npu_device._core.split_strategy import SplitStrategies

_signals = SignalForwarding()
_attach_lock = threading.Lock()
_attached: Any | None = None


class Runtime:
    """What a process knows of its job, and its native runtime.

    All methods may be called from any thread.
    """

    def __init__(
        self,
        native_loader: Callable[[], Any] = library.native,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """Makes a runtime that has read and started nothing.

        Args:
            native_loader: returns the native module; called when it is first needed.
            environ: the environment to read; os.environ as it is at that time if None.
        """
        self.split_strategies = SplitStrategies()
        self._native_loader = native_loader
        self._environ = environ
        # Guards the two below. Never held while native code runs: its start asks the
        # configuration provider, on another thread, which needs this lock.
        self._lock = threading.RLock()
        self._described: tuple[ClusterDescription, dict[str, Any]] | None = None
        self._native: Any | None = None
        # Kept on its own: an op may be made long before the rest is read.
        self._checks_names: bool | None = None

    def description(self) -> ClusterDescription:
        """Returns what this rank knows of its job, reading it on the first call.

        Raises:
            ValueError: a variable or the rank table is wrong.
        """
        return self._read()[0]

    def configuration(self) -> dict[str, Any]:
        """Returns what the native runtime needs to start, see ClusterDescription.to_native.

        Raises:
            ValueError: a variable or the rank table is wrong.
        """
        description, settings = self._read()
        return description.to_native(settings)

    def checks_names(self) -> bool:
        """Whether ops made now carry the names of their inputs (NPU_BRIDGE_CHECK_NAMES).

        Reads that variable, and no other, on the first call.

        Raises:
            ValueError: its value is not allowed.
        """
        if self._checks_names is None:
            self._checks_names = bool(environment.value("NPU_BRIDGE_CHECK_NAMES", self._environ))
        return self._checks_names

    def native(self) -> Any:
        """Returns the native module, loading it on the first call."""
        if self._native is None:
            module = self._native_loader()
            attach(module)
            self._native = module
        return self._native

    def ensure_started(self) -> None:
        """Meets the other ranks of the job, unless that has been done.

        Blocks until all are there.

        Raises:
            ValueError: a variable or the rank table is wrong.
            RuntimeError: ranks did not come, or another reason that the text gives.
        """
        native = self.native()
        if native.started():
            return
        description = self.description()
        _forward_signals(native)
        try:
            native.start()
        except (RuntimeError, ValueError) as error:
            text = str(error)
            explained = cluster.start_failure(description, text)
            if explained == text:
                raise
            kind = ValueError if isinstance(error, ValueError) else RuntimeError
            raise kind(explained) from error

    def started(self) -> bool:
        """Whether this rank has met the others and not left since."""
        return self._native is not None and bool(self._native.started())

    def shutdown(self) -> None:
        """Leaves the job, and forgets groups and all that was read. A later start starts anew."""
        native = self._native
        if native is not None:
            native.shutdown()
        self.split_strategies.forget_all()
        with self._lock:
            self._described = None
        self._checks_names = None

    def rank(self) -> int:
        """Returns this process's world rank.

        Raises:
            ValueError: a variable or the rank table is wrong.
            RuntimeError: ranks are numbered by their meeting (CM_*), and that failed.
        """
        rank = self.description().rank
        if rank is None:
            self.ensure_started()
            return int(self.native().world_rank())
        return rank

    def size(self) -> int:
        """Returns the number of ranks.

        Raises:
            ValueError: a variable or the rank table is wrong.
        """
        return self.description().size

    def server_ranks(self) -> tuple[int, ...]:
        """Returns the world ranks on this rank's server, ascending.

        The rank table decides; without one all ranks are on this machine. With CM_* they are those
        that met on this host.

        Raises:
            ValueError: a variable or the rank table is wrong.
            RuntimeError: ranks are numbered by their meeting (CM_*), and that failed.
        """
        ranks = self.description().server_ranks()
        if ranks is None:
            self.ensure_started()
            return tuple(sorted(self.native().local_ranks()))
        return ranks

    def after_fork_in_child(self, may_begin: bool) -> None:
        """Replaces the lock, which a thread that the child does not have may hold.

        Args:
            may_begin: whether the child may become a rank. Then it forgets what its parent has
                read: its own environment may say that it is another one.
        """
        self._lock = threading.RLock()
        if may_begin:
            self.shutdown()

    def _read(self) -> tuple[ClusterDescription, dict[str, Any]]:
        with self._lock:
            if self._described is None:
                environ = os.environ if self._environ is None else self._environ
                try:
                    env = environment.read(environ)
                    description = cluster.describe(env)
                except ValueError:
                    # A name that was misspelt may be why; the ranks may not even fail alike.
                    _warn_of_misspelt_names(environ)
                    raise
                if environment.speaks_for_job(environ):
                    _warn_of_misspelt_names(environ)
                for name in env.names_set:
                    effect = environment.BY_NAME[name].effect
                    if effect != environment.USED:
                        logging.info_from_rank_0("%s %s.", name, effect, environ=environ)
                for note in description.notes:
                    logging.once(levels.WARNING, note)
                self._described = description, cluster.settings(env)
            return self._described


def current() -> Runtime:
    """Returns the runtime of this process."""
    return _current


def replace(runtime: Runtime) -> Runtime:
    """Puts another runtime in place of this process's. For tests.

    Returns:
        The one before, to put back.
    """
    global _current
    before, _current = _current, runtime
    return before


def attach(native: Any) -> None:
    """Connects the native module with this process: configuration, signals, exit, fork.

    Every way that loads native code must come through here, since a graph may run our ops without
    any of our Python wrappers: native code then starts itself, and asks for its configuration.
    Called again with the same module, it does nothing.

    Args:
        native: the module npu_device._core._native.
    """
    global _attached
    with _attach_lock:
        if native is _attached:
            return
        native.set_configuration_provider(_provide_configuration)
        if _attached is None:
            # Python runs exit functions last registered first: those of scripts, which may still
            # run collectives, come before ours, and TensorFlow's, registered when it was
            # imported, after.
            atexit.register(_leave)
            os.register_at_fork(after_in_child=_after_fork_in_child)
            _leave_at_the_end_of_a_multiprocessing_child()
        _attached = native
    _forward_signals(native)


def ensure_started() -> None:
    """Meets the other ranks of the job, unless that has been done. See Runtime."""
    _current.ensure_started()


def shutdown() -> None:
    """Leaves the job. See Runtime."""
    _current.shutdown()


def rank() -> int:
    """Returns this process's world rank. See Runtime."""
    return _current.rank()


def size() -> int:
    """Returns the number of ranks. See Runtime."""
    return _current.size()


def _provide_configuration() -> dict[str, Any]:
    return _current.configuration()


def _forward_signals(native: Any) -> None:
    descriptor = native.signal_descriptor()
    if descriptor >= 0:
        _signals.install(descriptor)


def _warn_of_misspelt_names(environ: Mapping[str, str]) -> None:
    for name, nearest in environment.misspelt(environ):
        logging.once(
            levels.WARNING,
            "Environment variable %s is not one that npu_bridge knows. Was %s meant?",
            name,
            nearest,
        )


def _leave_at_the_end_of_a_multiprocessing_child() -> None:
    """Has processes of multiprocessing leave the job: they run no functions of atexit."""
    # Kept for as long as its first argument lives.
    multiprocessing.util.register_after_fork(
        _signals, lambda _: multiprocessing.util.Finalize(None, _leave, exitpriority=0)
    )
    if getattr(multiprocessing.current_process(), "_parent_pid", None) is not None:
        multiprocessing.util.Finalize(None, _leave, exitpriority=0)


def _leave() -> None:
    if not _may_use(_attached):
        return  # a forked child: the job is its parent's
    try:
        _current.shutdown()
    finally:
        _signals.remove()


def _may_use(native: Any) -> bool:
    """Whether this process may be a rank: False in the child of one."""
    return native.signal_descriptor() >= 0


def _after_fork_in_child() -> None:
    global _attach_lock
    # In the child of a rank the copies of the native descriptors are closed; their numbers may soon
    # be those of other files, which must not receive signal numbers.
    _signals.remove()
    _attach_lock = threading.Lock()
    may_begin = _may_use(_attached)
    _current.after_fork_in_child(may_begin)
    if may_begin:
        _forward_signals(_attached)


_current = Runtime()

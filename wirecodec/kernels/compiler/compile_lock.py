"""Lock of one kernel: the first process compiles it, the others load it from the disk cache.

The lock only saves work, because loading needs none (``cache_files``). A process that gets neither the lock
nor the code for a minute compiles for itself. While a kernel is compiled, no other kernel is locked
(``jit.kernel``), so there is no deadlock. Inside ``busy_kernels_raise``, a process does other work instead.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar

try:
    import fcntl
except ImportError:  # not a POSIX system: Numba's atomic renames suffice, since no lock is needed
    fcntl = None

MAX_WAIT_SECONDS = 60.0
"""Maximum wait for another process, which may compile for seconds or be stopped indefinitely."""
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.01, 0.05
"""First and last interval between two attempts to lock; each is twice the one before."""

_locks: weakref.WeakSet[CompileLock] = weakref.WeakSet()
_waits_in_vain: list[None] = []
"""Has an element after one wait in vain: this process does not wait again until it has held a lock."""

_raises: ContextVar[bool] = ContextVar("a locked kernel raises KernelBusy", default=False)


class KernelBusy(BaseException):
    """Signal that another process compiles a kernel, raised in place of the wait for it.

    It is no Exception, so that a codec that catches all of them does not catch it.

    Args:
        lock: that of the kernel.
    """

    def __init__(self, lock: CompileLock) -> None:
        super().__init__()
        self.lock = lock


@contextlib.contextmanager
def busy_kernels_raise() -> Iterator[None]:
    """Raise KernelBusy if this thread calls a kernel that another process compiles.

    Raises:
        KernelBusy: the block called such a kernel. It can be run again.
    """
    token = _raises.set(True)
    try:
        yield
    finally:
        _raises.reset(token)


class CompileLock:
    """Lock of one kernel, in this process and on this machine.

    Args:
        path: the lock file, in the cache folder; None without a cache.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._thread = threading.Lock()
        self._file: int | None = None
        _locks.add(self)

    @contextlib.contextmanager
    def hold(self, cached: Callable[[], bool]) -> Iterator[None]:
        """Hold the lock, unless ``cached`` becomes true or the wait ends first."""
        with self._thread:
            self._file = None if cached() else self._open(cached)
            try:
                yield
            finally:
                if self._file is not None:
                    # Closing is not enough: a forked child may hold the file open.
                    fcntl.flock(self._file, fcntl.LOCK_UN)
                    os.close(self._file)
                    self._file = None

    def wait(self) -> bool:
        """Wait until no process holds the lock; return False if the wait ends first."""
        with self._thread:
            file = self._open(lambda: False)
            if file is not None:
                fcntl.flock(file, fcntl.LOCK_UN)
                os.close(file)
            return file is not None

    def forget(self) -> None:
        """Reset the lock in a child that was forked during a compilation: the held lock is the parent's."""
        if self._file is not None:
            os.close(self._file)
        self._thread, self._file = threading.Lock(), None

    def _open(self, cached: Callable[[], bool]) -> int | None:
        """Return the locked file, or None to continue without a lock."""
        if fcntl is None or self._path is None:
            return None
        try:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None  # the folder is not writable, so nothing is cached either
        locked = False
        try:
            locked = _wait(file, cached)
        except _Busy:
            raise KernelBusy(self) from None
        finally:
            if not locked:
                os.close(file)
        return file if locked else None


class _Busy(BaseException):
    """Signal of ``_wait`` that another process holds the lock."""


def _wait(file: int, cached: Callable[[], bool]) -> bool:
    """Poll for the lock; return False if the kernel is ``cached`` by now or the wait ends."""
    end = time.monotonic() + (0.0 if _waits_in_vain else MAX_WAIT_SECONDS)
    pause = _MIN_POLL_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pass
        except OSError:
            return False  # a file system without locks
        else:
            _waits_in_vain.clear()
            return True
        if time.monotonic() >= end:
            _waits_in_vain.append(None)
            return False
        if _raises.get():
            raise _Busy
        time.sleep(pause)
        pause = min(2 * pause, _MAX_POLL_SECONDS)
        if cached():
            return False


def _forget_all() -> None:
    for lock in list(_locks):
        lock.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)

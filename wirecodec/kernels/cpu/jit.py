"""``kernel``: Numba's njit with the project's settings, safe if many processes start at once.

Kernels are compiled on first use and cached on disk. Numba's cache is an index file and numbered data files,
rewritten without a lock. Ranks that start together on a cold cache can therefore pair one signature's name
with another's code. Here the name of a data file is a hash of all that its code depends on (``cache_files``),
so loading needs no lock.

A lock file beside the cache saves work while compiling: the first rank compiles, the others load. A rank that
gets neither the lock nor the code for a minute compiles for itself.

No fastmath: results must not depend on how a loop was vectorised.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numba

from wirecodec.kernels.cpu.cache_files import is_cached, name_by_contents

try:
    import fcntl
except ImportError:  # not a POSIX system: Numba's atomic renames suffice, since no lock is needed
    fcntl = None

__all__ = ["LogEntry", "cache_folder", "inline", "inline_without_refcounts", "kernel", "log"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class LogEntry:
    """Kernel that became ready for one signature.

    Attributes:
        kernel: its module and name, such as "index.rice_read.read_directory".
        seconds: time that this took, without the kernels that it calls.
        compiled: True if it was compiled, False if it was loaded from the disk cache.
    """

    kernel: str
    seconds: float
    compiled: bool


log: list[LogEntry] = []
"""Kernels that became ready in this process, in order; appended under Numba's lock."""

MAX_WAIT_SECONDS = 60.0
"""Maximum wait for another process, which may compile for 20 s or be stopped indefinitely."""
_MIN_POLL_SECONDS, _MAX_POLL_SECONDS = 0.01, 0.25
"""First and last interval between two attempts to lock; each is twice the one before."""


class _CompileLock:
    """Lock that allows one compilation at a time, in this process and on this machine.

    It is re-entrant, because kernels compile the kernels that they call.
    """

    def __init__(self) -> None:
        self._thread = threading.RLock()
        self._depth = 0
        self._file: int | None = None
        self._max_wait = MAX_WAIT_SECONDS

    @contextlib.contextmanager
    def __call__(self, folder: str | None, cached: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Hold the lock of a cache folder, unless ``cached`` becomes true or the wait ends first."""
        with self._thread:
            if self._depth == 0:
                self._file = self._open(folder, cached)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0 and self._file is not None:
                    # Closing is not enough: a forked child may hold the file open.
                    fcntl.flock(self._file, fcntl.LOCK_UN)
                    os.close(self._file)
                    self._file = None

    def forget(self) -> None:
        """Reset the lock in a child that was forked during a compilation: the held lock is the parent's."""
        if self._file is not None:
            os.close(self._file)
        self._thread, self._depth, self._file = threading.RLock(), 0, None
        self._max_wait = MAX_WAIT_SECONDS

    def _open(self, folder: str | None, cached: Callable[[], bool]) -> int | None:
        """Return the locked file, or None to continue without a lock."""
        if fcntl is None or folder is None:
            return None
        try:
            os.makedirs(folder, exist_ok=True)
            file = os.open(os.path.join(folder, "wirecodec.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None  # the folder is not writable, so nothing is cached either
        locked = False
        try:
            locked = self._wait(file, cached)
        finally:
            if not locked:
                os.close(file)
        return file if locked else None

    def _wait(self, file: int, cached: Callable[[], bool]) -> bool:
        """Poll for the lock; return False if the kernel is ``cached`` by now or the wait ends.

        After one wait in vain, a process does not wait again until it has held the lock.
        """
        end, pause = time.monotonic() + self._max_wait, _MIN_POLL_SECONDS
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            except OSError:
                return False  # a file system without locks
            else:
                self._max_wait = MAX_WAIT_SECONDS
                return True
            if time.monotonic() >= end:
                self._max_wait = 0.0
                return False
            time.sleep(pause)
            pause = min(2 * pause, _MAX_POLL_SECONDS)
            if cached():
                return False


_compile_lock = _CompileLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_compile_lock.forget)


def kernel(fn: F) -> F:
    """Compile ``fn`` on first use, without the GIL, with IEEE division, cached on disk."""
    dispatcher = numba.njit(nogil=True, error_model="numpy")(fn)
    with contextlib.suppress(RuntimeError):  # no writable folder: each process compiles for itself
        dispatcher.enable_caching()
        name_by_contents(dispatcher._cache)
    compile_plainly = dispatcher.compile
    folder = getattr(dispatcher._cache, "cache_path", None)
    if folder is not None:
        _folders.add(folder)

    def compile_locked(signature: Any) -> Any:
        def cached() -> bool:
            return is_cached(dispatcher, signature)

        # Loading takes the lock too: compiling after all would take it inside Numba's own lock.
        with _compile_lock(None if cached() else folder, cached):
            return compile_plainly(signature)

    dispatcher.compile = _logged(dispatcher, compile_locked)
    return cast(F, dispatcher)


_folders: set[str] = set()
"""Cache folders of the kernels."""


def cache_folder() -> str | None:
    """Return the folder that holds all cached kernels, or None if none is cached."""
    return os.path.commonpath(_folders) if _folders else None


_inner_seconds = threading.local()
"""Seconds of the kernels that the kernel in progress calls, per thread."""


def _logged(dispatcher: Any, compile_one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return ``compile_one`` with an entry in ``log`` for each signature that it adds."""
    function = dispatcher.py_func
    name = f"{function.__module__}.{function.__qualname__}".removeprefix(f"{__package__}.")

    def compile_and_log(signature: Any) -> Any:
        start, misses = time.perf_counter(), sum(dispatcher._cache_misses.values())
        known, outer = len(dispatcher.overloads), getattr(_inner_seconds, "total", 0.0)
        _inner_seconds.total = 0.0
        try:
            return compile_one(signature)
        finally:
            seconds = time.perf_counter() - start
            if len(dispatcher.overloads) > known:
                compiled = sum(dispatcher._cache_misses.values()) > misses
                log.append(LogEntry(name, seconds - _inner_seconds.total, compiled))
            _inner_seconds.total = outer + seconds

    return compile_and_log


def inline(fn: F) -> F:
    """Compile ``fn`` into the kernels that call it, never alone.

    LLVM inlines it. Numba's own inlining would unify the types of its variables with the caller's.
    """
    return cast(F, numba.njit(nogil=True, error_model="numpy", inline="never")(fn))


def inline_without_refcounts(fn: F) -> F:
    """Compile ``fn`` as ``inline`` does, without reference counts; it must neither create nor return arrays.

    The counts are atomic. In a loop that calls a short function with arrays, they can cost more than the
    function.
    """
    return cast(F, numba.njit(nogil=True, error_model="numpy", inline="never", _nrt=False)(fn))

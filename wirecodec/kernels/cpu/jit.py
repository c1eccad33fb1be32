"""``kernel`` and ``inline``: Numba's njit with the project's settings, safe if many processes start at once.

Kernels are compiled on first use and cached on disk. Numba's cache is an index file and numbered data files,
rewritten without a lock. Ranks that start together on a cold cache can therefore pair one signature's name
with another's code. Here the name of a data file is a hash of all that its code depends on (``cache_files``),
so loading needs no lock. A lock per kernel saves work while compiling (``compile_lock``).

A kernel that calls another kernel contains it as a helper (``helper_compiler``). Compiling one kernel
therefore never compiles a second one.

No fastmath: results must not depend on how a loop was vectorised.
"""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

import numba

from wirecodec.kernels.cpu.cache_files import is_cached, name_by_contents
from wirecodec.kernels.cpu.cached_only import CompilationNeeded, is_compilation_allowed
from wirecodec.kernels.cpu.compile_lock import CompileLock
from wirecodec.kernels.cpu.compile_log import LogEntry, log, warn_without_cache
from wirecodec.kernels.cpu.literals import without_literals

LAST_TESTED_NUMBA = (0, 68)
"""Last version of Numba on which ``helper_compiler`` was tested; the first is in pyproject.toml."""

# The compiler of helpers overrides internal methods of Numba, which can change with any version.
if numba.version_info.short <= LAST_TESTED_NUMBA:
    from wirecodec.kernels.cpu.helper_compiler import KernelCompiler, make_helper
else:
    from wirecodec.kernels.cpu.plain_compiler import KernelCompiler, make_helper

__all__ = ["cache_folder", "inline", "inline_without_refcounts", "kernel"]

F = TypeVar("F", bound=Callable[..., Any])

_folders: set[str] = set()
"""Cache folders of the kernels."""


def kernel(fn: F) -> F:
    """Compile ``fn`` on first use, without the GIL, with IEEE division, cached on disk."""
    settings = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    dispatcher = numba.njit(pipeline_class=KernelCompiler, **settings)(fn)
    try:
        dispatcher.enable_caching()
        name_by_contents(dispatcher._cache, fn.__code__.co_filename)
    except RuntimeError:  # no writable folder: each process compiles for itself
        folder = None
    else:
        folder = dispatcher._cache.cache_path
        _folders.add(folder)
    file = f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}.lock"
    lock = CompileLock(None if folder is None else os.path.join(folder, file))
    name = f"{fn.__module__}.{fn.__qualname__}".removeprefix(f"{__package__}.")
    compile_plainly = dispatcher.compile

    def compile_locked(signature: Any) -> Any:
        signature = without_literals(signature)
        if not (is_compilation_allowed() or is_cached(dispatcher, signature)):
            raise CompilationNeeded(name)
        if folder is None:
            warn_without_cache("no cache folder is writable")
        start = time.perf_counter()
        with lock.hold(lambda: is_cached(dispatcher, signature)):
            known, misses = len(dispatcher.overloads), sum(dispatcher._cache_misses.values())
            with _pause_garbage_collection():
                entry_point = compile_plainly(signature)
            if len(dispatcher.overloads) > known:
                compiled = sum(dispatcher._cache_misses.values()) > misses
                log.append(LogEntry(name, time.perf_counter() - start, compiled))
        return entry_point

    helper = make_helper(fn)  # for kernels that call this one
    dispatcher.compile = compile_locked
    dispatcher.get_call_template, dispatcher.get_overload = helper.get_call_template, helper.get_overload
    return cast(F, dispatcher)


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Collect no cycles in the block: the compiler makes many objects, and traversing them takes time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def inline(fn: F) -> F:
    """Compile ``fn`` into the kernels that call it, never alone.

    LLVM inlines it. Numba's own inlining would unify the types of its variables with the caller's.
    """
    return cast(F, make_helper(fn))


def inline_without_refcounts(fn: F) -> F:
    """Compile ``fn`` as ``inline`` does, without reference counts; it must neither create nor return arrays.

    The counts are atomic. In a loop that calls a short function with arrays, they can cost more than the
    function.
    """
    return cast(F, make_helper(fn, _nrt=False))


def cache_folder() -> str | None:
    """Return the folder that holds all cached kernels, or None if none is cached."""
    return os.path.commonpath(_folders) if _folders else None

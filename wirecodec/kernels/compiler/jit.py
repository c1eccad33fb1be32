"""``kernel`` and ``inline``: Numba's njit with the project's settings, safe if many processes start at once.

Kernels come with the package (``built``), or are compiled on first use and cached on disk. Numba's cache is
an index file and numbered data files, rewritten without a lock. Ranks that start together on a cold cache can
therefore pair one signature's name with another's code. Here the name of a data file is a hash of all that
its code depends on (``cache_files``), so loading needs no lock. A lock per kernel saves work while compiling
(``compile_lock``). If the file of a kernel is damaged (``checked_files``), the kernel is compiled again.

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
from functools import partial
from typing import Any, TypeVar, cast

import numba

from wirecodec.kernels.compiler.built import explain_other_environment
from wirecodec.kernels.compiler.cache_files import KernelCache
from wirecodec.kernels.compiler.cache_folder import (
    FolderlessCache,
    explain_other_folder,
    prefer_folder_beside,
)
from wirecodec.kernels.compiler.cached_only import CompilationNeeded, is_compilation_allowed
from wirecodec.kernels.compiler.compile_lock import CompileLock
from wirecodec.kernels.compiler.compile_log import (
    LogEntry,
    announce,
    is_warned_without_cache,
    log,
    warn_of_damage,
    warn_of_other_folder,
    warn_without_cache,
)
from wirecodec.kernels.compiler.literals import without_literals
from wirecodec.kernels.compiler.notice import tell_of_compilation
from wirecodec.kernels.uninterrupted import run_uninterrupted

LAST_TESTED_NUMBA = (0, 68)
"""Last version of Numba on which ``helper_compiler`` was tested; the first is in pyproject.toml."""

# The compiler of helpers overrides internal methods of Numba, which can change with any version.
if numba.version_info.short <= LAST_TESTED_NUMBA:
    from wirecodec.kernels.compiler.helper_compiler import KernelCompiler, make_helper
else:
    from wirecodec.kernels.compiler.plain_compiler import KernelCompiler, make_helper

F = TypeVar("F", bound=Callable[..., Any])

kernels: dict[str, Any] = {}
"""{module and name: dispatcher} of the kernels."""

_folders: set[str] = set()
"""Cache folders of the kernels."""


def kernel(fn: F) -> F:
    """Compile ``fn`` on first use, without the GIL, with IEEE division, cached on disk.

    Raises:
        RuntimeError: Numba is set to compile nothing.
    """
    _require_compiler()
    settings = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    dispatcher = numba.njit(pipeline_class=KernelCompiler, **settings)(fn)
    name = f"{fn.__module__}.{fn.__qualname__}".removeprefix(f"{__package__}.")
    cache, wanted = _open_cache(dispatcher, name, fn.__code__.co_filename), numba.config.CACHE_DIR
    file = f"{fn.__module__.rpartition('.')[2]}.{fn.__qualname__}.lock"
    lock = CompileLock(None if cache.cache_path is None else os.path.join(cache.cache_path, file))
    compile_plainly = dispatcher.compile

    def compile_locked(signature: Any) -> Any:
        signature = without_literals(signature)

        def is_cached() -> bool:
            return cache.has(signature, dispatcher.targetctx)

        if not (is_compilation_allowed() or is_cached()):
            raise CompilationNeeded(name)
        if not (is_cached() and cache.is_built(signature, dispatcher.targetctx)):
            _check_folder(cache, wanted)
        start = time.perf_counter()
        notice = contextlib.nullcontext() if is_cached() else tell_of_compilation(_find_written_folder)
        with notice, lock.hold(is_cached), _release(cache):
            if not is_cached():
                announce()
            known, misses = len(dispatcher.overloads), sum(dispatcher._cache_misses.values())
            with _pause_garbage_collection():
                entry_point = compile_plainly(signature)
            compiled = sum(dispatcher._cache_misses.values()) > misses
            if len(dispatcher.overloads) > known:
                log.append(LogEntry(name, time.perf_counter() - start, compiled))
        if compiled and cache.damage is not None:
            warn_of_damage(*cache.damage)
        return entry_point

    helper = make_helper(fn)  # for kernels that call this one
    # An interrupt would leave locks of Numba and llvmlite taken, also while a kernel is loaded.
    dispatcher.compile = lambda signature: run_uninterrupted(partial(compile_locked, signature))
    dispatcher.get_call_template, dispatcher.get_overload = helper.get_call_template, helper.get_overload
    kernels[name] = dispatcher
    return cast(F, dispatcher)


def _require_compiler() -> None:
    """Raise RuntimeError if Numba is set to compile nothing: kernels give the right results compiled only."""
    if numba.config.DISABLE_JIT:
        raise RuntimeError(
            "wirecodec cannot run its kernels without Numba's compiler, which NUMBA_DISABLE_JIT turns off; "
            "unset it, or set it to 0"
        )


def _open_cache(dispatcher: Any, name: str, source: str) -> KernelCache:
    """Give a dispatcher a disk cache, without a folder if none is writable; return it.

    Args:
        dispatcher: of the kernel.
        name: module and name of the kernel.
        source: path of its module.
    """
    try:
        with prefer_folder_beside(source):
            dispatcher.enable_caching()
    except RuntimeError:
        dispatcher._cache = FolderlessCache(dispatcher.py_func)
    cache = dispatcher._cache = KernelCache(dispatcher._cache, name, source)
    if cache.cache_path is not None:
        _folders.add(cache.cache_path)
    return cache


def _check_folder(cache: KernelCache, wanted: str) -> None:
    """Warn if a kernel is not cached, or not in the folder ``wanted``, that of NUMBA_CACHE_DIR."""
    if cache.cache_path is None:
        warn_without_cache("no cache folder is writable")
    elif (cause := explain_other_folder(cache.cache_path, wanted)) is not None:
        warn_of_other_folder(wanted, cause, cast(str, cache_folder()))


@contextlib.contextmanager
def _release(cache: KernelCache) -> Iterator[None]:
    """Release the memory of code that the block did not load."""
    try:
        yield
    finally:
        cache.release()


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Collect no cycles in the block: the compiler makes many objects, and traversing them takes time.

    Afterwards its objects count as old ones. As young ones they would be traversed at once.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:  # otherwise the caller froze objects, and unfreezing would undo it
            gc.freeze()
            gc.unfreeze()
        if enabled:
            gc.enable()


def inline(fn: F) -> F:
    """Compile ``fn`` into the kernels that call it, never alone.

    LLVM inlines it. Numba's own inlining would unify the types of its variables with the caller's.
    """
    _require_compiler()
    return cast(F, make_helper(fn))


def inline_without_refcounts(fn: F) -> F:
    """Compile ``fn`` as ``inline`` does, without reference counts; it must neither create nor return arrays.

    The counts are atomic. In a loop that calls a short function with arrays, they can cost more than the
    function.
    """
    _require_compiler()
    return cast(F, make_helper(fn, _nrt=False))


def _find_written_folder() -> str | None:
    """Return the folder above those of the kernels, and why those of the package do not serve.

    It is None after the warning that kernels are not stored.
    """
    if is_warned_without_cache():
        return None
    folder = cache_folder()
    # The first kernel's folder is no common one yet.
    folder = os.path.dirname(folder) if folder is not None and folder in _folders else folder
    return None if folder is None else f"{folder}{explain_other_environment()}"


def cache_folder() -> str | None:
    """Return the folder that holds all cached kernels, or None if none is cached."""
    return os.path.commonpath(_folders) if _folders else None

"""Log of the kernels that became ready in this process, and the warnings about their cache."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class LogEntry:
    """Kernel that became ready for one signature.

    Attributes:
        kernel: its module and name, such as "index.rice_read.read_directory".
        seconds: duration.
        compiled: True if it was compiled, False if it was loaded from the disk cache.
    """

    kernel: str
    seconds: float
    compiled: bool


log: list[LogEntry] = []
"""Kernels that became ready in this process, in order."""

_once = {topic: threading.Lock() for topic in ("cache", "damage", "folder", "start")}
"""Locks of the messages, each held from the first message on."""

_observer: ContextVar[Callable[[], object] | None] = ContextVar("called before compilations", default=None)


def announce() -> None:
    """Log that this process begins to compile, once, and call the observer of this thread."""
    if _once["start"].acquire(blocking=False):
        logging.getLogger("wirecodec").info(
            "wirecodec compiles kernels, which takes seconds; they are cached on disk for later runs"
        )
    if (observer := _observer.get()) is not None:
        observer()


@contextlib.contextmanager
def before_compilations(observer: Callable[[], object]) -> Iterator[None]:
    """Call a function before each compilation of this thread in the block."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def warn_without_cache(cause: str) -> None:
    """Warn that compiled kernels are not stored; once per process.

    Args:
        cause: the reason, as a clause.
    """
    folder = os.environ.get("NUMBA_CACHE_DIR")
    setting = f"; NUMBA_CACHE_DIR is {folder!r}" if folder else ""
    _warn_once(
        "cache",
        f"wirecodec compiles its kernels in every process, which takes seconds, because {cause}{setting}. "
        "Set the environment variable NUMBA_CACHE_DIR to a writable folder",
    )


def is_warned_without_cache() -> bool:
    """Return whether ``warn_without_cache`` has warned."""
    return _once["cache"].locked()


def warn_of_damage(folder: str, damage: str) -> None:
    """Warn that kernels were compiled again because their files were damaged; once per process.

    Args:
        folder: the cache folder, or that of the package's kernels.
        damage: name of a file, and what is wrong with it.
    """
    _warn_once(
        "damage",
        f"wirecodec compiles kernels again, because files of the kernel cache in {folder!r} are damaged or "
        f"cannot be read ({damage})",
    )


def warn_of_other_folder(wanted: str, cause: str, folder: str) -> None:
    """Warn that kernels are not cached in the folder of NUMBA_CACHE_DIR; once per process.

    Args:
        wanted: that folder.
        cause: the reason, as a clause.
        folder: the cache folder that is used instead.
    """
    _warn_once(
        "folder",
        f"NUMBA_CACHE_DIR is {wanted!r}, but {cause}; wirecodec caches its kernels in {folder!r} instead",
    )


def _warn_once(topic: str, message: str) -> None:
    if _once[topic].acquire(blocking=False):
        warnings.warn(message, RuntimeWarning, stacklevel=3)

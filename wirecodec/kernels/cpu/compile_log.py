"""Log of the kernels that became ready in this process, and the warning that none can be cached."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass

__all__ = ["LogEntry", "log", "warn_without_cache"]


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

_once = threading.Lock()
"""Held from the first warning on."""


def warn_without_cache(cause: str) -> None:
    """Warn that compiled kernels are not stored; once per process.

    Args:
        cause: the reason, as a clause.
    """
    if not _once.acquire(blocking=False):
        return
    folder = os.environ.get("NUMBA_CACHE_DIR")
    setting = f"; NUMBA_CACHE_DIR is {folder!r}" if folder else ""
    warnings.warn(
        f"wirecodec compiles its kernels in every process, which takes seconds, because {cause}{setting}. "
        "Set the environment variable NUMBA_CACHE_DIR to a writable folder",
        RuntimeWarning,
        stacklevel=2,
    )

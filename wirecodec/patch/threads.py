"""Work on many tensors, on all threads that kernels may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def map_in_threads(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Apply a function on all threads that kernels may use, and yield the results in order."""
    from wirecodec.kernels.cpu.threads import thread_count

    listed = list(items)
    threads = min(thread_count(), len(listed))
    if threads < 2:
        yield from map(function, listed)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from pool.map(function, listed)

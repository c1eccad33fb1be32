"""Content of the last records, by their bytes: all containers of a training have the same names and shapes.

Only records of containers that are valid as a whole are kept. So refusing a container makes no objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Content = TypeVar("Content")

KEPT, MAX_TOTAL = 32, 2**18
"""Records that are kept, and their bytes. Objects take up to 20 times the bytes."""


class KeptRecords(Generic[Content]):
    """Content of at most ``KEPT`` records of one type; the first one kept leaves first.

    Threads may use it together. It has no lock, which a process that forks could leave locked.

    Args:
        read: returns the content of a record, or None if the record is not sound.
    """

    def __init__(self, read: Callable[[bytes], Content | None]) -> None:
        self._read = read
        self._found: dict[bytes, Content] = {}

    def find(self, body: memoryview) -> Content | None:
        """Return the content of a record, or None if it is not kept."""
        return self._found.get(bytes(body))

    def keep(self, body: memoryview) -> None:
        """Read and keep the content of a record, unless its bytes have changed since it was checked."""
        key = bytes(body)
        if key in self._found or (content := self._read(key)) is None:
            return
        self._found[key] = content
        kept = list(self._found)
        left, total = len(kept), sum(map(len, kept))
        for old in kept:
            if left <= KEPT and total <= MAX_TOTAL:
                break
            self._found.pop(old, None)
            left, total = left - 1, total - len(old)

    def clear(self) -> None:
        """Forget all records."""
        self._found.clear()

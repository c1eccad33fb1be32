"""Content of the last records, by their bytes: all containers of a training have the same names and shapes.

Only records of containers that are valid as a whole are kept. So refusing a container makes no objects.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

Content = TypeVar("Content")

KEPT, MAX_TOTAL = 32, 2**18
"""Records that are kept, and their bytes. Objects take up to 20 times the bytes."""


class KeptRecords(Generic[Content]):
    """Content of at most ``KEPT`` records of one type; the first one kept leaves first.

    Args:
        read: returns the content of a record.
    """

    def __init__(self, read: Callable[[bytes], Content]) -> None:
        self._read = read
        self._found: dict[bytes, Content] = {}
        self._adding = Lock()

    def find(self, body: memoryview) -> Content | None:
        """Return the content of a record, or None if it is not kept."""
        return self._found.get(bytes(body))

    def keep(self, body: memoryview) -> None:
        """Read and keep the content of a sound record."""
        key = bytes(body)
        if key in self._found:
            return
        content = self._read(key)
        with self._adding:
            self._found[key] = content
            while len(self._found) > KEPT or sum(map(len, self._found)) > MAX_TOTAL:
                del self._found[next(iter(self._found))]

    def clear(self) -> None:
        """Forget all records."""
        with self._adding:
            self._found.clear()

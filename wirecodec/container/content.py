"""Names and shapes records: their checks and content (formats/SPEC.md, 2.3 and 7).

A block may describe very many tensors, and the payload is checked after it. Records are therefore read one
row at a time. The content of the last short ones is kept by their bytes, because all containers of a training
have the same names and shapes. Only records of containers that are valid as a whole are kept. So refusing a
container makes no objects.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

import numpy as np

from wirecodec.arrays import Array, integers
from wirecodec.container.extension_writer import MAX_NDIM, MAX_PRODUCT, ROW, dimension_bytes
from wirecodec.errors import Invalid, Malformed, WireError

_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}

MAX_KEPT = 2**16
"""Bytes up to which a record is kept."""

MAX_ROW_BYTES = 16
"""Bytes of the shapes record per tensor up to which it is kept."""

_LONG = 4096
"""Bytes of rejected rows from which a kernel is faster than Python."""

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


def is_short(names: memoryview | None, shapes: memoryview | None, n: int) -> bool:
    """Tell whether the names and shapes of n tensors are short enough to be kept as objects."""
    return len(names or b"") <= MAX_KEPT and len(shapes or b"") <= min(MAX_KEPT, MAX_ROW_BYTES * n)


def read_names(body: memoryview, *, kept: bool) -> Iterator[str]:
    """Yield the names of a checked record; ``kept`` is the result of ``is_short``."""
    found = _NAMES.find(body) if kept else None
    return map(bytes.decode, _texts(body)) if found is None else iter(found)


def read_rows(body: memoryview, *, kept: bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (key, shape) of each row of a checked shapes record; ``kept`` is the result of ``is_short``."""
    found = _ROWS.find(body) if kept else None
    return walk_rows(body) if found is None else iter(found.rows)


def fit_sizes(body: memoryview, sizes: Array) -> bool:
    """Tell whether a shapes record is kept, and matches the sizes (n,) of all tensors."""
    found = _ROWS.find(body)
    return found is not None and found.fit(sizes)


def keep(names: memoryview | None, shapes: memoryview | None) -> None:
    """Keep the content of a valid container's records."""
    if names is not None:
        _NAMES.keep(names)
    if shapes is not None:
        _ROWS.keep(shapes)


def check_names(body: memoryview, n: int, *, kept: bool) -> None:
    """Check the names record of n tensors."""
    count = int.from_bytes(body[:4], "little")
    first = 4 + 2 * count
    if count == 0 or first > len(body):
        raise Malformed("names-record", f"{count} names in {len(body)} bytes")
    end = first + int(np.frombuffer(body, "<u2", count, 4).sum(dtype=np.int64))
    if end != len(body):
        raise Malformed("names-record", f"the names end at byte {end} of {len(body)}")
    if count != n:
        raise Invalid("names", f"{count} names for {n} tensors")
    if kept and _NAMES.find(body) is not None:
        return
    if any(a >= b for a, b in pairwise(_texts(body))):
        raise Invalid("names", "the names do not ascend")
    try:
        for text in _texts(body):
            text.decode()
    except UnicodeDecodeError:
        raise Invalid("names", "a name is not UTF-8") from None


def _texts(body: memoryview) -> Iterator[bytes]:
    """Yield the UTF-8 bytes of each name of a record with checked lengths."""
    count = int.from_bytes(body[:4], "little")
    at = 4 + 2 * count
    for length in integers(np.frombuffer(body, "<u2", count, 4)):
        yield bytes(body[at : at + length])
        at += length


def walk_rows(body: memoryview, at: int = 0) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (key, shape) of each row of a shapes record from byte ``at`` on.

    Raises Malformed if a row is not sound.
    """
    while at < len(body) or at == 0:
        if at + ROW.size > len(body):
            raise Malformed("shapes-record", "a row runs past the record")
        key, ndim, width, reserved = ROW.unpack_from(body, at)
        at += ROW.size
        letter = _UNSIGNED.get(width)
        if ndim == 1 or ndim > MAX_NDIM or letter is None or reserved or at + ndim * width > len(body):
            raise Malformed("shapes-record", f"a row has {ndim} dimensions of {width} bytes")
        dims = struct.unpack_from(f"<{ndim}{letter}", body, at)
        if width != dimension_bytes(dims):
            least = dimension_bytes(dims)
            raise Malformed("shapes-record", f"{width} bytes per dimension; it must be {least}")
        yield key, dims
        at += ndim * width


def check_rows(body: memoryview) -> None:
    """Check the structure of all rows (row 39 of section 7); there may be very many."""
    at = 0
    if len(body) > _LONG:
        from wirecodec.kernels.cpu import extension

        at = int(extension.skip_rows(np.frombuffer(body, np.uint8), MAX_NDIM))
    for _ in walk_rows(body, at):
        pass


def _list_names(body: bytes) -> tuple[str, ...] | None:
    """Return the names of a record, or None if it is not sound."""
    view = memoryview(body)
    try:
        check_names(view, int.from_bytes(body[:4], "little"), kept=False)
    except WireError:
        return None
    return tuple(map(bytes.decode, _texts(view)))


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a sound shapes record.

    Attributes:
        rows: (key, shape) of each.
        keys: (n,) i64, ascending.
        sizes: (n,) i64, products of the dimensions.
    """

    rows: tuple[tuple[int, tuple[int, ...]], ...]
    keys: Array
    sizes: Array

    @classmethod
    def of(cls, body: bytes) -> _Rows | None:
        """Read a record; return None if it is not sound."""
        try:
            rows = tuple(walk_rows(memoryview(body)))
        except WireError:
            return None
        keys = np.array([key for key, _ in rows], np.int64)
        if (keys[1:] <= keys[:-1]).any() or any(
            math.prod(n for n in dims if n) > MAX_PRODUCT for _, dims in rows
        ):
            return None
        return cls(rows, keys, np.array([math.prod(dims) for _, dims in rows], np.int64))

    def fit(self, sizes: Array) -> bool:
        """Return whether all rows match the sizes of all tensors."""
        keys = self.keys
        return bool(keys[-1] < sizes.size and (sizes[keys] == self.sizes).all())


_NAMES = KeptRecords(_list_names)
_ROWS = KeptRecords(_Rows.of)

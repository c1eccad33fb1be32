"""Names and shapes records: their checks and content (formats/SPEC.md, 2.3 and 7).

A block may describe very many tensors, and the payload is checked after it. Long records are therefore
read one row at a time. The content of short ones is kept, because all steps of a training have the same.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from operator import ge

import numpy as np

from wirecodec.arrays import Array, integers
from wirecodec.container.extension_writer import MAX_NDIM, MAX_PRODUCT, ROW, dimension_bytes
from wirecodec.errors import Invalid, Malformed

_UNSIGNED = {1: "B", 2: "H", 4: "I", 8: "Q"}

KEPT, MAX_KEPT = 32, 2**16
"""Number and bytes of the records whose names and shapes are kept: all steps of a training have the same."""

MAX_ROW_BYTES = 16
"""Bytes of the shapes record per tensor up to which it is kept."""

_LONG = 4096
"""Bytes of rejected rows from which a kernel is faster than Python."""


def is_short(names: memoryview | None, shapes: memoryview | None, n: int) -> bool:
    """Tell whether the names and shapes of n tensors are short enough to be kept as objects."""
    return len(names or b"") <= MAX_KEPT and len(shapes or b"") <= min(MAX_KEPT, MAX_ROW_BYTES * n)


def read_names(body: memoryview, *, kept: bool) -> Iterator[str]:
    """Yield the names of a checked record; ``kept`` is the result of ``is_short``."""
    return iter(_sound_names(bytes(body))) if kept else map(bytes.decode, _texts(body))


def read_rows(body: memoryview, *, kept: bool) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Yield (key, shape) of each row of a checked shapes record; ``kept`` is the result of ``is_short``."""
    return iter(_sound_rows(bytes(body)).rows) if kept else walk_rows(body)


def fit_sizes(body: memoryview, sizes: Array) -> bool:
    """Tell whether a short shapes record is sound, and matches the sizes (n,) of all tensors."""
    return _sound_rows(bytes(body)).fit(sizes)


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
    if kept:
        _sound_names(bytes(body))
        return
    if any(a >= b for a, b in pairwise(_texts(body))):
        raise Invalid("names", "the names do not ascend")
    try:
        for text in _texts(body):
            text.decode()
    except UnicodeDecodeError:
        raise Invalid("names", "a name is not UTF-8") from None


@lru_cache(maxsize=KEPT)
def _sound_names(body: bytes) -> tuple[str, ...]:
    """Check that the names of a record ascend and are UTF-8; return them. Raises Invalid."""
    texts = list(_texts(memoryview(body)))
    if any(map(ge, texts, texts[1:])):
        raise Invalid("names", "the names do not ascend")
    try:
        return tuple(map(bytes.decode, texts))
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


@dataclass(frozen=True, eq=False)
class _SoundRows:
    """Rows of a shapes record whose structure is sound.

    Attributes:
        rows: (key, shape) of each; none if the structure is not sound.
        keys: (n,) i64; empty if they do not ascend, or if a product of dimensions is too large.
        sizes: (n,) i64, products of the dimensions.
    """

    rows: tuple[tuple[int, tuple[int, ...]], ...]
    keys: Array
    sizes: Array

    def fit(self, sizes: Array) -> bool:
        """Return whether there are rows, and all of them match the sizes of all tensors."""
        keys = self.keys
        return bool(keys.size and keys[-1] < sizes.size and (sizes[keys] == self.sizes).all())


@lru_cache(maxsize=KEPT)
def _sound_rows(body: bytes) -> _SoundRows:
    """Return the rows of a shapes record; their structure and products are checked, their sizes are not."""
    nothing = np.empty(0, np.int64)
    try:
        rows = tuple(walk_rows(memoryview(body)))
    except Malformed:
        return _SoundRows((), nothing, nothing)
    keys = np.array([key for key, _ in rows], np.int64)
    if (keys[1:] <= keys[:-1]).any() or any(
        math.prod(n for n in dims if n) > MAX_PRODUCT for _, dims in rows
    ):
        return _SoundRows(rows, nothing, nothing)
    return _SoundRows(rows, keys, np.array([math.prod(dims) for _, dims in rows], np.int64))


def check_rows(body: memoryview) -> None:
    """Check the structure of all rows (row 39 of section 7); there may be very many."""
    at = 0
    if len(body) > _LONG:
        from wirecodec.kernels.cpu import extension

        at = int(extension.skip_rows(np.frombuffer(body, np.uint8), MAX_NDIM))
    for _ in walk_rows(body, at):
        pass

"""What mutations begin with: the golden vectors that are small, and large containers made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from formats.reference import Record, Row
from tests.fuzz.anatomy import Parts, laid_out, parts_of
from tests.golden import vectors

_MOST = 3000
_TABLE_ROW = 40
_PATTERN_TYPE = 77
"""A record type that no reader knows."""


@cache
def valid_seeds() -> tuple[bytes, ...]:
    """Containers that must be read."""
    return tuple(v.data for v in vectors() if v.result == "ok" and len(v.data) <= _MOST)


@cache
def all_seeds() -> tuple[bytes, ...]:
    """Those, and those that must not: what one check stops may pass another one once it is changed."""
    return tuple(v.data for v in vectors() if len(v.data) <= _MOST)


def large_seed(pattern: Row | Record, size: int) -> bytes:
    """Make a container of about ``size`` bytes that repeats a row or a record."""
    if isinstance(pattern, Row):
        return repeated(pattern, size // _bytes_of(pattern))
    row = next(p for p in patterns() if isinstance(p, Row))
    return laid_out(Parts([replace(row, key=0)], [pattern] * (size // (8 + len(pattern.body)))))


@cache
def patterns() -> tuple[Row | Record, ...]:
    """What large containers repeat: a small row of each pair of codecs, and records of three lengths."""
    bodies = b"", b"x" * 8, b"y" * 4000
    return (*_rows(), *(Record(_PATTERN_TYPE, 0, body) for body in bodies))


def repeated(row: Row, n: int, last: Row | None = None) -> bytes:
    """Make a container of ``n`` tensors that are alike, and then of ``last`` if it is given."""
    rows = [replace(row, key=key, base=0) for key in range(n)]
    return laid_out(Parts(rows if last is None else [*rows, replace(last, key=n, base=0)]))


def _rows() -> Iterator[Row]:
    """The first small row of each pair of codecs; of Bloom filters, of each policy and k = 2, too."""
    seen = set()
    for data in valid_seeds():
        parts = parts_of(data)
        for row in parts.rows if parts else ():
            bloom = row.index_section[12:14] if row.index == 9 else b""
            kind = (
                row.dtype >> 4,
                row.index if 0 < row.r < row.d else 0,
                row.value,
                bloom[1:],
                bloom[:1] == b"\2",
            )
            if not row.base and not row.dtype >> 4 and row.r and kind not in seen:
                seen.add(kind)
                yield row


def _bytes_of(row: Row) -> int:
    sections = (row.index_section, row.value_section, row.map_section)
    return _TABLE_ROW + sum(len(section) + -len(section) % 8 for section in sections)

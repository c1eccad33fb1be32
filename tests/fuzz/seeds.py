"""Seeds of mutations: small golden vectors, and large containers built from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from formats.reference import Record, Row
from tests.fuzz.anatomy import Parts, assemble_parts, split_container
from tests.golden import vectors

_MAX_SEED_BYTES = 3000
_TABLE_ROW = 40
_PATTERN_TYPE = 77
"""A record type that is not in the specification."""


@cache
def valid_seeds() -> tuple[bytes, ...]:
    """Return the small valid golden vectors."""
    return tuple(v.data for v in vectors() if v.result == "ok" and len(v.data) <= _MAX_SEED_BYTES)


@cache
def all_seeds() -> tuple[bytes, ...]:
    """Return all small golden vectors; a mutation of an invalid one may reach later checks."""
    return tuple(v.data for v in vectors() if len(v.data) <= _MAX_SEED_BYTES)


def large_seed(pattern: Row | Record, size: int) -> bytes:
    """Make a container of about ``size`` bytes that repeats a row or a record."""
    if isinstance(pattern, Row):
        return repeat_row(pattern, size // _bytes_of(pattern))
    row = next(p for p in patterns() if isinstance(p, Row))
    return assemble_parts(Parts([replace(row, key=0)], [pattern] * (size // (8 + len(pattern.body)))))


@cache
def patterns() -> tuple[Row | Record, ...]:
    """Return the patterns of large seeds: a small row of each pair of codecs, records of three lengths."""
    bodies = b"", b"x" * 8, b"y" * 4000
    return (*_rows(), *(Record(_PATTERN_TYPE, 0, body) for body in bodies))


def repeat_row(row: Row, n: int, last: Row | None = None) -> bytes:
    """Make a container of ``n`` equal tensors, followed by ``last`` if it is given."""
    rows = [replace(row, key=key, base=0) for key in range(n)]
    return assemble_parts(Parts(rows if last is None else [*rows, replace(last, key=n, base=0)]))


def _rows() -> Iterator[Row]:
    """Yield the first small row of each pair of codecs, and of each Bloom policy and k = 2."""
    seen = set()
    for data in valid_seeds():
        parts = split_container(data)
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

"""Tensors by key: the table's entries, and the tensors that share some (formats/SPEC.md, 2.3 and 7).

Tensors share an entry as its parts (fused), or as parts of the vector that was transformed (joined).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array, integers
from wirecodec.container.extension_writer import HEAD, MEMBER
from wirecodec.container.records import view_rows
from wirecodec.errors import Invalid, LimitExceeded, Malformed


@dataclass(frozen=True, eq=False)
class Spans:
    """The table's entries by key.

    Attributes:
        keys: (n,) u32, ascending.
        starts: (n,) i64, number of each key's first entry.
        chunks: (n,) i64, entries per key.
        sizes: (n,) i64, elements per key; coefficients if the domain is not 0.
        domains: (n,) u8.
        typed: (n,) bool, whether the record of types has the element type; None if it has none.
    """

    keys: Array
    starts: Array
    chunks: Array
    sizes: Array
    domains: Array
    typed: Array | None = None

    def find(self, key: int) -> int | None:
        """Return a key's position in ``keys``, or None."""
        at = int(np.searchsorted(self.keys, np.uint32(key)))  # another type would convert all keys
        return at if at < self.keys.size and self.keys[at] == key else None


def check_members(
    fused: memoryview | None, joined: memoryview | None, spans: Spans, max_entries: int
) -> Array:
    """Check the fused record and the joined one: rows 31 to 33a; return all keys, (n,) u32 ascending.

    Args:
        fused, joined: bodies of the records, or None.
        spans: the table's entries by key.
        max_entries: bound on entries and members after the first of an entry or a vector.
    """
    pairs, starts = np.empty((1, 2), np.uint32), np.empty(0, np.int64)
    if fused is not None:
        pairs, starts = _read_fused(fused)
    rows = view_rows(joined, MEMBER, "joined-record")
    others = rows["key"][rows["key"] != rows["first"]]
    n = int(spans.chunks.sum()) + len(pairs) - 1 - 2 * starts.size + others.size
    if n > max_entries:
        raise LimitExceeded("max-entries", f"{n} entries and further members; the limit is {max_entries}")
    keys = _check_fused(pairs, starts, spans)
    if rows.size:
        _check_joined(rows, spans)
        keys = _add_keys("joined", keys, others)
    return keys


def read_pairs(body: memoryview) -> Array:
    """View the fused record as (n, 2) u32."""
    if len(body) < HEAD.size or len(body) % HEAD.size:
        raise Malformed("fused-record", f"{len(body)} bytes are not a sequence of pairs")
    return np.frombuffer(body, "<u4").reshape(-1, 2)


def _group_starts(pairs: Array) -> Iterator[int]:
    """Yield the positions of the pairs that begin a group; raise Malformed if one does not fit."""
    words = pairs.reshape(-1).data  # reading single elements is twice as fast as from an array
    at = 1
    while at < len(pairs):
        members = words[2 * at + 1]
        if members < 2 or at + 1 + members > len(pairs):
            raise Malformed("fused-record", f"a group of {members} members")
        yield at
        at += 1 + members


def read_groups(pairs: Array) -> Iterator[Array]:
    """Yield the members of each group, (n, 2) u32: (key, size), the entry's key first."""
    return (pairs[at + 1 : at + 1 + int(pairs[at, 1])] for at in _group_starts(pairs))


def _read_fused(body: memoryview) -> tuple[Array, Array]:
    """Check the body of the fused record; return its pairs (n, 2) u32, and the places of the groups."""
    pairs = read_pairs(body)
    count, reserved = pairs[0].tolist()
    if count == 0 or reserved:
        raise Malformed("fused-record", f"{count} groups, reserved word {reserved}")
    starts = np.fromiter(_group_starts(pairs), np.int64)
    if starts.size != count:
        raise Malformed("fused-record", f"{starts.size} groups; its count is {count}")
    return pairs, starts


def _check_fused(pairs: Array, starts: Array, spans: Spans) -> Array:
    """Check the groups of the fused record; return the keys of table and groups, (n,) u32 ascending."""
    before = -1
    for key, group in zip(integers(pairs[starts, 0]), read_groups(pairs), strict=True):
        if key <= before or group[0, 0] != key or (group[1:, 0] <= group[:-1, 0]).any():
            raise Invalid("fused", f"the group of entry {key} is out of order")
        at = spans.find(key)
        if (
            at is None
            or (spans.chunks[at], spans.domains[at]) != (1, 0)
            or spans.sizes[at] != group[:, 1].sum(dtype=np.int64)
        ):
            raise Invalid("fused", f"entry {key} is not one plain chunk of its members' size")
        before = key
    others = np.ones(len(pairs), bool)
    others[0] = others[starts] = others[starts + 1] = False
    return _add_keys("fused", spans.keys, pairs[others, 0])


def _add_keys(code: str, keys: Array, others: Array) -> Array:
    """Return all keys in ascending order; raise Invalid with this code if one occurs twice."""
    if not others.size:
        return keys
    joined: Array = np.concatenate([keys, others])
    joined.sort()
    if (joined[1:] == joined[:-1]).any():
        raise Invalid(code, "a member is elsewhere, too")
    return joined


def find_vectors(rows: Array) -> Array:
    """Return the places of the first members of joined vectors, (n,) i64."""
    return np.flatnonzero(np.append(True, rows["first"][1:] != rows["first"][:-1]))


def _check_joined(rows: Array, spans: Spans) -> None:
    """Check the order of the joined record, its vectors, and the entries of these."""
    first, key = rows["first"].astype(np.int64), rows["key"].astype(np.int64)
    ascends = (first[1:] > first[:-1]) | ((first[1:] == first[:-1]) & (key[1:] > key[:-1]))
    starts = find_vectors(rows)
    counts = np.diff(np.append(starts, rows.size))
    if not ascends.all() or (counts < 2).any() or (key[starts] != first[starts]).any():
        raise Invalid("joined", "the rows do not ascend, or a vector has one member or another first key")
    places = np.searchsorted(spans.keys, rows["first"][starts])
    outside = (places == spans.keys.size).any()
    if outside or (spans.keys[places] != first[starts]).any() or (spans.domains[places] == 0).any():
        raise Invalid("joined", "a vector has no entries of coefficients")

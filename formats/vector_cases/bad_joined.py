"""Invalid joined records: rows 31a, 32, 33a and 36 of SPEC section 7, and later rows about members."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import Record, Row, Schema, assemble, write
from formats.reference.extension import CRITICAL, FUSED, JOINED, NAMES, SEMANTICS, SHAPES, TRANSFORM, TYPES
from formats.reference.transform.coefficients import DCT, RFFT
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import (
    write_fused,
    write_joined,
    write_meta,
    write_names,
    write_semantics,
    write_shape,
)
from formats.reference.writing.transform.coefficients import write_lengths
from formats.vector_cases.annotations import digest
from formats.vector_cases.case import Case, bad
from formats.vector_cases.joined import MINOR, vector

MAX32, MAX64 = 2**32 - 1, 2**64 - 1
GOOD = write_joined([[(0, 7), (1, 9)]])
"""Two members of 16 elements."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _body()
    yield from _rows()
    yield from _sizes()
    yield from _members()
    yield from _order()


def _rows_of(*rows: tuple[int, int, int]) -> bytes:
    return b"".join(struct.pack("<IIQ", *row) for row in rows)


def _container(
    body: bytes,
    *records: Record,
    entries: Sequence[tuple[int, int, int]] = ((0, RFFT, 9),),
    lengths: Sequence[tuple[int, int]] = ((0, 16),),
) -> bytes:
    """Return a container with a joined record of this body.

    Args:
        body: of the joined record.
        records: others.
        entries: (key, domain, d) of each, without a coefficient.
        lengths: rows of the transform record; empty for no record.
    """
    listed = [*records, Record(JOINED, CRITICAL, body)]
    if lengths:
        listed.append(Record(TRANSFORM, CRITICAL, write_lengths(lengths)))
    listed.sort(key=lambda record: record.type)
    rows = [Row(key, 0, d, 0, domain << 4 | 1, 1, 1) for key, domain, d in entries]
    return assemble(rows, write_extension_block(listed), minor=MINOR)


def _body() -> Iterator[Case]:
    for id, about, body in (
        ("empty", "No row.", b""),
        ("cut", "The last row is cut.", GOOD[:-1]),
        ("half", "A row and a half.", GOOD[:24]),
        ("surplus", "A byte after the rows.", GOOD + bytes(1)),
    ):
        yield bad(f"joined-record-{id}", about, "Malformed", "joined-record", _container(body))


def _rows() -> Iterator[Case]:
    two = ((0, RFFT, 9), (1, RFFT, 9))
    for id, about, rows, entries in (
        ("one", "A vector of one member.", [(0, 0, 16)], ()),
        ("one-more", "A second vector of one member.", [(0, 0, 7), (0, 2, 9), (1, 1, 16)], two),
        ("order", "Members that do not ascend.", [(0, 0, 7), (0, 2, 4), (0, 1, 5)], ()),
        ("order-first", "The first member after the second.", [(0, 1, 7), (0, 0, 9)], ()),
        (
            "order-vectors",
            "Vectors that do not ascend.",
            [(1, 1, 7), (1, 2, 9), (0, 0, 7), (0, 3, 9)],
            two,
        ),
        ("twice", "A member twice.", [(0, 0, 7), (0, 1, 4), (0, 1, 5)], ()),
        ("twice-first", "The first member twice.", [(0, 0, 7), (0, 0, 4), (0, 1, 5)], ()),
        ("first", "The first member has another key than the vector.", [(0, 1, 7), (0, 2, 9)], ()),
        ("first-less", "The first member has a key below the vector's.", [(1, 0, 7), (1, 2, 9)], two),
        ("key-none", "The vector's key has no entry.", [(1, 1, 7), (1, 2, 9)], ()),
        ("key-most", "Key 2^32 - 2 has no entry.", [(MAX32 - 1, MAX32 - 1, 7), (MAX32 - 1, MAX32, 9)], ()),
        ("entry", "A member with an entry of its own.", [(0, 0, 7), (0, 1, 9)], two),
        (
            "other-vector",
            "A member of two vectors.",
            [(0, 0, 7), (0, 2, 9), (1, 1, 7), (1, 2, 9)],
            two,
        ),
        (
            "chain",
            "A member that is the first of another vector.",
            [(0, 0, 7), (0, 1, 9), (1, 1, 7), (1, 2, 9)],
            (),
        ),
    ):
        data = _container(_rows_of(*rows), entries=entries or ((0, RFFT, 9),))
        yield bad(f"joined-{id}", about, "Invalid", "joined", data)
    plain = _container(GOOD, entries=[(0, 0, 16)], lengths=[])
    yield bad("joined-plain", "The vector's entry is plain.", "Invalid", "joined", plain)
    empty = Record(JOINED, CRITICAL, GOOD)
    data = assemble([], write_extension_block([empty]), minor=MINOR)
    yield bad("joined-no-tensors", "A vector without an entry.", "Invalid", "joined", data)
    fused = Record(FUSED, CRITICAL, write_fused([[(1, 4), (2, 5)]]))
    entries = ((0, RFFT, 9), (1, 0, 9))
    for id, about, rows in (
        ("fused", "A member that is fused, too.", [(0, 0, 7), (0, 2, 9)]),
        ("fused-first", "A member that is the first of a fused entry.", [(0, 0, 7), (0, 1, 9)]),
        ("of-fused", "A vector whose entry is fused.", [(1, 1, 4), (1, 3, 5)]),
        ("of-fused-member", "A vector whose key is that of a fused tensor.", [(2, 2, 4), (2, 3, 5)]),
    ):
        data = _container(_rows_of(*rows), fused, entries=entries)
        yield bad(f"joined-{id}", about, "Invalid", "joined", data)


def _sizes() -> Iterator[Case]:
    kind, code = "Invalid", "transform"
    for id, about, rows in (
        ("fewer", "15 elements in members of 16.", [(0, 0, 7), (0, 1, 8)]),
        ("more", "17 elements in members of 16.", [(0, 0, 7), (0, 1, 10)]),
        ("bins", "The sizes of the bins, not of the elements.", [(0, 0, 4), (0, 1, 5)]),
        ("padded", "The elements that fill up 15 to 16 are no member's.", [(0, 0, 16), (0, 1, 16)]),
        ("wrapping", "16 elements modulo 2^64.", [(0, 0, 17), (0, 1, MAX64)]),
        ("most", "A member of 2^64 - 1 elements.", [(0, 0, 16), (0, 1, MAX64)]),
        ("wrapping-32", "16 elements modulo 2^32.", [(0, 0, 16), (0, 1, 2**32)]),
        (
            "wrapping-four",
            "Four members of 2^62 elements, and one of 16.",
            [(0, key, 2**62) for key in range(4)] + [(0, 4, 16)],
        ),
    ):
        yield bad(f"joined-sizes-{id}", about, kind, code, _container(_rows_of(*rows)))
    body = write_joined([[(0, 7), (2, 8)], [(1, 7), (3, 9)]])
    data = _container(body, entries=[(0, RFFT, 9), (1, RFFT, 9)], lengths=[(0, 16), (1, 16)])
    about = "15 elements in members of 16, before another vector."
    yield bad("joined-sizes-fewer-first", about, kind, code, data)
    data = _container(GOOD, lengths=[])
    yield bad("joined-transform-missing", "No transform record.", kind, code, data)
    data = _container(GOOD, lengths=[(0, 7), (1, 9)])
    yield bad("joined-transform-members", "A row for each member.", kind, code, data)
    data = _container(GOOD, lengths=[(1, 16)])
    yield bad("joined-transform-second", "The row of the second member.", kind, code, data)
    body = write_joined([[(0, 0), (1, 0)]])
    data = _container(body, entries=[(0, DCT, 1)], lengths=[(0, 0)])
    yield bad("joined-sizes-0", "A coefficient of no elements.", kind, code, data)


def _members() -> Iterator[Case]:
    data = _container(write_joined([[(0, 7), (2, 9)]]))
    yield bad("joined-keys", "Key 1 is missing.", "Invalid", "keys", data)
    limits = {"max_entries": 2}
    body = write_joined([[(0, 7), (1, 4), (2, 5)]])
    about = "An entry and two further members."
    yield bad("joined-max-entries", about, "LimitExceeded", "max-entries", _container(body), limits=limits)
    fused = Record(FUSED, CRITICAL, write_fused([[(1, 4), (3, 5)]]))
    data = _container(write_joined([[(0, 7), (2, 9)]]), fused, entries=((0, RFFT, 9), (1, 0, 9)))
    about = "Two entries, a further member of each."
    limits = {"max_entries": 3}
    yield bad("joined-max-entries-fused", about, "LimitExceeded", "max-entries", data, limits=limits)
    for id, about, key, shape in (
        ("bins", "A shape of the bins.", 0, (3, 3)),
        ("vector", "A shape of the vector.", 0, (4, 4)),
        ("second", "A shape that does not have a member's size.", 1, (2, 4)),
    ):
        data = _container(GOOD, Record(SHAPES, 0, write_shape(key, shape)))
        yield bad(f"joined-shapes-{id}", about, "Invalid", "shapes", data)
    data = _container(GOOD, Record(NAMES, 0, write_names([b"a"])))
    yield bad("joined-names", "A name of the first member alone.", "Invalid", "names", data)
    data = _container(GOOD, Record(7, 0, write_meta([(2, b"a", b"")])))
    yield bad("joined-meta-key", "Metadata of a third tensor.", "Invalid", "meta", data)
    for key in (0, 1):
        data = _container(GOOD, Record(SEMANTICS, CRITICAL, write_semantics([(key, 1)])))
        about = f"Member {key} is a patch."
        yield bad(f"joined-semantics-{key}", about, "Invalid", "semantics", data)
    some = vector(RFFT, {"a": 7, "b": 9}, [0, 3])
    two: Schema = {"a": ((7,), "float32"), "b": ((9,), "float32")}
    data = write(some, joined=["ab"], names=False)
    kind = "SchemaMismatch"
    for code, about, schema in (
        ("schema-names", "A schema of the vector.", {"a": ((16,), "float32")}),
        ("schema-shape", "Another size of the second member.", {**two, "b": ((8,), "float32")}),
        ("schema-dtype", "Another type of the second member.", {**two, "b": ((9,), "float16")}),
    ):
        yield bad(f"joined-{code}", about, kind, code, data, schema=schema)
    other: Schema = {"a": ((7,), "float32"), "c": ((9,), "float32")}
    data = write(some, joined=["ab"], names=False, extra=[digest(other)])
    about = "The digest has another name of the second member."
    yield bad("joined-schema-digest", about, kind, "schema-digest", data, schema=two)
    nan = vector(RFFT, {"a": 7, "b": 9}, [3], numbers=[0.0, float("nan")])
    data = write(nan, joined=["ab"])
    yield bad("joined-value-nan", "A coefficient is NaN.", "Invalid", "transform-value", data)


def _order() -> Iterator[Case]:
    """Yield containers with two faults each, of which the earlier row decides."""
    short, wrong = GOOD[:15], _rows_of((0, 0, 7))
    fused = Record(FUSED, CRITICAL, write_fused([[(0, 7), (1, 9)]]))
    for id, about, kind, code, body, records, limits in (
        ("fused", "The fused record's body comes first.", "Malformed", "fused-record", short,
         [Record(FUSED, CRITICAL, b"")], {}),
        ("limit", "The body comes before the limit.", "Malformed", "joined-record", short, [],
         {"max_entries": 1}),
        ("rules", "The limit comes before the rules.", "LimitExceeded", "max-entries",
         _rows_of((0, 0, 7), (0, 1, 4), (0, 1, 5)), [], {"max_entries": 2}),
        ("fused-rules", "The rules of fused entries come first.", "Invalid", "fused", wrong, [fused], {}),
        ("keys", "The rules come before the keys.", "Invalid", "joined", _rows_of((0, 5, 7), (0, 6, 9)), [],
         {}),
        ("types", "The sizes come before the types.", "Invalid", "transform",
         _rows_of((0, 0, 7), (0, 1, 8)), [Record(TYPES, CRITICAL, b"")], {}),
        ("names", "The sizes come before the names.", "Invalid", "transform",
         _rows_of((0, 0, 7), (0, 1, 8)), [Record(NAMES, 0, b"")], {}),
    ):  # fmt: skip
        data = _container(body, *records)
        yield bad(f"order-joined-{id}", about, kind, code, data, limits=limits or None)
    data = _container(short, lengths=[(0, 15)])
    about = "The body comes before the transform record."
    yield bad("order-joined-transform", about, "Malformed", "joined-record", data)
    reserved = Record(JOINED, CRITICAL | 2, GOOD)
    rows = [Row(0, 0, 9, 0, 0x11, 1, 1)]
    block = write_extension_block([Record(TRANSFORM, CRITICAL, write_lengths([(0, 16)])), reserved])
    about = "A reserved flag."
    yield bad("joined-flags", about, "Malformed", "extension-record", assemble(rows, block, minor=MINOR))

"""Containers with two faults, of which the earlier row of SPEC section 7 is reported.

The faults of a pair belong to adjacent rows. If the rows concern entries, the later row's fault is in the
first entry, so a reader that makes all checks entry by entry reports the wrong one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

from formats.reference import Record, Row, assemble, reseal, write
from formats.reference.floats import BY_ID
from formats.reference.table import CHUNK
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.map.packed import write_packed
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.bad_container import VALUE_LEN, one_entry
from formats.vector_cases.case import UNKNOWN_CODEC, UNKNOWN_RECORD, Case, bad, patch, sparse, values_for
from formats.vector_cases.parts import index_row, of_index, of_values

FUSED, NAMES, SHAPES, TRANSFORM, TAG = 1, 2, 3, 4, 5
PLAIN = Row(0, 0, 2, 0, 1, 1, 1)
"""An entry of two elements, of which none is present."""
FULL = Row(0, 0, 2, 2, 1, 1, 1, value_section=values_for(2, "float32"))
"""An entry of two elements, both present."""
_FLOAT32 = BY_ID[1]
NO_LIMIT = {"max_elements": 1, "max_dense": 1, "max_expansion": 0}


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _prefix()
    yield from _table()
    yield from _limits()
    yield from _records()
    yield from _bodies()
    yield from _sections()
    yield from _core_codecs()


def _prefix() -> Iterator[Case]:
    one = one_entry()
    extended = write([sparse("a", 10, [2, 5])])
    other_magic = patch(one, 0, "B", 0)
    for first, second, kind, data, limits in (
        ("magic", "major", "Malformed", patch(other_magic, 4, "B", 255), None),
        ("major", "flags", "Unsupported", patch(one, 4, "BBH", 255, 0, 1 << 7), None),
        ("flags", "max-bytes", "Unsupported", patch(one, 6, "H", 1 << 7), {"max_bytes": 24}),
        ("total-length", "container", "Malformed", patch(one, 16, "Q", len(one) + 4), None),
        ("trailing", "max-entries", "Malformed", one + bytes(8), {"max_entries": 0}),
        ("extension-length", "head-checksum", "Malformed", patch(extended, 64, "I", 12), None),
        ("head-checksum", "layout", "ChecksumMismatch", patch(one, VALUE_LEN, "I", 99), None),
    ):
        yield _pair(first, second, kind, data, limits)
    rows = [replace(PLAIN, key=1), replace(PLAIN, value_len=8)]
    yield _pair("layout", "table-order", "Malformed", assemble(rows))


def _table() -> Iterator[Case]:
    for first, second, kind, faulty, earlier in (
        ("table-order", "dtype", "Invalid", replace(PLAIN, key=2, dtype=15), PLAIN),
        ("dtype", "domain", "Unsupported", replace(PLAIN, dtype=0xF1), replace(PLAIN, dtype=15)),
        ("domain", "index-codec", "Unsupported", replace(PLAIN, index=0), replace(PLAIN, dtype=0xF1)),
        ("index-codec", "value-codec", "Unsupported", replace(PLAIN, value=0), replace(PLAIN, index=0)),
        ("value-codec", "map-codec", "Unsupported", replace(PLAIN, map=1), replace(PLAIN, value=0)),
        ("map-codec", "count", "Unsupported", replace(FULL, r=3), replace(PLAIN, map=1)),
        ("count", "chunks", "Invalid", replace(PLAIN, d=CHUNK + 1), replace(FULL, r=3)),
        ("chunks", "index-length", "Invalid", replace(FULL, d=3), replace(PLAIN, base=8)),
        ("value-length", "map-length", "Malformed", replace(PLAIN, map_section=bytes(8)), replace(FULL, r=0)),
    ):
        number = 1 if first != "table-order" else 0
        yield _pair(first, second, kind, assemble([faulty, replace(earlier, key=number)]))
    within = [replace(PLAIN, dtype=0xFF)]
    about = "Both nibbles of the dtype byte are unknown: row 15 comes before row 16."
    yield bad("order-dtype-within", about, "Unsupported", "dtype", assemble(within))
    every = [Row(0, 8, 2, 3, 0xF1, 0, 0, value_section=bytes(8), map=UNKNOWN_CODEC, map_section=bytes(8))]
    about = "One entry breaks rows 16 to 24: the first of them is reported."
    yield bad("order-all-within", about, "Unsupported", "domain", assemble(every))


def _limits() -> Iterator[Case]:
    three = replace(FULL, map_section=bytes(8))
    full = assemble([FULL])
    for first, second, kind, data, limits in (
        ("map-length", "max-elements", "Malformed", assemble([three]), NO_LIMIT),
        ("max-elements", "max-dense", "LimitExceeded", full, NO_LIMIT),
        ("max-dense", "max-expansion", "LimitExceeded", full, {**NO_LIMIT, "max_elements": 2}),
    ):
        yield _pair(first, second, kind, data, limits)
    block = write_extension_block([Record(TAG, 2, b"t")])
    data = assemble([FULL], block)
    yield _pair("max-expansion", "extension-record", "LimitExceeded", data, {"max_expansion": 0})


def _records() -> Iterator[Case]:
    ascending = [Record(TAG, 0, b"t"), Record(NAMES, 1, write_names([b"a"]))]
    unordered = [Record(UNKNOWN_RECORD, 1, b""), Record(NAMES, 0, write_names([b"a"]))]
    short = Record(FUSED, 1, b"")
    reserved = Record(FUSED, 1, patch(write_fused([[(0, 1), (1, 1)]]), 4, "I", 1))
    twice = Record(FUSED, 1, write_fused([[(0, 1), (0, 1)]]))
    later = struct.pack("<II", 2, 0) + write_fused([[(0, 1), (0, 2)]])[8:] + struct.pack("<4I", 2, 1, 2, 2)
    unknown = Record(UNKNOWN_RECORD, 1, b"")
    for first, second, kind, records, limits in (
        ("extension-record", "extension-order", "Malformed", ascending, None),
        ("extension-order", "extension", "Invalid", unordered, None),
        ("extension", "fused-record", "Unsupported", [short, unknown], None),
        ("fused-record", "max-entries", "Malformed", [reserved], {"max_entries": 1}),
        ("fused-record", "fused", "Malformed", [Record(FUSED, 1, later)], None),
        ("max-entries", "fused", "LimitExceeded", [twice], {"max_entries": 1}),
    ):
        yield _pair(first, second, kind, _with([PLAIN], *records), limits)


def _bodies() -> Iterator[Case]:
    """Yield pairs of rows 33 to 44: each record is checked as a whole before the next one."""
    gap = [PLAIN, replace(PLAIN, key=3)]
    dct = replace(PLAIN, dtype=0x21)
    body = struct.pack("<IIQ", 0, 0, 2)
    fused_twice = Record(FUSED, 1, write_fused([[(0, 1), (0, 1)]]))
    row_too_short = Record(TRANSFORM, 1, body[:-1])
    names_cut = Record(NAMES, 0, write_names([b"a"]) + bytes(1))
    names_few = Record(NAMES, 0, write_names([b"a", b"b"]))
    names_both = Record(NAMES, 0, write_names([b"b", b"a"]) + bytes(1))
    shapes_cut = Record(SHAPES, 0, write_shape(0, (1, 2))[:-1])
    shapes_wrong = Record(SHAPES, 0, write_shape(0, (1, 3)))
    no_tag = Record(TAG, 0, b"")
    for first, second, kind, rows, records in (
        ("fused", "keys", "Invalid", gap, [fused_twice]),
        ("keys", "names-record", "Invalid", gap, [names_cut]),
        ("keys", "transform-record", "Invalid", gap, [row_too_short]),
        ("transform-record", "names-record", "Malformed", [dct], [names_cut, row_too_short]),
        ("transform", "names-record", "Invalid", [dct], [names_cut]),
        ("names-record", "names", "Malformed", [PLAIN], [names_both]),
        ("names-record", "shapes-record", "Malformed", [PLAIN], [names_cut, shapes_cut]),
        ("names", "shapes-record", "Invalid", [PLAIN], [names_few, shapes_cut]),
        ("shapes-record", "tag-record", "Malformed", [PLAIN], [shapes_cut, no_tag]),
        ("shapes", "tag-record", "Invalid", [PLAIN], [shapes_wrong, no_tag]),
    ):
        yield _pair(first, second, kind, _with(rows, *records))
    schema: dict[str, tuple[tuple[int, ...], str]] = {"b": ((9,), "float16")}
    data = _with([PLAIN], Record(NAMES, 0, write_names([b"a"])), no_tag)
    yield _pair("tag-record", "schema-names", "Malformed", data, schema=schema)
    data = _with([PLAIN], Record(NAMES, 0, write_names([b"a"])))
    yield _pair("schema-names", "schema-shape", "SchemaMismatch", data, schema=schema)
    schema = {"a": ((9,), "float16")}
    yield _pair("schema-shape", "schema-dtype", "SchemaMismatch", data, schema=schema)


def _sections() -> Iterator[Case]:
    """Yield pairs of rows 45 to 49: entry after entry, and its sections in their order."""
    indices, disordered, range_ = b"\2\0\5\0", b"\5\0\2\0", b"\2\0\x0a\0"
    good, wrong = values_for(2, "float32"), values_for(1, "float32")

    def row(key: int, section: bytes, values: bytes) -> Row:
        return Row(key, 0, 10, 2, 1, 1, 1, section, values)

    both = assemble([row(0, disordered, wrong)])
    yield _pair("index-order", "raw-length", "Invalid", both)
    data = assemble([row(0, indices, wrong), row(1, disordered, good)])
    about = "The values of the first entry are checked before the indices of the second."
    yield bad("order-value-next-index", about, "Malformed", "raw-length", data)
    data = assemble([row(0, indices, wrong), row(1, indices, good)])
    about = "The values of the first entry are checked before the checksum of the second."
    yield bad("order-value-next-checksum", about, "Malformed", "raw-length", data[:-1] + b"\1")
    rows = [row(0, range_, good), *(row(key, disordered, good) for key in range(1, 4))]
    about = "Four entries of one kind are invalid: the first is reported."
    yield bad("order-entries", about, "Invalid", "index-range", assemble(rows))
    data = reseal(patch(assemble([row(0, indices, good), row(1, disordered, good)]), 108, "B", 1))
    about = "Padding of the first entry before the indices of the second."
    yield bad("order-padding-next-index", about, "Malformed", "padding", data)
    ordered = values_for(3, "float32")
    head = struct.pack("<II", 1, 3 | 9 << 24) + ordered
    row_of_map = Row(0, 0, 3, 3, 1, 1, 9, b"", head, write_packed([0, 0, 1]), 1)
    yield _pair("polyfit-piece", "map-permutation", "Malformed", assemble([row_of_map]))


def _core_codecs() -> Iterator[Case]:
    """Yield pairs of checks on the core codecs' pages."""
    for first, second, kind, data in (
        ("raw-index-length", "index-order", "Malformed", of_index(1, 3, 10, b"\5\0\2\0")),
        ("index-order", "index-range", "Invalid", of_index(1, 3, 10, b"\5\0\2\0\x0c\0")),
        ("bitmap-length", "bitmap-tail", "Malformed", of_index(2, 2, 10, b"\x24\xfc\xff")),
        ("bitmap-tail", "bitmap-count", "Malformed", of_index(2, 2, 10, b"\x04\xfc")),
        ("rice-length", "rice-padding", "Malformed", of_index(3, 2, 19, b"\x21\0\0\0\3\0")),
        ("rice-padding", "rice-parameter", "Malformed", of_index(3, 2, 19, b"\x3f\0\0\0\3\0\0\0")),
        ("rice-parameter", "rice-length", "Malformed", of_index(3, 2, 19, b"\x1f\0\0\0")),
        ("rice-padding", "rice-unary", "Malformed", of_index(3, 2, 19, struct.pack("<III", 1, 7, 0))),
        ("rice-unary", "index-range", "Malformed", of_index(3, 2, 19, struct.pack("<III", 1, 3, 1 << 31))),
    ):
        yield _pair(first, second, kind, data)
    yield _pair("raw-dtype", "raw-length", "Invalid", of_values(2, 2, 2, bytes(6)))
    good = write_qsgd(values_for(20, "float32"), _FLOAT32, bits=4, bucket=16, norm=0, stream=0)
    scaled = patch(good, 8, "I", 0x7F800000)
    stray = scaled[:-1] + bytes([scaled[-1] | 0x80])
    for first, second, kind, section in (
        ("qsgd-parameter", "qsgd-length", "Malformed", patch(good[:-4], 0, "B", 9)),
        ("qsgd-length", "qsgd-scale", "Malformed", scaled[:-4]),
        ("qsgd-scale", "qsgd-padding", "Invalid", stray),
        ("qsgd-padding", "qsgd-code", "Malformed", patch(stray, 8, "II", 0, 0)),
    ):
        yield _pair(first, second, kind, of_values(4, 1, 20, section))
    bad_indices = replace(index_row(3, 2, 19, b"\x21\0\0\0" + struct.pack("<II", 3, 24)), value_section=good)
    yield _pair("rice-padding", "qsgd-length", "Malformed", assemble([bad_indices]))


def _with(rows: list[Row], *records: Record) -> bytes:
    """Return a container with these entries and records."""
    return assemble(rows, write_extension_block(records))


def _pair(
    first: str,
    second: str,
    kind: str,
    data: bytes,
    limits: dict[str, int] | None = None,
    schema: dict[str, tuple[tuple[int, ...], str]] | None = None,
) -> Case:
    about = f"Two faults: {first} comes before {second}."
    return bad(f"order-{first}-{second}", about, kind, first, data, limits=limits, schema=schema)

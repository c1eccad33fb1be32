"""More containers of several entries of the same codecs, found after the release of version 1.0.

Mutants of the library's batched decoder led to these cases: each is refused by a reader that decodes entry by
entry, and was accepted by a changed one that locates, checks or decodes many entries at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from formats.reference import Deflate, Delta, Record, Row, assemble, reseal
from formats.reference.container import PREFIX_BYTES
from formats.reference.floats import BY_ID
from formats.reference.table import ENTRY_BYTES
from formats.reference.writing.assembly import write_extension_block
from formats.vector_cases.case import Case, bad, patch, valid, values_for
from formats.vector_cases.curves import POLY, curve_row, raw_section
from formats.vector_cases.parts import forge, index_row

RAW_INDEX, BITMAP, DELTA = 1, 2, 5
RAW, DEFLATE = 1, 6
FLOAT32, FLOAT16 = 1, 2
ALIKE = b"\3" + bytes(7)
"""A bitmap of two elements with its padding; also two values of float32, which are 4.2e-45 and 0."""
ZEROS = write_extension_block([Record(5, 0, bytes(512))])
"""A tag that puts zeros before the first entry."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _checksums()
    yield from _padding()
    yield from _lengths()
    yield from _valid()


def _full(key: int, r: int = 2) -> Row:
    return Row(key, 0, r, r, FLOAT32, 1, RAW, b"", values_for(r, "float32", r))


def _checksums() -> Iterator[Case]:
    kind, code = "ChecksumMismatch", "entry-checksum"
    rows = [_full(key) for key in range(4)]
    about = "The checksum of every entry is 0, that of no bytes."
    yield bad("several-checksum-0", about, kind, code, forge(rows, dict.fromkeys(range(4), (0, 0))))
    about = "Each checksum covers the entry before, too."
    ranges = {1: (0, 16), 2: (8, 24), 3: (16, 32)}
    yield bad("several-checksum-two", about, kind, code, forge(rows, ranges))
    rows = [*rows[:2], Row(2, 0, 32, 32, FLOAT16, 1, RAW, b"", values_for(32, "float16"))]
    for n in (11, 21, 32):
        about = f"Of three entries, the first two have the checksums of {n} bytes each, not of 8."
        ranges = {0: (0, n), 1: (n, 2 * n)}
        yield bad(f"several-checksum-{n}", about, kind, code, forge(rows, ranges))
    rows = [Row(key, 0, 8, 2, FLOAT32, BITMAP, RAW, ALIKE[:1], ALIKE) for key in range(4)]
    about = "Index sections of one byte. The checksum of each entry covers half of its bytes."
    yield bad("several-checksum-half", about, kind, code, forge(rows, dict.fromkeys(range(4), (0, 8)), ZEROS))
    first = curve_row(POLY, 5, raw_section(5))
    sizes = [-(-len(section) // 8) * 8 for section in (first.value_section, first.map_section)]
    at, end = sizes[0], sum(sizes)
    about = "The first entry has a map, which the checksum of the second entry covers, too."
    ranges = {1: (at, end + 8)}
    yield bad("several-checksum-map", about, kind, code, forge([first, _full(1), _full(2)], ranges))


def _padding() -> Iterator[Case]:
    kind, code = "Malformed", "padding"
    for n, d in ((1, 8), (9, 72)):
        section = b"\3" + bytes(n - 1)
        rows = [Row(key, 0, d, 2, FLOAT32, BITMAP, RAW, section, ALIKE) for key in range(4)]
        at = PREFIX_BYTES + ENTRY_BYTES * 4 + len(ZEROS) + (-(-n // 8) * 8 + 8) + n
        about = f"The first bit of padding after an index section of {n} byte{'s' * (n > 1)} is set."
        data = reseal(patch(assemble(rows, ZEROS), at, "B", 1))
        yield bad(f"several-padding-bit-{n}", about, kind, code, data)
    rows = [Row(key, 0, 1, 1, FLOAT32, 1, RAW, b"", bytes(4)) for key in range(4)]
    about = "The last bit of padding after a value of zeros is set."
    data = reseal(patch(assemble(rows), PREFIX_BYTES + ENTRY_BYTES * 4 + 8 + 7, "B", 0x80))
    yield bad("several-padding-zero", about, kind, code, data)


def _lengths() -> Iterator[Case]:
    good = Row(1, 0, 300, 1, FLOAT16, DELTA, RAW, Delta().write_section([200], 300), bytes(2))
    assert len(good.index_section) == len(good.value_section)
    rows = [replace(good, key=key) for key in range(4)]
    rows = [replace(row, index_section=row.index_section + b"\0") for row in rows]
    about = "Each index section has a byte too many. Without it, it has the length of the value section."
    yield bad("several-index-longer", about, "Malformed", "delta-length", assemble(rows))
    rows = [replace(good, key=key, value_section=bytes(4)) for key in range(4)]
    about = "Each value section has twice its bytes. Half of them are as many as the index section has."
    yield bad("several-value-longer", about, "Malformed", "raw-length", assemble(rows))
    rows = [index_row(BITMAP, 3, 10, b"\x0d\0", key) for key in range(4)]
    rows = [replace(row, value=RAW, value_section=values_for(3, "float16")) for row in rows]
    rows[2] = replace(rows[2], index_section=b"\x0f\0")
    about = "The bitmap of the third of four entries has a bit too many."
    yield bad("several-bitmap-count", about, "Invalid", "bitmap-count", assemble(rows))


def _valid() -> Iterator[Case]:
    rows = [_full(key) for key in range(2)]
    sections = (BITMAP, b"\1"), (DELTA, b"\1"), (RAW_INDEX, b"\1\0")
    rows += [
        Row(key, 0, 8, 1, FLOAT32, index, RAW, section, values_for(1, "float32", key))
        for key, (index, section) in enumerate(sections * 2, 2)
    ]
    about = "Two full entries. The byte 1 is a bitmap of element 0, and a gap before element 1."
    yield valid("several-index-alike", about, assemble(rows))
    section = Deflate().write_section(values_for(2, "float32"), BY_ID[FLOAT32], 0)
    rows = [Row(key, 0, 2, 2, FLOAT32, 1, DEFLATE, b"", section) for key in range(2)]
    rows += [Row(key, 0, 0, 0, FLOAT32, 1, DEFLATE) for key in range(2, 4)]
    about = "Two entries of deflate, and two tensors without elements, which have no section."
    yield valid("several-deflate", about, assemble(rows))
    rows = [curve_row(POLY, 5, raw_section(5), positions=[4, 2, 0, 1, 3]) for _ in range(3)]
    rows = [replace(row, key=key) for key, row in enumerate(rows)]
    yield valid("several-map", "Three entries with a map each.", assemble(rows))
    rows = [Row(key, 0, 1, 0, FLOAT32, 1, RAW) for key in range(69)]
    rows.append(replace(curve_row(POLY, 5, raw_section(5), positions=[4, 2, 0, 1, 3]), key=69))
    yield valid("several-70-map", "69 empty entries, and one with a map.", assemble(rows))

"""Invalid tables, rows 15-24 of SPEC section 7: ids, counts, chunks, lengths of sections.

The unknown ids are those that are never assigned (SPEC section 4).
"""

from __future__ import annotations

from collections.abc import Iterator

from formats.reference import Row, assemble, reseal
from formats.reference.table import CHUNK
from formats.vector_cases.bad_container import DTYPE, INDEX, MAP, MAX32, VALUE, R, one_entry
from formats.vector_cases.case import UNKNOWN_CODEC, Case, bad, patch, values_for


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _ids()
    yield from _chunks()
    yield from _sections()


def _ids() -> Iterator[Case]:
    one = one_entry()
    for dtype in (0, 15):
        data = reseal(patch(one, DTYPE, "B", dtype))
        yield bad(f"dtype-{dtype}", f"Element type {dtype}.", "Unsupported", "dtype", data)
    data = reseal(patch(one, DTYPE, "B", 16 * 15 + 1))
    yield bad("domain-15", "Domain 15.", "Unsupported", "domain", data)
    for field, name, codecs in (
        (INDEX, "index", (0, UNKNOWN_CODEC)),
        (VALUE, "value", (0, UNKNOWN_CODEC)),
        (MAP, "map", (UNKNOWN_CODEC,)),
    ):
        for codec in codecs:
            data = reseal(patch(one, field, "B", codec))
            yield bad(f"{name}-codec-{codec}", f"{name} codec {codec}.", "Unsupported", f"{name}-codec", data)
    row = Row(0, 0, 2, 0, 1, UNKNOWN_CODEC, 1)
    yield bad(
        "index-codec-absent",
        "The index codec must be known even without a section.",
        "Unsupported",
        "index-codec",
        assemble([row]),
    )
    row = Row(0, 0, 2, 0, 1, 1, UNKNOWN_CODEC)
    yield bad(
        "value-codec-absent",
        "The value codec must be known even without a section.",
        "Unsupported",
        "value-codec",
        assemble([row]),
    )
    rows = [Row(0, 0, 2, 0, 1, 1, UNKNOWN_CODEC), Row(1, 0, 2, 0, 15, 1, 1)]
    about = "Row 15 in the second entry comes before row 18 in the first."
    yield bad("dtype-before-value-codec", about, "Unsupported", "dtype", assemble(rows))
    rows = [Row(0, 0, 2, 3, 1, 1, 1), Row(1, 0, 2, 0, 1, 1, 1, map=UNKNOWN_CODEC)]
    about = "A later row of the checks in an earlier entry: map-codec comes before count."
    yield bad("map-codec-order", about, "Unsupported", "map-codec", assemble(rows))


def _chunks() -> Iterator[Case]:
    one = one_entry()
    yield bad("count", "r = 11 of d = 10.", "Invalid", "count", reseal(patch(one, R, "I", 11)))
    data = assemble([Row(0, 0, 0, 1, 1, 1, 1, value_section=bytes(4))])
    yield bad("count-d0", "An element of a tensor without elements.", "Invalid", "count", data)
    yield bad("count-wrapping", "r = 2^32 - 1.", "Invalid", "count", reseal(patch(one, R, "I", MAX32)))

    def row(key: int, base: int, d: int, dtype: int = 1) -> Row:
        return Row(key, base, d, 0, dtype, 1, 1)

    for id, about, rows in (
        ("d", "d is 2^24 + 1.", [row(0, 0, CHUNK + 1)]),
        ("d-most", "d is 2^32 - 1.", [row(0, 0, MAX32)]),
        ("base", "The sole chunk does not start at 0.", [row(0, 8, 2)]),
        (
            "base-second-key",
            "The first chunk of the second key starts where the first tensor ends.",
            [row(0, 0, 2), row(1, 2, 2)],
        ),
        ("gap", "Elements between two chunks.", [row(0, 0, CHUNK), row(0, CHUNK + 1, 2)]),
        ("overlap", "Elements in two chunks.", [row(0, 0, CHUNK), row(0, CHUNK - 1, 2)]),
        ("short", "A chunk before the last is shorter than 2^24.", [row(0, 0, 8), row(0, 8, 2)]),
        (
            "middle",
            "The chunk in the middle is shorter.",
            [row(0, 0, CHUNK), row(0, CHUNK, 8), row(0, CHUNK + 8, 2)],
        ),
        ("dtypes", "Chunks of different element types.", [row(0, 0, CHUNK), row(0, CHUNK, 2, 2)]),
        ("empty-last", "A last chunk without elements.", [row(0, 0, CHUNK), row(0, CHUNK, 0)]),
        ("empty-first", "A first chunk without elements and a second.", [row(0, 0, 0), row(0, 1, 2)]),
        ("base-wrapping", "Bases near 2^64.", [row(0, 0, CHUNK), row(0, 2**64 - 1, CHUNK)]),
    ):
        yield bad(f"chunks-{id}", about, "Invalid", "chunks", assemble(rows))


def _sections() -> Iterator[Case]:
    values = values_for(2, "float32")
    for id, about, section_row in (
        ("missing", "No indices where 0 < r < d.", Row(0, 0, 3, 2, 1, 1, 1, value_section=values)),
        ("full", "Indices where r = d.", Row(0, 0, 2, 2, 1, 1, 1, b"\0\0\1\0", values)),
        ("full-bitmap", "A bitmap where r = d.", Row(0, 0, 2, 2, 1, 2, 1, b"\3", values)),
        ("absent", "A bitmap where r = 0.", Row(0, 0, 2, 0, 1, 2, 1, b"\0")),
        ("d0", "Indices of a tensor without elements.", Row(0, 0, 0, 0, 1, 1, 1, bytes(4))),
    ):
        yield bad(f"index-length-{id}", about, "Malformed", "index-length", assemble([section_row]))
    rows = [Row(0, 0, 2, 2, 1, 1, 1), Row(1, 0, 3, 2, 1, 1, 1, value_section=values)]
    about = "Row 22 in the second entry comes before row 23 in the first."
    yield bad("index-length-before-value-length", about, "Malformed", "index-length", assemble(rows))
    data = assemble([Row(0, 0, 3, 2, 1, 1, 1, b"\0\0\1\0")])
    yield bad("value-length-missing", "No values where r = 2.", "Malformed", "value-length", data)
    data = assemble([Row(0, 0, 3, 0, 1, 1, 4, value_section=values)])
    yield bad("value-length-absent", "Values where r = 0.", "Malformed", "value-length", data)
    data = assemble([Row(0, 0, 2, 2, 1, 1, 1, b"", values, bytes(8))])
    yield bad("map-length", "A map section without a map.", "Malformed", "map-length", data)

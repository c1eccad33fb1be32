"""Maps: sections of every width and any permutation, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Bloom, DExpFit, PolyFit, Row, assemble, write
from formats.reference.floats import BY_ID
from formats.reference.writing.map.packed import sort_positions, write_packed
from formats.vector_cases.case import UNKNOWN_CODEC, Case, bad, sparse, spread, valid, values_for
from formats.vector_cases.curves import DEXP, POLY, curve_row, raw_section


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _maps()
    yield from _map_places()
    yield from _bad_maps()


def _maps() -> Iterator[Case]:
    for r in (1, 2, 3, 4, 5, 8, 9, 16, 17, 33, 64, 65, 129, 257):
        positions = sort_positions(values_for(r, "float32"), BY_ID[1])
        about = f"A map of {r} numbers."
        yield valid(f"map-r{r}", about, assemble([curve_row(POLY, r, raw_section(r), positions=positions)]))
    for id, about, positions in (
        ("identity", "A map that moves nothing, of values in no order.", list(range(11))),
        ("reversed", "A map that turns the order round.", list(range(10, -1, -1))),
        ("any", "A permutation that sorts nothing.", [3, 9, 0, 10, 5, 1, 7, 2, 8, 6, 4]),
    ):
        yield valid(f"map-{id}", about, assemble([curve_row(POLY, 11, raw_section(11), positions=positions)]))


def _map_places() -> Iterator[Case]:
    for value, name in ((PolyFit(12, 3), "polyfit"), (DExpFit(), "dexpfit")):
        t = sparse("0", 90, spread(41, 90))
        yield valid(f"map-{name}-sparse", "A sparse support.", write([t], "bitmap", value, names=False))
        yield valid(f"map-{name}-empty", "No value, and map 1.", write([sparse("0", 9, [])], "bitmap", value))
        three = [sparse(n, d, spread(d // 2, d), first=9 * d) for n, d in (("a", 20), ("b", 7), ("c", 31))]
        about = "Three tensors share an entry, and its map."
        yield valid(f"map-{name}-fused", about, write(three, "bitmap", value, groups=[("a", "b", "c")]))
        about = "Values at the indices that a Bloom filter decodes to."
        yield valid(f"map-{name}-bloom", about, write([t], Bloom("p0", 0.05), value, names=False))
    about = "A map in one entry, and none in the next."
    plain = Row(1, 0, 3, 3, 1, 1, 1, b"", values_for(3, "float32"))
    yield valid("map-some", about, assemble([curve_row(POLY, 5, raw_section(5)), plain]))


def _bad_maps() -> Iterator[Case]:
    def broken(**changes: object) -> bytes:
        row = curve_row(POLY, 5, raw_section(5))
        for field, value in changes.items():
            setattr(row, field, value)
        return assemble([row])

    kind, code = "Unsupported", "map-codec"
    for id, about, data in (
        ("missing", "Values in order, and no map.", broken(map=0, map_section=b"")),
        ("unsaid", "Map 0, and a map section.", broken(map=0)),
        ("unknown", "A map codec that no reader knows.", broken(map=UNKNOWN_CODEC)),
        (
            "raw",
            "A map of values that are not in order.",
            broken(value=1, value_section=values_for(5, "float32")),
        ),
        ("missing-empty", "No value, and map 0.", assemble([Row(0, 0, 9, 0, 1, 1, POLY)])),
        ("missing-dexpfit", "dexpfit without a map.", broken(value=DEXP, map=0, map_section=b"")),
    ):
        yield bad(f"map-codec-{id}", about, kind, code, data)
    kind, code = "Malformed", "map-length"
    for id, about, section in (
        ("none", "No map section.", b""),
        ("short", "One byte is missing.", bytes(1)),
        ("long", "One extra byte.", bytes(3)),
        ("words", "A u32 for each number.", bytes(20)),
    ):
        yield bad(f"map-length-{id}", about, kind, code, broken(map_section=section))
    one = curve_row(POLY, 1, raw_section(1))
    one.map_section = bytes(1)
    yield bad("map-length-r1", "One value, whose number has no bits.", kind, code, assemble([one]))
    good = write_packed(range(5))
    about = "A bit after the last number is set."
    wrong = bytes([good[0], good[1] | 1 << 7])
    yield bad("map-padding", about, "Malformed", "map-padding", broken(map_section=wrong))
    about = "The padding is checked before the numbers."
    yield bad("map-padding-first", about, "Malformed", "map-padding", broken(map_section=b"\x00\x80"))
    kind, code = "Invalid", "map-permutation"
    for id, about, positions in (
        ("zeros", "All numbers are 0.", [0] * 5),
        ("twice", "A number stands there twice.", [0, 1, 2, 3, 3]),
        ("r", "A number is r.", [0, 1, 2, 3, 5]),
        ("most", "A number is as large as its bits allow.", [0, 1, 7, 3, 4]),
        ("first", "The first number is too large.", [6, 1, 2, 3, 4]),
    ):
        section = write_packed(positions)
        yield bad(f"map-permutation-{id}", about, kind, code, broken(map_section=section))
    long = curve_row(POLY, 65, raw_section(65))
    long.map_section = write_packed([*range(64), 0])
    about = "The last of 65 numbers is one that stood there."
    yield bad("map-permutation-65", about, kind, code, assemble([long]))
    about = "The values are checked before their map."
    section = bytes(4) + struct.pack("<5f", 1, 2, 3, 4, float("nan"))
    data = broken(value_section=section, map_section=bytes(2))
    yield bad("map-after-values", about, "Invalid", "polyfit-value", data)

"""polyfit and dexpfit: sections of every form and element type, and each check of the pages."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.reference import DExpFit, PolyFit, Row, assemble, write
from formats.reference.floats import BY_ID, BY_NAME, FLOAT64, Format, pack_elements
from formats.reference.writing.map.packed import write_packed
from formats.vector_cases.case import Case, bad, sparse, spread, valid, values_for

POLY, DEXP = 9, 10
TYPES = ("float32", "float16", "bfloat16", "float64")
INFINITY, NAN = float("inf"), float("nan")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _poly()
    yield from _poly_foreign()
    yield from _dexp()
    yield from _dexp_foreign()
    for codec, name, piece in ((POLY, "polyfit", 8), (DEXP, "dexpfit", 36)):
        yield from _bad_common(codec, name, piece)
    yield from _bad_poly()
    yield from _bad_dexp()


def curve_row(
    codec: int, r: int, section: bytes, dtype: int = 1, positions: Sequence[int] | None = None
) -> Row:
    """Return an entry with all r elements present."""
    places = range(r) if positions is None else positions
    return Row(0, 0, r, r, dtype, 1, codec, b"", section, write_packed(places), 1)


def of_curve(codec: int, r: int, section: bytes, dtype: int = 1) -> bytes:
    """Return a container with such an entry."""
    return assemble([curve_row(codec, r, section, dtype)])


def raw_section(r: int, dtype: Format = BY_ID[1]) -> bytes:
    """Return a section without pieces."""
    return bytes(4) + values_for(r, dtype.name)


def _head(*pieces: tuple[int, int]) -> bytes:
    """Return the number of pieces, and heads of (length, upper bits)."""
    return struct.pack("<I", len(pieces)) + b"".join(
        struct.pack("<I", n - 1 | high << 24) for n, high in pieces
    )


def _poly() -> Iterator[Case]:
    for dtype in TYPES:
        form = BY_NAME[dtype]
        t = sparse("0", 60, spread(50, 60), dtype)
        data = write([t], "bitmap", PolyFit(20, 3), names=False)
        yield valid(f"polyfit-{dtype}", f"Three pieces of {dtype} elements.", data)
        about = f"{dtype} elements as they are."
        yield valid(f"polyfit-raw-{dtype}", about, write([t], "bitmap", PolyFit(0), names=False))
        letter = "d" if form == FLOAT64 else "f"
        most = struct.unpack("<" + letter, struct.pack("<" + letter, 3.0e38))[0]
        section = _head((3, 1)) + struct.pack("<2" + letter, most, most)
        if form != FLOAT64:
            about = "Values beyond the element type are cut to its largest."
            yield valid(f"polyfit-cut-{dtype}", about, of_curve(POLY, 3, section, form.id))
            section = _head((3, 1)) + struct.pack("<2f", -most, most)
            yield valid(f"polyfit-cut-minus-{dtype}", about, of_curve(POLY, 3, section, form.id))
    section = _head((3, 2)) + struct.pack("<3d", 1.7e308, 1.7e308, -1.7e308)
    yield valid("polyfit-cut-float64", "A sum beyond binary64.", of_curve(POLY, 3, section, 4))
    for degree in range(9):
        numbers = [(-1.0) ** k * (1 + k) / 7 for k in range(degree + 1)]
        for n in (degree + 1, 37):
            section = _head((n, degree)) + struct.pack(f"<{degree + 1}f", *numbers)
            about = f"Degree {degree} on {n} values."
            yield valid(f"polyfit-degree{degree}-{n}", about, of_curve(POLY, n, section))
    for n in (63, 64, 65, 200):
        section = _head((n, 4)) + struct.pack("<5d", 0.1, 0.7, -0.3, 0.9, 1.1)
        yield valid(f"polyfit-n{n}", f"A piece of {n} values.", of_curve(POLY, n, section, 4))


def _poly_foreign() -> Iterator[Case]:
    section = _head((1, 0), (1, 0), (5, 2), (2, 1)) + struct.pack("<7f", 9, -9, 1, 2, 3, 0.5, 0.25)
    yield valid("polyfit-mixed", "Pieces of different degrees, in no order.", of_curve(POLY, 9, section))
    section = _head(*[(1, 0)] * 7) + struct.pack("<7f", *range(7))
    yield valid("polyfit-ones", "As many pieces as values.", of_curve(POLY, 7, section))
    section = _head((3, 0), (2, 1)) + struct.pack("<3f", -0.0, -0.0, 0.0)
    yield valid("polyfit-minus-zero", "Coefficients of -0.", of_curve(POLY, 5, section))
    section = _head((4, 3)) + struct.pack("<4I", 1, 2, 0x80000003, 4)
    yield valid("polyfit-subnormal", "Subnormal coefficients.", of_curve(POLY, 4, section))
    section = _head((2, 1)) + struct.pack("<2f", 1 + 2.0**-11, 2.0**-23)
    yield valid(
        "polyfit-once", "binary64 to float16 at once, not by way of binary32.", of_curve(POLY, 2, section, 2)
    )
    for dtype, tie in (("float16", 2.0**-11), ("bfloat16", 2.0**-8)):
        section = _head((2, 1)) + struct.pack("<2f", 1 + tie, 2.0**-40)
        about = f"Rounded to {dtype} once: by way of binary32 both values are 1."
        data = of_curve(POLY, 2, section, BY_NAME[dtype].id)
        yield valid(f"polyfit-{dtype}-once", about, data)
        section = _head((2, 0)) + _four(1 + tie, 0.0, 2.0**-40, 0.0)
        data = of_curve(DEXP, 2, section, BY_NAME[dtype].id)
        yield valid(f"dexpfit-{dtype}-once", about, data)
    section = raw_section(0) + pack_elements([0x80000000, 0, 0x7F7FFFFF, 1], 4)
    yield valid("polyfit-raw-corners", "-0, 0, the largest, the smallest.", of_curve(POLY, 4, section))


def _four(*numbers: float) -> bytes:
    return struct.pack("<4d", *numbers)


def _dexp() -> Iterator[Case]:
    for dtype in TYPES:
        form = BY_NAME[dtype]
        t = sparse("0", 60, spread(50, 60), dtype)
        data = write([t], "bitmap", DExpFit(), names=False)
        yield valid(f"dexpfit-{dtype}", f"One curve of {dtype} elements.", data)
        data = write([t], "bitmap", DExpFit(raw=True), names=False)
        yield valid(f"dexpfit-raw-{dtype}", f"{dtype} elements as they are.", data)
        two = _head((21, 0), (30, 1)) + _four(-2, -4, -1, -0.5) + _four(3, -6, 0.5, 0.25)
        about = f"Two curves of {dtype} elements, the second backwards."
        yield valid(f"dexpfit-backwards-{dtype}", about, of_curve(DEXP, 51, two, form.id))
        if form != FLOAT64:
            section = _head((2, 0), (3, 1)) + _four(1e40, 1, 0, 0) + _four(-1e250, -1, 5, 0)
            about = "Values beyond the element type are cut to its largest."
            yield valid(f"dexpfit-cut-{dtype}", about, of_curve(DEXP, 5, section, form.id))
    for n in (1, 2, 63, 64, 65, 128, 129, 200):
        section = _head((n, n & 1)) + _four(1.25, -7.5, 0.75, 1.5)
        yield valid(f"dexpfit-n{n}", f"A curve of {n} values.", of_curve(DEXP, n, section, 4))


def _dexp_foreign() -> Iterator[Case]:
    most = 2.0**900
    for id, about, numbers in (
        ("constant", "Rates of 0.", (1.5, 0.0, 0.0, 0.0)),
        ("minus-zero", "Numbers of -0.", (-0.0, -0.0, -0.0, -0.0)),
        ("greatest", "The largest factors and rates.", (most, 64.0, -most, 64.0)),
        ("opposite", "Greatest factors of one sign.", (most, 64.0, most, 64.0)),
        ("steep", "Rates beyond all that exp is computed of.", (2.0, -1e308, 3.0, -400.0)),
        ("least", "Subnormal numbers.", (5e-324, -5e-324, 1e-310, 5e-324)),
        ("cancel", "Two curves that cancel.", (1.0, -3.0, -1.0, -3.0)),
    ):
        for n in (5, 130):
            about_n = f"{about[:-1]}, {n} values."
            section = _head((n, 0)) + _four(*numbers)
            yield valid(f"dexpfit-{id}-{n}", about_n, of_curve(DEXP, n, section, 4))
    section = _head(*[(1, k & 1) for k in range(5)]) + b"".join(_four(k, -1, 0, 0) for k in range(5))
    yield valid("dexpfit-ones", "As many curves as values.", of_curve(DEXP, 5, section))


def _bad_common(codec: int, name: str, piece: int) -> Iterator[Case]:
    """Yield cases of the checks that both codecs share; ``piece`` is the smallest size of a piece."""
    kind, code = "Malformed", f"{name}-length"
    for id, about, section in (
        ("part", "Three bytes.", bytes(3)),
        ("count", "More pieces than values.", struct.pack("<I", 6) + bytes(6 * piece)),
        ("count-huge", "2^32 - 1 pieces.", b"\xff" * 4 + bytes(64)),
        ("heads", "A head is missing.", struct.pack("<I", 3) + bytes(11)),
        ("raw-none", "No pieces, and no elements.", bytes(4)),
        ("raw-short", "No pieces, and an element too few.", raw_section(4)),
        ("raw-long", "No pieces, and a byte too many.", raw_section(5) + bytes(1)),
    ):
        yield bad(f"{name}-length-{id}", about, kind, code, of_curve(codec, 5, section))
    kind, code = "Invalid", f"{name}-value"
    for dtype in TYPES:
        form = BY_NAME[dtype]
        for id, bits in (
            ("inf", form.infinity),
            ("nan", form.infinity + 1),
            ("minus", form.sign | form.infinity),
        ):
            if dtype != "float32" and id == "minus":
                continue
            section = bytes(4) + pack_elements([0, 1, bits], form.itemsize)
            about = f"NaN or infinity among {dtype} elements."
            yield bad(f"{name}-value-{id}-{dtype}", about, kind, code, of_curve(codec, 3, section, form.id))


def _bad_poly() -> Iterator[Case]:
    kind, code = "Malformed", "polyfit-piece"
    nine = struct.pack("<10f", *range(10))
    for id, about, pieces, coefficients in (
        ("nine", "Degree 9.", [(20, 9)], nine),
        ("high", "The highest bit of a head.", [(20, 0x80)], nine),
        ("short", "Degree 3 of three values.", [(17, 2), (3, 3)], nine[:28]),
        ("one", "Degree 1 of one value.", [(1, 1), (19, 0)], nine[:12]),
        ("first", "The degree is checked before the sum.", [(9, 9)], nine),
    ):
        yield bad(f"polyfit-piece-{id}", about, kind, code, of_curve(POLY, 20, _head(*pieces) + coefficients))
    kind, code = "Invalid", "polyfit-sum"
    for id, about, pieces in (
        ("less", "A value too few.", [(10, 0), (9, 0)]),
        ("more", "A value too many.", [(10, 0), (11, 0)]),
        ("huge", "Lengths of 2^24.", [(2**24, 0)] * 2),
        ("first", "The sum is checked before the length.", [(10, 8), (9, 0)]),
    ):
        yield bad(f"polyfit-sum-{id}", about, kind, code, of_curve(POLY, 20, _head(*pieces) + bytes(8)))
    kind, code = "Malformed", "polyfit-length"
    good = _head((12, 2), (8, 1)) + struct.pack("<5f", *range(5))
    yield bad("polyfit-length-short", "One byte is missing.", kind, code, of_curve(POLY, 20, good[:-1]))
    yield bad("polyfit-length-long", "One extra byte.", kind, code, of_curve(POLY, 20, good + bytes(1)))
    about = "binary32 coefficients of float64 elements."
    yield bad("polyfit-length-narrow", about, kind, code, of_curve(POLY, 20, good, 4))
    wide = _head((12, 2), (8, 1)) + struct.pack("<5d", *range(5))
    about = "binary64 coefficients of float16 elements."
    yield bad("polyfit-length-wide", about, kind, code, of_curve(POLY, 20, wide, 2))
    about = "The length is checked before the coefficients."
    yield bad("polyfit-length-first", about, kind, code, of_curve(POLY, 20, good[:12] + b"\xff" * 19))
    kind, code = "Invalid", "polyfit-coefficient"
    for id, number in (("nan", NAN), ("inf", INFINITY), ("minus", -INFINITY)):
        for at in (0, 4):
            numbers = [1.0] * 5
            numbers[at] = number
            section = good[:12] + struct.pack("<5f", *numbers)
            about = f"Coefficient {at} is not finite."
            yield bad(f"polyfit-coefficient-{id}-{at}", about, kind, code, of_curve(POLY, 20, section))
    section = wide[:12] + struct.pack("<5d", 1, 2, NAN, 3, 4)
    yield bad("polyfit-coefficient-float64", "NaN, of float64.", kind, code, of_curve(POLY, 20, section, 4))


def _bad_dexp() -> Iterator[Case]:
    kind, code = "Malformed", "dexpfit-length"
    good = _head((12, 0), (8, 1)) + _four(1, -1, 1, -2) + _four(1, -1, 1, -2)
    yield bad("dexpfit-length-short", "One byte is missing.", kind, code, of_curve(DEXP, 20, good[:-1]))
    yield bad("dexpfit-length-long", "One extra byte.", kind, code, of_curve(DEXP, 20, good + bytes(1)))
    about = "The length is checked before the heads."
    yield bad(
        "dexpfit-length-first", about, kind, code, of_curve(DEXP, 20, _head((12, 2), (8, 1)) + bytes(60))
    )
    kind, code = "Malformed", "dexpfit-curve"
    for bit in range(1, 8):
        section = _head((12, 0), (8, 1 << bit)) + good[12:]
        yield bad(
            f"dexpfit-curve-{bit}", f"Bit {24 + bit} of a head.", kind, code, of_curve(DEXP, 20, section)
        )
    about = "The heads are checked before the sum."
    section = _head((12, 0), (9, 2)) + good[12:]
    yield bad("dexpfit-curve-first", about, kind, code, of_curve(DEXP, 20, section))
    kind, code = "Invalid", "dexpfit-sum"
    for id, about, lengths in (
        ("less", "A value too few.", (11, 8)),
        ("more", "A value too many.", (12, 9)),
        ("huge", "Lengths of 2^24.", (2**24, 2**24)),
    ):
        section = _head(*((n, 0) for n in lengths)) + good[12:]
        yield bad(f"dexpfit-sum-{id}", about, kind, code, of_curve(DEXP, 20, section))
    section = _head((2**24, 1), (8, 0)) + good[12:]
    about = "All bits of a head that are not reserved are set."
    yield bad("dexpfit-sum-largest", about, kind, code, of_curve(DEXP, 20, section))
    about = "The sum is checked before the numbers."
    section = _head((12, 0), (9, 0)) + _four(NAN, 0, 0, 0) * 2
    yield bad("dexpfit-sum-first", about, kind, code, of_curve(DEXP, 20, section))
    kind, code = "Invalid", "dexpfit-parameter"
    above = 2.0**900 * (1 + 2.0**-52)
    for at, letter in enumerate("abcd"):
        wrong: dict[str, float] = {"nan": NAN, "inf": INFINITY, "minus": -INFINITY}
        if letter in "ac":
            wrong |= {"above": above, "below": -above}
        else:
            wrong |= {"above": 64 * (1 + 2.0**-52)}
        for id, number in wrong.items():
            numbers = [1.0, -1.0, 1.0, -1.0]
            numbers[at] = number
            section = _head((12, 0), (8, 1)) + _four(1, -1, 1, -1) + _four(*numbers)
            about = f"{letter} is {number!r}."
            yield bad(f"dexpfit-parameter-{letter}-{id}", about, kind, code, of_curve(DEXP, 20, section))

"""structured: each form and each kind of structure, foreign forms, and each check of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.reference import Qsgd, Structured, write
from formats.reference.writing.index.structured import pack_bits, to_bits, write_stream
from formats.vector_cases.case import Case, bad, exact, sparse, spread, valid
from formats.vector_cases.parts import of_index, ones

ONES = Qsgd(bits=2, bucket=2**24)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _exact()
    yield from _foreign()
    yield from _bad_heads()
    yield from _bad_bodies()
    yield from _bad_runs()


def _rows(rows: Sequence[int], grain: int, phase: int = 0, last: int = 0) -> list[int]:
    """Return the elements of these grains; the first and the last part are not counted as grains."""
    elements = [i for row in rows for i in range(phase + row * grain, phase + (row + 1) * grain)]
    return elements + list(range(elements[-1] + 1, elements[-1] + 1 + last))


def _exact() -> Iterator[Case]:
    for id, about, d, indices in (
        ("one", "One element: a gap stream of one number.", 19, [7]),
        ("one-of-two", "The smallest chunk with a support.", 2, [1]),
        ("last-of-most", "The largest gap.", 2**24, [2**24 - 1]),
        ("opposite", "One element is absent: complement.", 64, [i for i in range(64) if i != 40]),
        ("half", "Even numbers: the bitmap is the smallest.", 64, list(range(0, 64, 2))),
        ("run", "One run: its ends make the grain.", 100, list(range(30, 50))),
        ("run-first", "One run at 0 has one end inside: no grain.", 100, list(range(37))),
        ("rows", "Rows of 16.", 640, _rows([3, 4, 17, 30], 16)),
        ("rows-phase", "Rows of 16 from element 5 on.", 645, _rows([3, 4, 17, 30], 16, 5)),
        ("rows-parts", "Both parts beside the whole rows.", 650, [*range(5), *_rows([3, 17, 39], 16, 5, 5)]),
        ("rows-opposite", "Most rows: complement of grains, the first part absent.", 650, _most_rows()),
        (
            "wide",
            "A grain of 3 bytes, absent between two parts.",
            140_020,
            [*range(10), *range(140_010, 140_020)],
        ),
        ("parts-alone", "No whole grain is present.", 110, [*range(5), *range(105, 110)]),
        ("all-grains", "Every whole grain, the first part absent.", 110, list(range(10, 110))),
    ):
        yield exact(f"structured-{id}", about, [ones(d, indices)], Structured(), ONES)
    for r in (255, 256, 257, 513):
        t = ones(4 * r, spread(r, 4 * r, r))
        yield exact(f"structured-r{r}", f"{r} numbers in {-(-r // 256)} blocks.", [t], Structured(), ONES)
    runs = [i for start in spread(300, 900, 1) for i in range(7 * start, 7 * start + 4 + start % 3)]
    t = ones(6400, runs)
    yield exact("structured-runs", "Long runs of several lengths: two gap streams.", [t], Structured(), ONES)


def _most_rows() -> list[int]:
    return [i for i in range(5, 650) if (i - 5) // 16 not in (3, 17)]


def _foreign() -> Iterator[Case]:
    few = sparse("0", 60, [3, 4, 5, 6, 17, 18, 44])
    for id, about, codec in (
        ("gaps", "Gaps where runs may be smaller.", Structured(0)),
        ("runs", "Runs.", Structured(1)),
        ("bitmap", "A bitmap.", Structured(2)),
        ("gaps-opposite", "Complement of a sparse support.", Structured(0, True)),
        ("runs-opposite", "Runs of absent elements.", Structured(1, True)),
        ("bitmap-opposite", "A bitmap of absent elements.", Structured(2, True)),
        ("b24", "b = 24.", Structured(0, False, None, 24)),
        ("b0", "b = 0.", Structured(1, False, None, 0)),
    ):
        data = write([few], codec, names=False)
        yield valid(f"structured-foreign-{id}", about, data, [few])
    rows = sparse("0", 60, [*range(4), *range(12, 20), *range(28, 36), *range(52, 60)])
    for id, about, codec in (
        ("divisor", "A grain of 2 where 8 is possible.", Structured(None, None, (2, 0))),
        ("phase", "A grain of 4 at phase 0 under complement.", Structured(1, True, (4, 0))),
        ("no-grain", "Rows without a grain.", Structured(0, None, (1, 0))),
        ("parts", "Complement of grains with a first part.", Structured(0, True, (8, 4))),
    ):
        data = write([rows], codec, names=False)
        yield valid(f"structured-foreign-{id}", about, data, [rows])
    section = b"\xe4" + (2**24 - 1).to_bytes(3, "little") + (1).to_bytes(3, "little")
    about = (
        "One element of 2^24, as the complement of one grain: a reader takes no step for each absent element."
    )
    yield valid("structured-foreign-all-absent", about, of_index(10, 1, 2**24, section))
    for id, about, d, indices, codec in (
        ("grain-of-all", "A grain of d, and two parts.", 5, [0, 1], Structured(0, False, (5, 2))),
        ("phase-1", "A phase of 1.", 21, _rows([1, 3], 4, 1), Structured(0, False, (4, 1))),
        ("grain-200", "A grain of eight bits.", 1000, _rows([1, 3], 200), Structured(0, False, (200, 0))),
        ("runs-apart", "As many runs as elements.", 9, range(0, 9, 2), Structured(1, False, (1, 0))),
        (
            "runs-between",
            "All that is absent is alone.",
            9,
            [0, 1, 2, 4, 5, 6, 8],
            Structured(1, False, (1, 0)),
        ),
    ):
        t = sparse("0", d, list(indices))
        yield valid(f"structured-foreign-{id}", about, write([t], codec, names=False), [t])
    last = sparse("0", 20_001, [0, 20_000])
    data = write([last], Structured(0, False, (1, 0), 0), names=False)
    yield valid("structured-foreign-long-unary", "Twenty thousand zero bits in a row.", data, [last])


def _index(r: int, d: int, section: bytes) -> bytes:
    return of_index(10, r, d, section)


def _bad_heads() -> Iterator[Case]:
    body = pack_bits(write_stream([1, 3], 2))  # two of five grains of 20 are 40 of 100
    kind, code = "Malformed", "structured-length"
    for id, about, section in (
        ("grain", "Two bytes of a grain of three.", b"\x60\x00\x00"),
        ("phase", "The phase is missing.", b"\xa0\x14"),
        ("form", "A cut head comes before its form.", b"\xa3\x14"),
    ):
        yield bad(f"structured-head-{id}", about, kind, code, _index(40, 100, section))
    kind, code = "Malformed", "structured-form"
    for id, about, section in (
        ("form-3", "Form 3.", b"\x23\x14" + body),
        ("first", "The first part is listed, and p = 0.", b"\x28\x14" + body),
        ("last", "The last part is listed, and nothing is left.", b"\x30\x14" + body),
        ("plain-first", "The first part is listed, and there is no grain.", b"\x08" + body),
        ("form-before-grain", "Form 3 of a grain of 0.", b"\x23\x00" + body),
    ):
        yield bad(f"structured-{id}", about, kind, code, _index(40, 100, section))
    about = "The last part is listed, and two grains of four after a first part fill nine elements."
    yield bad("structured-last-phase", about, kind, code, _index(4, 9, b"\xb0\x04\x01" + body))
    kind, code = "Malformed", "structured-grain"
    for id, about, section in (
        ("0", "A grain of 0.", b"\x20\x00"),
        ("1", "A grain of 1 is not written.", b"\x20\x01"),
        ("wide", "A grain of 20 in two bytes.", b"\x40\x14\x00"),
        ("wider", "A grain of 300 in three bytes.", b"\x60\x2c\x01\x00"),
        ("d", "A grain of 101, d is 100.", b"\x20\x65"),
        ("most", "A grain of 2^24 - 1.", b"\x60\xff\xff\xff"),
        ("phase-0", "A phase of 0 is not written.", b"\xa0\x14\x00"),
        ("phase-g", "A phase of g.", b"\xa0\x14\x14"),
        ("phase-alone", "A phase without a grain.", b"\x80"),
        ("before-parts", "A phase of g, and a last part that is listed.", b"\xb0\x14\x14"),
    ):
        yield bad(f"structured-grain-{id}", about, kind, code, _index(40, 100, section + body))
    kind, code = "Invalid", "structured-count"
    for id, about, r, section in (
        ("odd", "41 elements of grains of 20.", 41, b"\x20\x14"),
        ("opposite", "59 absent elements of grains of 20.", 41, b"\x24\x14"),
        ("first", "A first part of 15 elements, 10 are present.", 10, b"\xa8\x14\x0f"),
        ("last", "A last part of 15 elements, 10 are present.", 10, b"\xb0\x14\x05"),
        ("more", "Ninety elements in two grains of 30.", 90, b"\xa0\x1e\x14"),
    ):
        yield bad(f"structured-count-{id}", about, kind, code, _index(r, 100, section + body))
    kind, code = "Malformed", "structured-length"
    about = "Every whole grain is listed, and a body."
    yield bad("structured-body-all", about, kind, code, _index(80, 100, b"\xa0\x14\x13" + b"\0"))
    about = "No whole grain is listed, and a body."
    yield bad("structured-body-none", about, kind, code, _index(19, 100, b"\xa8\x14\x13" + b"\0"))


def _bad_bodies() -> Iterator[Case]:
    good = write_stream([3, 40, 99], 4)  # 3 of 100 elements: 5 + 3 · 5 + 0 + 2 + 3 = 25 bits
    kind, code = "Malformed", "structured-length"
    for id, about, bits in (
        ("empty", "No body.", ""),
        ("parameter", "One byte: it ends within a gap.", good[:8]),
        ("unary", "It ends within zero bits.", to_bits(0, 5) + "000"),
        ("low", "It ends within low bits.", to_bits(24, 5) + "001"),
        ("last", "A number is missing.", write_stream([3, 40], 4) + "0" * 1),
        ("long", "One extra byte.", good + "0" * 8),
        ("longer", "Eight bytes too many.", good + "0" * 64),
    ):
        yield bad(f"structured-gaps-{id}", about, kind, code, _index(3, 100, b"\0" + pack_bits(bits)))
    second = write_stream(range(0, 2048, 8), 3)  # 256 numbers: a full block, 5 + 256 · 4 bits
    cut = pack_bits(second)[: len(second) // 8]
    yield bad("structured-gaps-block", "It ends within a block.", kind, code, _index(257, 4096, b"\0" + cut))
    kind, code = "Malformed", "structured-parameter"
    for b in (25, 31):
        bits = to_bits(b, 5) + "1" * 100
        yield bad(
            f"structured-parameter-{b}", f"b = {b}.", kind, code, _index(3, 100, b"\0" + pack_bits(bits))
        )
    bits = second + to_bits(25, 5) + "1"
    about = "The second block's b is 25."
    yield bad("structured-parameter-second", about, kind, code, _index(257, 4096, b"\0" + pack_bits(bits)))
    kind, code = "Invalid", "index-range"
    yield bad("structured-range", "Element d.", kind, code, _index(3, 99, b"\0" + pack_bits(good)))
    bits = to_bits(0, 5) + "0" * 120 + "1"
    about = "Element 120 of 99; the next number's gap is cut. A number's checks precede those of the next."
    yield bad("structured-range-first", about, kind, code, _index(3, 99, b"\0" + pack_bits(bits)))
    bits = write_stream([2, 5])
    about = "Grain 5 of five."
    yield bad("structured-range-grain", about, kind, code, _index(40, 100, b"\x20\x14" + pack_bits(bits)))
    bits = to_bits(24, 5) + "0" * 200 + "1" + to_bits(2**24 - 1, 24)
    about = "A quotient of 200 and b = 24."
    yield bad("structured-range-wide", about, kind, code, _index(1, 100, b"\0" + pack_bits(bits)))
    bits = to_bits(24, 5) + "0" * 256 + "1" + to_bits(0, 24) + "1" + to_bits(0, 24)
    about = "A gap of 2^32, 0 in 32 bits."
    yield bad("structured-range-wrapping", about, kind, code, _index(2, 100, b"\0" + pack_bits(bits)))
    kind, code = "Malformed", "structured-padding"
    for bit in (len(good), -(-len(good) // 8) * 8 - 1):
        bits = good.ljust(bit, "0") + "1"
        yield bad(
            f"structured-padding-{bit}", f"Bit {bit}.", kind, code, _index(3, 100, b"\0" + pack_bits(bits))
        )
    bitmap = b"\x22\x07"  # 14 grains of 7, and two more elements
    data = _index(14, 100, bitmap + b"\x11\x40")
    yield bad("structured-bitmap-tail", "A bit beyond the last grain.", kind, code, data)
    kind, code = "Malformed", "structured-length"
    yield bad("structured-bitmap-short", "One byte.", kind, code, _index(14, 100, bitmap + b"\x11"))
    yield bad("structured-bitmap-long", "Three bytes.", kind, code, _index(14, 100, bitmap + b"\x11\0\0"))
    kind, code = "Invalid", "structured-count"
    yield bad("structured-bitmap-few", "One bit of two.", kind, code, _index(14, 100, bitmap + b"\x10\0"))
    yield bad("structured-bitmap-many", "Three bits of two.", kind, code, _index(14, 100, bitmap + b"\x13\0"))


def _bad_runs() -> Iterator[Case]:
    def broken(bits: str, r: int = 40, d: int = 100) -> bytes:
        return _index(r, d, b"\x01" + pack_bits(bits))

    # 40 of 100 elements; the number of runs minus 1 takes 6 bits
    kind, code = "Malformed", "structured-runs"
    yield bad("structured-runs-many", "41 runs of 40 elements.", kind, code, broken(to_bits(40, 6)))
    yield bad("structured-runs-most", "64 runs of 40 elements.", kind, code, broken(to_bits(63, 6)))
    about = "13 runs between 11 absent elements."
    yield bad("structured-runs-between", about, kind, code, broken(to_bits(12, 4), 89))
    kind, code = "Malformed", "structured-length"
    yield bad("structured-runs-none", "No body.", kind, code, broken(""))
    yield bad("structured-runs-count", "The number alone.", kind, code, broken(to_bits(1, 6)))
    two = to_bits(1, 6) + write_stream([5, 20], 3)
    yield bad("structured-runs-cut", "The ends are missing.", kind, code, broken(two[:16]))
    whole = two + write_stream([10], 3)
    yield bad("structured-runs-long", "One extra byte.", kind, code, broken(whole + "0" * 8))
    about = "The number of runs is cut: it has 9 bits."
    yield bad("structured-runs-wide", about, kind, code, _index(500, 1000, b"\x01\0"))
    kind, code = "Malformed", "structured-parameter"
    about = "b = 25 of the ends."
    yield bad("structured-runs-parameter", about, kind, code, broken(two + to_bits(25, 5) + "1" * 40))
    kind, code = "Invalid", "index-range"
    bits = to_bits(1, 6) + write_stream([5, 61], 3) + write_stream([10], 3)
    yield bad("structured-runs-absent", "61 absent elements of 60.", kind, code, broken(bits))
    bits = two + write_stream([39], 3)
    yield bad("structured-runs-end", "The first run has all elements.", kind, code, broken(bits))
    kind, code = "Malformed", "structured-padding"
    bits = whole.ljust(-(-len(whole) // 8) * 8 - 1, "0") + "1"
    yield bad("structured-runs-padding", "The last bit.", kind, code, broken(bits))

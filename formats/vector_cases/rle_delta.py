"""Index codecs rle and delta: numbers at which a varint grows, and each check of the pages."""

from __future__ import annotations

from collections.abc import Iterator

from formats.reference import Delta, Qsgd, Rle, Tensor
from formats.reference.writing.index.varint import write_varints
from formats.vector_cases.case import Case, bad, exact, sparse, spread
from formats.vector_cases.parts import gapped, of_index

ONES = Qsgd(bits=2, bucket=2**24)
STEPS = (127, 128, 129, 16_383, 16_384, 16_385, 2**21 - 1, 2**21, 2**21 + 1)
"""Numbers around those at which a varint takes one more byte."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    for name, codec in (("rle", Rle()), ("delta", Delta())):
        for r in (1, 2, 18, 19):
            t = sparse("0", 19, spread(r, 19, r))
            yield exact(f"{name}-r{r}", f"{name}, {r} of 19 elements.", [t], codec)
        t = sparse("0", 2**24, [2**24 - 1])
        yield exact(f"{name}-gap-most", "An element of 2^24, the last.", [t], codec)
        for gap in STEPS:
            t = sparse("0", 2 * gap + 3, [gap, 2 * gap + 1])
            yield exact(f"{name}-gap-{gap}", f"The first index and the gap behind it are {gap}.", [t], codec)
        mixed = [gap for n in range(150) for gap in (n % 9, 130 + n, 1 if n % 40 != 20 else 20_000)]
        yield exact(
            f"{name}-mixed", "Numbers of one, two and three bytes alternately.", [gapped(mixed)], codec, ONES
        )
    gaps = [0] * 62 + [16_384] + [5] * 200
    about = "A number of three bytes of which the last is the first of 64 bytes that all end a number."
    yield exact("delta-straddling", about, [gapped(gaps)], Delta(), ONES)
    yield from _runs()
    yield from _bad_rle()
    yield from _bad_delta()


def _runs() -> Iterator[Case]:
    for length in STEPS[:6]:
        t = gapped([3] + [0] * (length - 1) + [7])
        yield exact(
            f"rle-run-{length}", f"A run of {length} elements, and one of a single one.", [t], Rle(), ONES
        )
    t = Tensor("0", "float16", (300,), range(1, 300), b"\x00\x3c" * 299)
    yield exact("rle-to-the-end", "One run, up to the last element.", [t], Rle(), ONES)
    t = gapped([1] * 3000)
    yield exact("rle-alternating", "Every other element: 6,000 numbers of one byte.", [t], Rle(), ONES)


OVERLONG = (
    ("zero", "0 in two bytes.", b"\x80\x00"),
    ("127", "127 in two bytes.", b"\xff\x00"),
    ("three", "128 in three bytes.", b"\x80\x81\x00"),
    ("four", "5 in four bytes.", b"\x85\x80\x80\x00"),
    ("five", "2^28 in five bytes.", b"\x80\x80\x80\x80\x01"),
    ("nine", "1 in nine bytes.", b"\x81" + b"\x80" * 7 + b"\x00"),
)
"""Varints that no writer writes."""


def _bad_rle() -> Iterator[Case]:
    kind, code = "Malformed", "rle-length"
    for id, about, section in (
        ("odd", "An absent run with no present one.", bytes([3, 1, 4])),
        ("cut", "The last number goes on.", bytes([3, 1, 4, 0x82])),
        ("unended", "No number ends.", b"\xff" * 9),
    ):
        yield bad(f"rle-length-{id}", about, kind, code, of_index(4, 2, 100, section))
    kind, code = "Malformed", "rle-varint"
    for id, about, number in OVERLONG:
        yield bad(f"rle-varint-{id}", about, kind, code, of_index(4, 2, 2**24, number + b"\x01"))
        yield bad(f"rle-varint-{id}-last", about, kind, code, of_index(4, 1, 2**24, b"\x01" + number))
    section = b"\x80\x00\x7f\x01\x01"
    yield bad("rle-varint-first", "Over-long, and too many elements.", kind, code, of_index(4, 2, 9, section))
    kind, code = "Invalid", "rle-count"
    for id, about, numbers in (
        ("few", "A run of one element, of two.", [3, 0]),
        ("many", "Three elements of two.", [3, 2]),
        ("many-runs", "A run too many.", [3, 1, 4, 0]),
        ("most", "A run of 2^28 elements.", [0, 2**28 - 1]),
        ("range", "Too many elements, which also pass the end: the count comes first.", [98, 2]),
    ):
        yield bad(f"rle-count-{id}", about, kind, code, of_index(4, 2, 100, write_varints(numbers)))
    kind, code = "Invalid", "index-range"
    for id, about, numbers in (
        ("absent", "An absent run over the whole chunk.", [100, 1]),
        ("present", "A present run goes past the end.", [99, 1]),
        ("second", "The second run begins at element d.", [3, 0, 95, 0]),
        ("most", "An absent run of 2^28 - 1 elements.", [2**28 - 1, 1]),
        ("before-count", "An element past the end, and then too many.", [100, 0, 0, 3]),
    ):
        yield bad(f"rle-range-{id}", about, kind, code, of_index(4, 2, 100, write_varints(numbers)))
    section = write_varints([2**28 - 1, 0] * 17)
    yield bad("rle-range-wrapping", "17 absent runs of 2^28.", kind, code, of_index(4, 17, 100, section))


def _bad_delta() -> Iterator[Case]:
    kind, code = "Malformed", "delta-length"
    for id, about, section in (
        ("few", "Two numbers of three.", bytes([3, 1])),
        ("many", "Four numbers of three.", bytes([3, 1, 4, 1])),
        ("cut", "The last number goes on.", bytes([3, 1, 0x84])),
        ("surplus", "A byte after the last number, that ends none.", bytes([3, 1, 4, 0x80])),
        ("unended", "No number ends.", b"\xff" * 9),
        ("overlong", "Too few numbers, one over-long: the length comes first.", b"\x80\x00\x01"),
    ):
        yield bad(f"delta-length-{id}", about, kind, code, of_index(5, 3, 100, section))
    kind, code = "Malformed", "delta-varint"
    for id, about, number in OVERLONG:
        yield bad(f"delta-varint-{id}", about, kind, code, of_index(5, 3, 2**24, b"\x01" + number + b"\x01"))
        yield bad(f"delta-varint-{id}-last", about, kind, code, of_index(5, 3, 2**24, b"\x01\x01" + number))
    about = "Over-long, and an index past the end."
    yield bad("delta-varint-range", about, kind, code, of_index(5, 3, 100, b"\x80\x00\x7f\x7f"))
    kind, code = "Invalid", "index-range"
    for id, about, numbers in (
        ("d", "Index d.", [3, 1, 94]),
        ("first", "The first index past the end.", [100, 0, 0]),
        ("most", "Gaps of 2^28 - 1.", [2**28 - 1] * 3),
    ):
        yield bad(f"delta-range-{id}", about, kind, code, of_index(5, 3, 100, write_varints(numbers)))
    section = write_varints([2**28 - 1] * 15 + [2**28 - 17])
    about = "Sixteen indices of which the last is 2^32 - 2, 17 more than fit 2^32 once they are counted."
    yield bad("delta-range-near-wrapping", about, kind, code, of_index(5, 16, 100, section))
    section = write_varints([2**28 - 1] * 16 + [5])
    about = "The last index is 2^32 + 5, 5 in 32 bits."
    yield bad("delta-range-wrapping", about, kind, code, of_index(5, 17, 100, section))

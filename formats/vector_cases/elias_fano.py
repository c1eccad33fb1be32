"""elias-fano: sizes at which a span changes its form, and each check of the page."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import EliasFano, Qsgd
from formats.reference.writing.index.elias_fano import write_span
from formats.vector_cases.case import Case, bad, exact, patch, sparse, spread
from formats.vector_cases.parts import of_index, ones

ONES = Qsgd(bits=2, bucket=2**24)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _exact()
    yield from _bad()
    yield from _bad_spans()


def _exact() -> Iterator[Case]:
    for r in (1, 2, 18, 19):
        t = sparse("0", 19, spread(r, 19, r))
        yield exact(f"elias-fano-r{r}", f"elias-fano, {r} of 19 elements.", [t], EliasFano())
    for id, about, d, indices in (
        ("least", "One element of 2^24, the first: b = 23.", 2**24, [0]),
        ("most", "One element of 2^24, the last.", 2**24, [2**24 - 1]),
        ("b0", "One absent element less than indices: b = 0.", 31, list(range(0, 31, 2))),
        ("b0-equal", "As many absent elements as indices: b = 0.", 32, list(range(0, 32, 2))),
        ("b1", "Twice as many: b = 1.", 48, list(range(2, 48, 3))),
        ("word", "High bits of exactly one word.", 32, list(range(16, 32))),
    ):
        yield exact(f"elias-fano-{id}", about, [ones(d, indices)], EliasFano(), ONES)
    for r in (255, 256, 257, 511, 512, 513):
        t = ones(9 * r, spread(r, 9 * r, r))
        about = f"{r} numbers: {r // 256} blocks in lanes and {r % 256} more."
        yield exact(f"elias-fano-r{r}", about, [t], EliasFano(), ONES)
    for r in (4095, 4096, 4097, 4352, 8193):
        t = ones(4 * r, [3 * i + i // 300 for i in range(r)])
        yield exact(f"elias-fano-r{r}", f"{r} indices in {-(-r // 4096)} spans.", [t], EliasFano(), ONES)
    layers = [*range(4096), *range(4096, 4096 + 7 * 4096, 7), *range(60_000, 60_100)]
    about = "Spans of b = 0, b = 2 and of a long gap before the last."
    yield exact("elias-fano-layers", about, [ones(70_000, layers)], EliasFano(), ONES)


def _index(r: int, d: int, section: bytes) -> bytes:
    return of_index(7, r, d, section)


def _bad() -> Iterator[Case]:
    good = write_span([3, 400, 999], 0, 8)  # low bits: 24 in one word; high bits: 3 + 3 in one word
    (low, high) = struct.unpack("<2I", good)
    kind, code = "Malformed", "elias-fano-length"
    for id, about, section in (
        ("bytes", "Not whole words.", good + b"\0\0"),
        ("low", "No high bits.", good[:4]),
        ("long", "A word more than the largest index needs.", good + struct.pack("<I", 1)),
    ):
        yield bad(f"elias-fano-length-{id}", about, kind, code, _index(3, 1000, section))
    about = "Too short for the bases."
    yield bad("elias-fano-length-bases", about, kind, code, _index(8193, 10_000, bytes(4)))
    kind, code = "Malformed", "elias-fano-padding"
    for bit in (24, 31):
        section = struct.pack("<2I", low | 1 << bit, high)
        about = f"Bit {bit} after the last low bits."
        yield bad(f"elias-fano-padding-{bit}", about, kind, code, _index(3, 1000, section))
    kind, code = "Malformed", "elias-fano-high"
    for id, about, word in (
        ("few", "Two one bits of three.", 0b11),
        ("many", "Four one bits of three.", 0b1111),
        ("none", "No one bit.", 0),
    ):
        section = struct.pack("<2I", low, word)
        yield bad(f"elias-fano-high-{id}", about, kind, code, _index(3, 1000, section))
    section = struct.pack("<2I", 0xFFFF, 0)  # d = 32: b = 0
    about = "All one bits are in the first of two words: the second is 0."
    yield bad("elias-fano-high-surplus", about, kind, code, _index(16, 33, section))
    kind, code = "Invalid", "index-order"
    section = struct.pack("<2I", 9 | 9 << 8 | 8 << 16, 0b111)
    yield bad(
        "elias-fano-order",
        "The low bits descend under equal high bits.",
        kind,
        code,
        _index(3, 1000, section),
    )
    block = bytearray(write_span([0, 2, *range(20, 2560, 10)], 0, 3))
    block[0] |= 7
    yield bad("elias-fano-order-lanes", "The same, in lanes.", kind, code, _index(256, 2560, bytes(block)))
    kind, code = "Invalid", "index-range"
    yield bad("elias-fano-range", "Index d, a lesser d with the same b.", kind, code, _index(3, 999, good))
    section = struct.pack("<2I", low, 0b11 | 1 << 31)
    yield bad("elias-fano-range-high", "A high bit far beyond.", kind, code, _index(3, 1000, section))


def _bad_spans() -> Iterator[Case]:
    indices = [2 * i for i in range(4097)]
    d = 9000
    good = EliasFano().write_section(indices, d)
    (base,) = struct.unpack_from("<I", good)

    def broken(section: bytes) -> bytes:
        return _index(4097, d, section)

    kind, code = "Invalid", "elias-fano-base"
    for id, about, wrong in (
        ("0", "The second span starts again from 0.", 0),
        ("little", "Room for 4095 indices.", 4095),
        ("more", "The base is one too great.", base + 1),
        ("d", "The base is d: no room for the last index.", d),
        ("most", "A base of 2^32 - 1.", 2**32 - 1),
    ):
        yield bad(f"elias-fano-base-{id}", about, kind, code, broken(patch(good, 0, "I", wrong)))
    kind, code = "Malformed", "elias-fano-high"
    first = write_span(indices[:4096], 0, 0)
    about = "The first span's last one bit is missing."
    section = good[:4] + first[:-4] + bytes(4) + good[4 + len(first) :]
    yield bad("elias-fano-high-span", about, kind, code, broken(section))
    kind, code = "Invalid", "elias-fano-base"
    last = bytearray(first)
    last[-1] ^= 0xC0
    about = "The first span's last index is one too great."
    yield bad(
        "elias-fano-base-last", about, kind, code, broken(good[:4] + bytes(last) + good[4 + len(first) :])
    )
    dense = struct.pack("<I", 4106) + b"\xff" * 511 + b"\x7f\0\0\0\x80" + struct.pack("<2I", 0, 1)
    about = (
        "The last index of span 0 is d, and the next base is not its successor: the range is checked first."
    )
    yield bad("elias-fano-range-first", about, "Invalid", "index-range", _index(4097, 4127, dense))
    kind, code = "Malformed", "elias-fano-length"
    yield bad("elias-fano-length-spans", "The last span is cut.", kind, code, broken(good[:-4]))
    yield bad("elias-fano-length-all", "Bases, and no spans.", kind, code, broken(good[:4]))
    three = EliasFano().write_section([2 * i for i in range(8193)], 17_000)
    section = patch(three, 0, "I", 2**31)
    about = "Bases that descend."
    yield bad(
        "elias-fano-base-descending", about, "Invalid", "elias-fano-base", _index(8193, 17_000, section)
    )

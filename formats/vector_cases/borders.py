"""Borders that a change of one comparison or constant of a decoder moves.

Mutants of the decoders that no other vector noticed led to these cases (tests/fuzz/MUTANTS.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Context, Huffman, Mean, Row, assemble, reseal, write
from formats.reference.bits import pack_stream
from formats.reference.floats import BY_ID
from formats.reference.table import CHUNK
from formats.reference.writing.map.packed import write_packed
from formats.reference.writing.value.qsgd import write_qsgd
from formats.vector_cases.case import Case, bad, exact, patch, sparse, valid, values_for
from formats.vector_cases.parts import gapped, of_index, of_values
from formats.vector_cases.structured import pack_bits, write_stream

ONES = Mean()
FOLLOWING = Row(1, 0, 2, 2, 1, 1, 1, value_section=b"\xff" * 8)
"""An entry of set bits: a reader that reads beyond the section before it sees them, not padding."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _index()
    yield from _bloom()
    yield from _values()
    yield from _names()
    yield from _limits()


def _index() -> Iterator[Case]:
    d = 70_000
    t = sparse("0", d, [i for i in range(d) if i != 33_333])
    t.values = b"\0\0\x80\x3f" * (d - 1)
    yield exact(
        "context-dense-most",
        "One element of 70,000 is absent: delta has its upper limit.",
        [t],
        Context(),
        ONES,
    )
    for m, top in ((0, 24), (1, 47), (2, 91), (3, 175)):
        x = 23 - m
        section = bytes([m, top, 0]) + pack_stream([1] * x, 1, 1)
        about = f"The highest class of m = {m}: the gap 2^24 - 1."
        yield valid(f"huffman-foreign-top-{m}", about, of_index(6, 1, 2**24, section))

    t = gapped([0] * 4097)
    about = "Two spans of one symbol without bits: neither has a byte."
    yield exact("huffman-spans-empty", about, [t], Huffman(), ONES)
    for d in (63, 64, 127, 191):
        about = f"The last of {d} bits."
        section = bytes((d - 1) // 8) + bytes([1 << (d - 1) % 8])
        yield valid(f"bitmap-last-{d}", about, of_index(2, 1, d, section))
        yield valid(f"structured-foreign-bitmap-last-{d}", about, of_index(10, 1, d, b"\2" + section))
        if d % 8:
            tail = section[:-1] + bytes([section[-1] | 1 << d % 8])
            about = f"The bit after the last of {d}."
            kind = "Malformed"
            yield bad(f"bitmap-tail-{d}", about, kind, "bitmap-tail", of_index(2, 1, d, tail))
            data = of_index(10, 1, d, b"\2" + tail)
            yield bad(f"structured-bitmap-tail-{d}", about, kind, "structured-padding", data)
    for g, width in ((255, 1), (256, 2), (511, 2), (65_535, 2), (65_536, 3), (131_071, 3)):
        section = bytes([width << 5]) + g.to_bytes(width, "little") + pack_bits(write_stream([1], 0))
        data = of_index(10, g, 3 * g, section)
        yield valid(f"structured-foreign-grain-{g}", f"A grain of {g}, in {width} bytes.", data)


def _bloom() -> Iterator[Case]:
    header = struct.pack("<QIBBH", 0, 7, 5, 6, 0)
    for d in (63, 64, 65, 127, 129):
        about = f"A filter of ones under rightmost: the last of {d} elements, and no bit beyond them."
        yield valid(f"bloom-foreign-ones-last-{d}", about, of_index(9, 7, d, header + b"\xff" * 8))


def _values() -> Iterator[Case]:
    good = write_qsgd(values_for(20, "float32"), BY_ID[1], bits=4, bucket=16, norm=0, stream=0)
    about = "Eight bytes are enough for the parameters, which are checked first."
    data = of_values(4, 1, 20, patch(good[:8], 0, "B", 9))
    yield bad("qsgd-parameter-head", about, "Malformed", "qsgd-parameter", data)
    about = "11 bytes: the length is checked before the parameters."
    yield bad(
        "offset-float-length-bits", about, "Malformed", "offset-float-length", of_values(8, 1, 3, bytes(11))
    )
    about = "Heads without coefficients: the degree is checked before the last length."
    section = struct.pack("<2I", 1, 2 | 9 << 24)
    row = Row(0, 0, 3, 3, 1, 1, 9, b"", section, write_packed(range(3)), 1)
    yield bad("polyfit-piece-heads", about, "Malformed", "polyfit-piece", assemble([row]))
    for codec, name, code in ((11, "terngrad", 121), (12, "3lc", 122)):
        section = struct.pack("<f", 1) + bytes([code] * 4 if codec == 11 else [120, 119, 118, 117])
        about = "The section ends with its last byte, and set bits follow."
        yield valid(
            f"{name}-followed",
            about,
            assemble([Row(0, 0, 20, 20, 1, 1, codec, value_section=section), FOLLOWING]),
        )
    head = struct.pack("<B3fI", 1, 1.0, 1.0, 0.5, 1) + b"\5\xff\1\2\3\4\5"
    data = of_values(14, 1, 90, patch(head, 13, "I", 3))
    about = "The section and the container end before the second of two rows."
    yield bad("error-bounded-length-row-end", about, "Malformed", "error-bounded-length", data)
    about = "The section and the container end before the first block."
    yield bad(
        "error-bounded-length-block-end",
        about,
        "Malformed",
        "error-bounded-length",
        of_values(14, 1, 90, head),
    )
    for id, more in (("block-followed", b""), ("state-followed", struct.pack("<BI", 0, 0) + bytes(3))):
        section = head + more
        rows = [Row(0, 0, 90, 90, 1, 1, 14, value_section=section), FOLLOWING]
        about = "The section ends before a block or its states, and set bits follow."
        kind, code_ = "Malformed", "error-bounded-length"
        yield bad(f"error-bounded-length-{id}", about, kind, code_, assemble(rows))


def _names() -> Iterator[Case]:
    points: tuple[int, ...] = (
        0x7F,
        0x80,
        0x7FF,
        0x800,
        0xFFF,
        0x1000,
        0xCFFF,
        0xD000,
        0xD7FF,
        0xE000,
        0xFFFF,
    )
    points += (0x10000, 0x3FFFF, 0x40000, 0xFFFFF, 0x100000, 0x10FFFF)
    tensors = [sparse(chr(point), 3, [1], first=n) for n, point in enumerate(points)]
    about = "The first and last character of every form of UTF-8."
    yield exact("names-utf8-borders", about, tensors, many=True)
    good = write([sparse("abcd", 3, [1])])
    at = good.index(b"abcd")
    for id, text in (
        ("2", b"\xc1\xbfab"),
        ("3", b"\xe0\x9f\xbfa"),
        ("4", b"\xf0\x8f\xbf\xbf"),
        ("surrogate-last", b"\xed\xbf\xbfa"),
        ("lead-f5", b"\xf5\x80\x80\x80"),
        ("lead-ff", b"\xff\xbf\xbf\xbf"),
        ("continuation", b"\x80bcd"),
        ("continuation-low", b"\xc3\x7fab"),
        ("continuation-high", b"\xc3\xc0ab"),
        ("continuation-third", b"\xe1\x80\xc0a"),
        ("continuation-fourth", b"\xf1\x80\x80\x7f"),
        ("cut-2", b"abc\xc3"),
        ("cut-3", b"ab\xe1\x80"),
        ("cut-4", b"a\xf1\x80\x80"),
    ):
        data = reseal(good[:at] + text + good[at + 4 :])
        yield bad(f"names-utf8-{id}", f"The name {text.hex(' ')}.", "Invalid", "names", data)


def _limits() -> Iterator[Case]:
    kind = "LimitExceeded"
    one = Row(0, 0, 4096 * 72, 4096 * 72, 1, 1, 15, value_section=bytes(4))
    yield valid("limit-expansion-default", "4096 elements per byte.", assemble([one]))
    more = Row(0, 0, 4096 * 72 + 1, 4096 * 72 + 1, 1, 1, 15, value_section=bytes(4))
    about = "One element more than 4096 per byte."
    yield bad("max-expansion-default", about, kind, "max-expansion", assemble([more]))
    rows = [Row(0, n * CHUNK, CHUNK if n < 256 else 1, 0, 1, 1, 1) for n in range(257)]
    yield bad("max-dense-default", "2^32 + 1 elements.", kind, "max-dense", assemble(rows))
    empty = assemble([])
    data = reseal(patch(empty, 8, "I", 65_537))
    yield bad("max-entries-default", "65,537 entries.", kind, "max-entries", data)
    data = reseal(patch(empty, 8, "I", 65_536))
    yield bad("table-length-65536", "65,536 entries, and no table.", "Malformed", "table-length", data)
    yield bad("max-bytes-default", "2^31 + 8 bytes.", kind, "max-bytes", patch(empty, 16, "Q", 2**31 + 8))
    yield bad(
        "container-2p31",
        "2^31 bytes, of which 24 are present.",
        "Truncated",
        "container",
        patch(empty, 16, "Q", 2**31),
    )

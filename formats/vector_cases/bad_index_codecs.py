"""Invalid index sections: each check of the codecs' pages, with correct checksums and padding."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference.bits import pack_stream
from formats.reference.writing.index.bitmap import write_bitmap
from formats.reference.writing.index.rice import write_rice
from formats.vector_cases.case import Case, bad, patch
from formats.vector_cases.parts import of_index

ZEROS = bytes(8)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _raw_index()
    yield from _bitmap()
    yield from _rice()
    yield from _rice_spans()


def _raw_index() -> Iterator[Case]:
    kind, code = "Malformed", "raw-index-length"
    for id, about, d, section in (
        ("short", "One byte is missing.", 10, bytes(3)),
        ("long", "An index too many.", 10, struct.pack("<3H", 1, 2, 3)),
        ("wide", "u32 where u16 is wide enough.", 65_536, struct.pack("<2I", 1, 2)),
        ("narrow", "u16 where u32 is needed.", 65_537, struct.pack("<2H", 1, 2)),
    ):
        yield bad(f"raw-index-length-{id}", about, kind, code, of_index(1, 2, d, section))
    kind, code = "Invalid", "index-order"
    for id, about, indices in (
        ("repeated", "An index twice.", (1, 4, 4)),
        ("descending", "5 before 4.", (1, 5, 4)),
        ("range", "The order comes before the range.", (1, 99, 4)),
    ):
        yield bad(f"raw-index-{id}", about, kind, code, of_index(1, 3, 10, struct.pack("<3H", *indices)))
    kind, code = "Invalid", "index-range"
    yield bad("raw-index-d", "Index d.", kind, code, of_index(1, 2, 10, struct.pack("<2H", 1, 10)))
    yield bad(
        "raw-index-most", "Index 65,535.", kind, code, of_index(1, 2, 10, struct.pack("<2H", 1, 65_535))
    )
    section = struct.pack("<2I", 1, 2**32 - 1)
    yield bad("raw-index-most-u32", "Index 2^32 - 1.", kind, code, of_index(1, 2, 2**17, section))


def _bitmap() -> Iterator[Case]:
    good = write_bitmap([1, 9], 11)
    kind, code = "Malformed", "bitmap-length"
    yield bad("bitmap-short", "One byte is missing.", kind, code, of_index(2, 2, 11, good[:1]))
    yield bad("bitmap-long", "One extra byte.", kind, code, of_index(2, 2, 11, good + b"\0"))
    yield bad("bitmap-words", "Filled up to 8 bytes.", kind, code, of_index(2, 2, 11, good + bytes(6)))
    kind, code = "Malformed", "bitmap-tail"
    yield bad("bitmap-tail-first", "The bit of element d.", kind, code, of_index(2, 2, 11, b"\2\x0a"))
    yield bad(
        "bitmap-tail-last", "The last bit, and a right count.", kind, code, of_index(2, 2, 11, b"\2\x80")
    )
    kind, code = "Invalid", "bitmap-count"
    yield bad("bitmap-few", "One bit of two.", kind, code, of_index(2, 2, 11, b"\2\0"))
    yield bad("bitmap-many", "Three bits of two.", kind, code, of_index(2, 2, 11, b"\6\2"))
    yield bad("bitmap-none", "No bit.", kind, code, of_index(2, 2, 11, b"\0\0"))


def _rice() -> Iterator[Case]:
    good = write_rice([3, 400, 999])  # parameters, low bits, unary: more than one word of each
    kind, code = "Malformed", "rice-length"
    for id, about, section in (
        ("bytes", "Not whole words.", good + b"\0\0"),
        ("parameters", "Parameters alone, and no span.", good[:4]),
        ("low-bits", "No unary part after the low bits.", struct.pack("<II", 24, 0)),
        ("low-bits-cut", "The low bits are cut.", struct.pack("<III", 24, 0, 0)),
    ):
        yield bad(f"rice-length-{id}", about, kind, code, of_index(3, 3, 1000, section))
    many = of_index(3, 4097, 9000, bytes(16))
    yield bad("rice-length-tables", "Too short for base, words and parameters.", kind, code, many)
    kind, code = "Malformed", "rice-padding"
    for bit in (5, 31):
        section = patch(good, 0, "I", struct.unpack_from("<I", good)[0] | 1 << bit)
        about = f"Bit {bit} after the parameters."
        yield bad(f"rice-padding-parameters-{bit}", about, kind, code, of_index(3, 3, 1000, section))
    section = struct.pack("<III", 7, 1 << 21, 0b111)
    yield bad(
        "rice-padding-low", "The bit after the last low bits.", kind, code, of_index(3, 3, 1000, section)
    )
    section = struct.pack("<III", 7, 1 << 31, 0b111)
    yield bad(
        "rice-padding-low-last",
        "The last bit of the low bits' words.",
        kind,
        code,
        of_index(3, 3, 1000, section),
    )
    kind, code = "Malformed", "rice-parameter"
    for b in (25, 31):
        section = struct.pack("<I", b) + bytes(4 * 3) + b"\7\0\0\0"
        yield bad(f"rice-parameter-{b}", f"b = {b}.", kind, code, of_index(3, 3, 1000, section))
    kind, code = "Malformed", "rice-unary"
    for id, about, words in (
        ("few", "Two one bits of three.", (0b110,)),
        ("many", "Four one bits of three.", (0b1111,)),
        ("none", "No one bit.", (0,)),
        ("surplus", "A word of zeros after the last one bit.", (0b111, 0)),
        ("surplus-bit", "A one bit in a further word.", (0b111, 1)),
    ):
        section = struct.pack(f"<I{len(words)}I", 0, *words)
        yield bad(f"rice-unary-{id}", about, kind, code, of_index(3, 3, 1000, section))
    kind, code = "Invalid", "index-range"
    yield bad("rice-range", "Index d.", kind, code, of_index(3, 3, 999, good))
    section = struct.pack("<II", 0, 0x80000003)
    yield bad("rice-range-unary", "Index 31 of 31.", kind, code, of_index(3, 3, 31, section))
    section = struct.pack("<I", 24) + pack_stream([2**24 - 1] * 3, 24, 4) + struct.pack("<I", 7)
    yield bad("rice-range-low", "Gaps of 2^24 - 1.", kind, code, of_index(3, 3, 2**24, section))
    section = struct.pack("<I", 24) + bytes(12) + bytes(4 * 16) + b"\7\0\0\0"
    about = "A quotient of 512 and b = 24: the gap is 2^33, 0 in 32 bits."
    yield bad("rice-range-wrapping", about, kind, code, of_index(3, 3, 1000, section))


def _rice_spans() -> Iterator[Case]:
    indices = [2 * i for i in range(4097)]  # tables: base u32, words u16, 17 parameters: 20 bytes
    good = write_rice(indices)
    d = 9000

    def broken(section: bytes) -> bytes:
        return of_index(3, 4097, d, section)

    (words,) = struct.unpack_from("<H", good, 4)
    kind, code = "Malformed", "rice-length"
    for id, about, length in (
        ("words-all", "The first span takes all words.", (len(good) - 20) // 4),
        ("words-more", "The first span takes more words than there are.", (len(good) - 20) // 4 + 1),
        ("words-most", "The first span takes 65,535 words.", 65_535),
        ("words-0", "The first span takes no words.", 0),
    ):
        yield bad(f"rice-length-{id}", about, kind, code, broken(patch(good, 4, "H", length)))
    lows = write_rice(indices, [1] * 16 + [0])
    section = patch(lows, 4, "H", 16 * 8)
    yield bad(
        "rice-length-words-low", "The first span holds its low bits alone.", kind, code, broken(section)
    )
    yield bad(
        "rice-padding-tables",
        "A bit after 17 parameters.",
        "Malformed",
        "rice-padding",
        broken(patch(good, 19, "B", 1)),
    )
    section = patch(good, 6, "B", good[6] | 0x1F)
    yield bad(
        "rice-parameter-first",
        "The first of 17 parameters is 31.",
        "Malformed",
        "rice-parameter",
        broken(section),
    )
    section = patch(good, 4, "H", words + 1)
    yield bad(
        "rice-unary-word",
        "A span ends a word too late.",
        "Malformed",
        "rice-unary",
        broken(section + bytes(4)),
    )
    kind, code = "Invalid", "rice-base"
    (base,) = struct.unpack_from("<I", good)
    for id, about, wrong in (
        ("0", "The second span starts again from 0.", 0),
        ("less", "The base is one too small.", base - 1),
        ("more", "The base is one too great.", base + 1),
    ):
        yield bad(f"rice-base-{id}", about, kind, code, broken(patch(good, 0, "I", wrong)))
    kind, code = "Invalid", "index-range"
    yield bad(
        "rice-base-d", "A base that puts an index at d.", kind, code, broken(patch(good, 0, "I", d - 1))
    )
    yield bad("rice-base-most", "A base of 2^32 - 1.", kind, code, broken(patch(good, 0, "I", 2**32 - 1)))
    third = write_rice(range(1, 8194))
    section = patch(patch(third, 0, "I", 0), -1 % len(third), "B", 0x80)
    about = "A wrong base of the second span, a wrong unary part of the third: the bases come last."
    yield bad("rice-base-last", about, "Malformed", "rice-unary", of_index(3, 8193, d, section))

"""Borders that a change of one comparison or constant of the reference decoder or the C decoder moves.

Mutants that no other vector noticed led to these cases (tests/fuzz/MUTANTS.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import ErrorBounded, Record, Row, assemble
from formats.reference.bits import pack_stream
from formats.reference.floats import BY_NAME
from formats.reference.index.bloom import HEADER, P1, P2, RIGHTMOST
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.index.bloom import write_filter
from formats.reference.writing.index.context import write_context
from formats.reference.writing.index.elias_fano import EliasFano
from formats.reference.writing.index.rice import write_rice
from formats.vector_cases.case import Case, bad, valid, values_of
from formats.vector_cases.parts import of_index, of_values

FLOAT32, FLOAT16, BFLOAT16 = 1, 2, 3
NAMES = 2
LATE = (
    *(4679, 4709, 4759, 4766, 4835, 4846, 4890, 4930, 4988, 5042),
    *(5053, 5075, 5114, 5194, 5268, 5293, 5294, 5326, 5358, 5370),
)
"""Of 5376 elements. The width is a multiple of 2^16 after 73 empty blocks."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _index()
    yield from _binned()
    yield from _bloom()
    yield from _spans()
    yield from _values()
    about = "Three bytes, which are no number of names."
    block = write_extension_block([Record(NAMES, 0, b"\xff" * 3)])
    data = assemble([Row(0, 0, 1, 0, FLOAT32, 1, 1)], block)
    yield bad("names-record-three-bytes", about, "Malformed", "names-record", data)


def _index() -> Iterator[Case]:
    about = "The width of the interval is exactly 2^24 after the last bit, which takes no further byte."
    data = of_index(11, 1, 128, write_context([4], 128, 0))
    yield valid("context-foreign-width-least", about, data)
    about = "A width that is one less at the start tells at the first 1, after 73 empty blocks."
    data = of_index(11, len(LATE), 5376, write_context(LATE, 5376, 0))
    yield valid("context-foreign-width-most", about, data)
    about = "A grain of 200, in two bytes."
    data = of_index(10, 200, 600, b"\x40\xc8\0" + bytes(2))
    yield bad("structured-grain-200-wide", about, "Malformed", "structured-grain", data)
    about = "The number of runs takes all eight bits of the body, and is too large."
    data = of_index(10, 200, 400, b"\1\xff")
    yield bad("structured-runs-alone", about, "Malformed", "structured-runs", data)
    about = "The section has zeros to its end, and few bytes follow it."
    row = Row(0, 0, 5000, 1, FLOAT32, 10, 15, bytes(136), bytes(4))
    yield bad("structured-length-zeros", about, "Malformed", "structured-length", assemble([row]))


def _binned() -> Iterator[Case]:
    kind, code = "Malformed", "binned-length"
    about = "The record of an empty bin after position 0 of a bin."
    data = of_index(8, 2, 12, struct.pack("<H", 4) + pack_stream([0, 4 | 8, 1 | 8], 4, 1))
    yield bad("binned-empty-after-first", about, "Malformed", "binned-empty", data)
    about = "The records end before the last bit of the record of a bin of 200."
    yield bad("binned-length-bit", about, kind, code, of_index(8, 1, 200, b"\xc8\0\5"))
    about = "A byte of zeros after one record of 8 bits."
    yield bad("binned-length-zero", about, kind, code, of_index(8, 1, 100, b"\x64\0\x85\0"))


def _bloom() -> Iterator[Case]:
    section = struct.pack(HEADER, 0, 2, 9, RIGHTMOST, 0) + write_filter([5, 700], 9, 2)
    about = "1000 elements are 125 bytes: the work is 125 · 9."
    yield valid("bloom-work-bytes-least", about, of_index(9, 2, 1000, section), limits={"max_work": 125 * 9})
    about = "p1: one of the draws selects another element if its last shift is 16."
    section = struct.pack(HEADER, 2344, 30, 1, P1, 0) + b"\xff" * 8
    yield valid("bloom-foreign-draw-shift", about, of_index(9, 30, 60, section))
    about = "p2: r elements are certain, so the doubtful lists, of which there are too many, do not matter."
    section = struct.pack(HEADER, 0, 778, 32, P2, 0) + b"\xff" * 1992
    yield valid("bloom-foreign-certain", about, of_index(9, 778, 2006, section))


def _spans() -> Iterator[Case]:
    about = "The base is less than the number of indices, and the section ends with it."
    data = of_index(7, 4097, 5000, struct.pack("<I", 4095))
    yield bad("elias-fano-base-alone", about, "Invalid", "elias-fano-base", data)
    about = "Keys of one symbol without bits in two spans: all are alike."
    yield bad("huffman-keys-alike", about, "Invalid", "index-order", of_index(6, 4097, 5000, b"\4\7\0\0\0"))
    about = "In two spans, the first of 17 parameters is 28, and the section ends with them."
    section = bytes(6) + pack_stream([28, *[0] * 16], 5, 1)
    data = of_index(3, 4097, 5000, section + bytes(-len(section) % 4))
    yield bad("rice-parameter-spans", about, "Malformed", "rice-parameter", data)
    about = "Two words of high bits: bytes 2 to 5 are zero, and the last word is not."
    yield valid(
        "elias-fano-two-words", about, of_index(7, 11, 44, EliasFano().write_section(range(33, 44), 44))
    )
    about = "The first span is dense. The low bits of the second take more words than all codes of the first."
    section = write_rice(range(4352), [0] * 16 + [24])
    yield valid("rice-foreign-wide-second", about, of_index(3, 4352, 5000, section))
    about = "Six blocks: their parameters take 30 bits, and those of a seventh would take another word."
    yield valid("rice-six-blocks", about, of_index(3, 1536, 1600, write_rice(range(1536))))
    head = struct.pack("<BBH2f", 1, 1, 0, 1.0, 2.0) + b"\x11"
    about = "The first span takes a byte more than there are."
    section = head + struct.pack("<H", 3) + bytes(2)
    yield bad("sketchml-length-span", about, "Malformed", "sketchml-length", of_values(13, 1, 4097, section))
    about = "Three spans of codes of one bit."
    section = head + struct.pack("<2H", 512, 512) + bytes(512 + 512 + 1)
    yield valid("sketchml-foreign-three-spans", about, of_values(13, FLOAT16, 8193, section))


def _values() -> Iterator[Case]:
    about = "The scale is a unit of binary32 above the middle of two bfloat16."
    section = struct.pack("<I", 0x3F808001) + bytes([242])
    yield valid("terngrad-foreign-above-half", about, of_values(11, BFLOAT16, 5, section))
    about = "Codes of one bit, for two buckets."
    section = struct.pack("<BBH2f", 0, 1, 0, 1.0, 2.0) + b"\6" + bytes(3)
    yield valid("sketchml-foreign-packed-two", about, of_values(13, FLOAT32, 3, section))
    about = "Eleven codes of three bits reach into the second word, whose last bit is set."
    section = struct.pack("<BBHIf", 3, 0, 0, 16, 1.0) + pack_stream([3] * 11, 3, 4)
    section = section[:-1] + b"\x80"
    yield bad("qsgd-padding-word", about, "Malformed", "qsgd-padding", of_values(4, FLOAT32, 11, section))
    about = "Signs that alternate for long: a repeated one has the least frequency, 32."
    values = values_of([1.0, -1.0] * 150, "float16")
    section = ErrorBounded(step=0.75).write_section(values, BY_NAME["float16"], 0)
    assert section[0]
    yield valid("error-bounded-signs-alternate", about, of_values(14, FLOAT16, 300, section))

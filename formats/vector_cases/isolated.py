"""Checks that no earlier vector showed alone, and requests for one tensor without a name.

A reader without one of these checks passes all vectors of the lists 1.0 and 1.0.1. Each case here breaks one
rule only: such a reader accepts it, or refuses it with another code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats.conformance import One
from formats.reference import Bloom, Qsgd, Record, Row, Spectrum, Tensor, assemble, reseal, write
from formats.reference.floats import FLOAT32
from formats.reference.table import CHUNK
from formats.reference.value.error_bounded_model import BINS, NONE, STATE, frequencies
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.index.structured import pack_bits, write_stream
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.transform.coefficients import write_lengths
from formats.reference.writing.value.error_bounded import push
from formats.vector_cases.case import Case, bad, patch, sparse, valid, values_for, values_of
from formats.vector_cases.curves import POLY, curve_row, raw_section
from formats.vector_cases.parts import of_index, of_values


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _padding()
    yield from _reserved()
    yield from _fused()
    yield from _index()
    yield from _rounding()
    yield _sign()
    about = "Seventeen bytes, which end before the first block, and step is 0: the number is checked first."
    data = of_values(14, 1, 1, struct.pack("<B3fI", 1, 1.0, 0.0, 0.5, 0))
    yield bad("error-bounded-number-17", about, "Invalid", "error-bounded-number", data)
    yield from _one()


def _padding() -> Iterator[Case]:
    good = assemble([curve_row(POLY, 3, raw_section(3))])
    for id, at, about in (
        ("padding-map", len(good) - 1, "Padding after the map: its last byte."),
        ("padding-map-next", len(good) - 7, "Padding after the map: the byte after it."),
    ):
        yield bad(id, about, "Malformed", "padding", reseal(patch(good, at, "B", 1)))
    row = curve_row(POLY, 3, raw_section(3))
    plain = Row(1, 0, 2, 2, 1, 1, 1, b"", values_for(2, "float32"))
    data = assemble([row, plain])
    at = len(data) - 16
    assert data[at : at + 1] != b"\0"
    about = "Padding after the map of the first of two entries."
    yield bad("padding-map-first", about, "Malformed", "padding", reseal(patch(data, at + 7, "B", 0x80)))


def _reserved() -> Iterator[Case]:
    """Yield containers with one bit of a reserved field, in the bytes that no earlier vector sets."""
    head = struct.pack("<BBHHHI", 4, 2, 1, 7, 7, 500)
    section = head + struct.pack("<I", 0xE8710)
    about = "The low byte of the reserved field is 1."
    kind, code = "Malformed", "offset-float-parameter"
    yield bad("offset-float-parameter-reserved-low", about, kind, code, of_values(8, 1, 5, section))
    section = patch(Qsgd().write_section(values_for(2, "float32"), FLOAT32, 0), 2, "H", 0x100)
    about = "The high byte of the reserved field is 1."
    data = of_values(4, 1, 2, section)
    yield bad("qsgd-reserved-high", about, kind, "qsgd-parameter", data)
    good = Bloom("p0", 0.01).approximate([7, 9], 19, 0)[0]
    about = "The highest bit of the reserved field is set."
    data = of_index(9, 2, 19, patch(good, 14, "H", 0x8000))
    yield bad("bloom-reserved-high", about, kind, "bloom-header", data)
    rows = [Row(0, 0, 6, 0, 1, 1, 1)]
    about = "The low byte of a row's reserved bytes is 1."
    block = write_extension_block([Record(3, 0, patch(write_shape(0, (2, 3)), 6, "H", 1))])
    yield bad("shapes-record-reserved-low", about, kind, "shapes-record", assemble(rows, block))
    about = "The highest bit of the reserved word is set."
    block = write_extension_block([Record(1, 1, patch(write_fused([[(0, 1), (1, 5)]]), 4, "I", 1 << 31))])
    yield bad("fused-record-reserved-high", about, kind, "fused-record", assemble(rows, block))
    block = write_extension_block([Record(4, 1, patch(write_lengths([(0, 6)]), 4, "I", 1 << 31))])
    data = assemble([Row(0, 0, 6, 0, 0x21, 1, 1)], block)
    yield bad("transform-record-reserved-high", about, kind, "transform-record", data)


def _fused() -> Iterator[Case]:
    groups = [[(0, 1), (1, 2)], [(0, 1), (2, 2)]]
    block = write_extension_block([Record(1, 1, write_fused(groups))])
    about = "Two groups of one entry: their other members differ, and each group adds up to d."
    yield bad("fused-groups-equal", about, "Invalid", "fused", assemble([Row(0, 0, 3, 0, 1, 1, 1)], block))


def _index() -> Iterator[Case]:
    section = bytes([0b1_01_11_0_00, 20, 15])
    about = "10 elements, and a first and a last part of 15 each: -1 grains of 20 are listed."
    yield bad(
        "structured-count-negative", about, "Invalid", "structured-count", of_index(10, 10, 70, section)
    )
    section = bytes([0b1_01_11_1_00, 20, 15])
    about = "The same with 60 of 70 elements and complement."
    data = of_index(10, 60, 70, section)
    yield bad("structured-count-negative-complement", about, "Invalid", "structured-count", data)
    bits = write_stream(range(5), 6) + "001" + "0" * 5
    assert len(bits) == 48
    about = "The body ends one bit before the last gap, whose other bits exceed the bound already."
    data = of_index(10, 6, 100, b"\0" + pack_bits(bits))
    yield bad("structured-gaps-low-range", about, "Malformed", "structured-length", data)
    good = bytes([0, 0, 0])
    about = "Element 0 of 2: all bits are present, so the code is 0."
    yield valid("context-end-zero", about, of_index(11, 1, 2, good))
    about = "The same with the code 1, so that value is exactly 2^24 after the walk."
    yield bad("context-end-least", about, "Malformed", "context-end", of_index(11, 1, 2, bytes([0, 0, 1])))


def _rounding() -> Iterator[Case]:
    """Yield tensors of one coefficient, so that rounding to 16 bits is exact in spite of the tolerance."""
    numbers = {
        "float16": (1 + 0.75 / 2**10, -1 - 1.25 / 2**10, 65_519.0, 70_000.0, -1e30, 1.25 * 2.0**-24),
        "bfloat16": (1 + 0.75 / 2**7, -1 - 1.25 / 2**7, 3.4e38, -3.4e38, 1.25 * 2.0**-126, 1.75 * 2.0**-133),
    }
    wanted = {
        "float16": (0x3C01, 0xBC01, 0x7BFF, 0x7BFF, 0xFBFF, 1),
        "bfloat16": (0x3F81, 0xBF81, 0x7F7F, 0xFF7F, 0x00A0, 2),
    }
    for domain, name in ((1, "rfft"), (2, "dct")):
        for dtype, given in numbers.items():
            tensors = [
                Spectrum(key, dtype, (1,), [0], values_of([x, 0.0][: 3 - domain], "float32"), domain)
                for key, x in zip("abcdef", given, strict=True)
            ]
            about = f"Elements next to the middle of two {dtype} numbers, and beyond the largest: clamped."
            case = valid(f"{name}-rounded-{dtype}", about, write(tensors))
            found = "".join(t["values"] for t in case.fields["decoded"]["tensors"])
            assert found == b"".join(struct.pack("<H", bits) for bits in wanted[dtype]).hex()
            yield case


def _sign() -> Case:
    """Return one negative value of error-bounded whose sign has the slot c, the first of the other sign."""
    f = frequencies([1, *[NONE] * BINS])
    c = 2048
    states, words = [STATE], list[int]()
    push(states, [(4096 - c, c)], words)
    assert states[0] % 4096 == c
    push(states, [(f[0], 0)], words)
    head = struct.pack("<B3fI", 1, 1.0, 1.0, 0.5, 1) + bytes([1, NONE, 1])
    section = head + struct.pack(f"<BII{len(words)}H", 0, len(words), *states, *words)
    about = "A sign at the slot c: it is not the last one."
    case = valid("error-bounded-sign-border", about, of_values(14, 1, 1, section))
    assert case.fields["decoded"]["tensors"][0]["values"] == struct.pack("<f", -1.5).hex()
    return case


def _one() -> Iterator[Case]:
    """Yield containers that are read by a caller that asks for one tensor, without a name."""
    kind, code = "SchemaMismatch", "schema-count"
    anything = One(None)
    one = Tensor("w", "float32", (2, 3), [1, 4], values_for(2, "float32"))
    named, bare = write([one]), write([one], names=False)
    whole = One(((2, 3), "float32"))
    about = "One tensor is asked for, and its name is not compared."
    yield valid("one", about, named, one=anything)
    yield valid("one-schema", "The same, and its shape and element type are given.", named, one=whole)
    yield valid("one-bare", "One tensor without a name is asked for, and there is one.", bare, one=whole)
    two = [sparse("a", 10, [2, 5]), sparse("b", 10, [2], "float16")]
    ten = One(((10,), "float32"))
    for id, about, data, wanted in (
        ("two", "One tensor is asked for, and there are two.", write(two), anything),
        ("two-bare", "The same without names.", write(two, names=False), anything),
        ("none", "One tensor is asked for, and there is none.", write([]), anything),
        ("fused", "One entry, which holds two tensors.", _fused_pair(), anything),
        ("schema", "One tensor of 10 elements is asked for, and the first of two fits.", write(two), ten),
        ("shape", "The number is checked before the shape.", write(two), whole),
    ):
        yield bad(f"schema-count-{id}", about, kind, code, data, one=wanted)
    damaged = write(two)[:-1] + b"\1"
    about = "The number is checked before payloads."
    yield bad("schema-count-before-payload", about, kind, code, damaged, one=anything)
    block = write_extension_block([Record(5, 0, b"")])
    rows = [Row(0, 0, 1, 0, 1, 1, 1), Row(1, 0, 1, 0, 1, 1, 1)]
    about = "The tag is checked before the number of tensors."
    yield bad("schema-count-last", about, "Malformed", "tag-record", assemble(rows, block), one=anything)
    names = [Record(2, 0, write_names([b"a"])), Record(3, 0, write_shape(0, (1, 3)))]
    data = assemble([Row(0, 0, 4, 0, 1, 1, 1)], write_extension_block(names))
    about = "Shapes are checked before the schema of the one tensor."
    yield bad("schema-one-shapes-first", about, "Invalid", "shapes", data, one=whole)
    for id, about, wanted, other in (
        ("shape", "One tensor of another shape is asked for.", One(((3, 2), "float32")), "schema-shape"),
        ("dtype", "One tensor of another type is asked for.", One(((2, 3), "float16")), "schema-dtype"),
        ("both", "Shape and type differ: the shape first.", One(((6,), "float16")), "schema-shape"),
    ):
        yield bad(f"schema-one-{id}", about, kind, other, named, one=wanted)
    full = assemble([Row(0, 0, CHUNK, CHUNK, 1, 1, 1, value_len=4, value_section=bytes(4))])
    about = "A caller that asks for one tensor without its shape has no schema: the expansion is limited."
    yield bad("max-expansion-one", about, "LimitExceeded", "max-expansion", full, one=anything)
    about = "One tensor's shape and type are a schema: 2^24 values in 4 bytes."
    wanted = One(((CHUNK,), "float32"))
    yield bad("max-expansion-one-schema", about, "Malformed", "raw-length", full, one=wanted)


def _fused_pair() -> bytes:
    pair: Sequence[Tensor] = [sparse("a", 3, [1]), sparse("b", 5, [0, 4], first=1)]
    return write(pair, groups=[("a", "b")])

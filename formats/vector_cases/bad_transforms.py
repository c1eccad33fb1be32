"""Invalid containers of coefficients: the transform record, and other rules for such tensors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from formats.reference import Raw, Record, Rice, Row, Schema, assemble, reseal, write
from formats.reference.table import CHUNK
from formats.reference.transform.coefficients import COMPONENTS, DCT, RFFT, coefficient_count
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_names, write_shape
from formats.reference.writing.transform.coefficients import write_lengths
from formats.vector_cases.bad_container import DTYPE, R
from formats.vector_cases.case import Case, bad, patch, sparse, values_for
from formats.vector_cases.transforms import FUSED, NAMED, NAMES, SHAPES, TRANSFORM, spectrum


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _limits()
    yield from _record()
    yield from _lengths()
    yield from _rules()
    yield from _values()


def _limits() -> Iterator[Case]:
    kind = "LimitExceeded"
    for domain, name, numbers in ((RFFT, "rfft", 26), (DCT, "dct", 24)):
        one = spectrum(domain, 24, [3])
        data = write([one], names=False)
        for limit in ("elements", "dense"):
            about = f"{numbers - 1} elements are allowed."
            limits = {f"max_{limit}": numbers - 1}
            yield bad(f"{name}-max-{limit}", about, kind, f"max-{limit}", data, limits=limits)
        n = 1_000_000
        data = write([spectrum(domain, n, [3])], names=False)
        about = "A million elements from one coefficient."
        yield bad(f"{name}-max-expansion", about, kind, "max-expansion", data)
        many = [spectrum(domain, CHUNK, [3], name=f"{key:02}") for key in range(17)]
        about = "17 tensors of 2^24 elements from a coefficient each; the sizes come before the expansion."
        yield bad(f"{name}-max-elements-default", about, kind, "max-elements", write(many, names=False))


def _entries(*entries: tuple[int, int], records: Sequence[Record] = ()) -> bytes:
    """Return a container with these records, and empty entries of (domain, d) with the keys 0, 1, …."""
    rows = [Row(key, 0, d, 0, domain << 4 | 1, 1, 1) for key, (domain, d) in enumerate(entries)]
    return assemble(rows, write_extension_block(records) if records else b"")


def _record() -> Iterator[Case]:
    kind, code = "Malformed", "transform-record"
    good = write_lengths([(0, 16)])
    for id, about, body in (
        ("empty", "No row.", b""),
        ("cut", "A row of 15 bytes.", good[:-1]),
        ("surplus", "A row and a half.", good + bytes(8)),
        ("reserved", "The reserved word is 1.", patch(good, 4, "I", 1)),
    ):
        data = _entries((RFFT, 9), records=[Record(TRANSFORM, 1, body)])
        yield bad(f"transform-record-{id}", about, kind, code, data)
    data = _entries((RFFT, 9), records=[Record(TRANSFORM, 0, good)])
    about = "A transform record that is not critical."
    yield bad("extension-record-flags-transform", about, "Malformed", "extension-record", data)
    data = _entries((0, 9), records=[Record(TRANSFORM, 0, good)])
    about = "A transform record that is not critical, without transformed tensors: readers know its flags."
    yield bad("extension-record-flags-transform-plain", about, "Malformed", "extension-record", data)
    data = _entries((RFFT, 9), records=[Record(TRANSFORM, 1, b""), Record(NAMES, 0, write_names([b"a"]))])
    yield bad("extension-order-transform", "The names after it.", "Invalid", "extension-order", data)
    two = [Record(NAMES, 0, bytes(4)), Record(TRANSFORM, 1, bytes(8))]
    about = "A broken transform record comes before broken names."
    yield bad("transform-record-first", about, kind, code, _entries((RFFT, 9), records=two))


def _lengths() -> Iterator[Case]:
    kind, code = "Invalid", "transform"
    yield bad("transform-missing", "No record.", kind, code, _entries((RFFT, 9)))
    for id, about, entries, rows in (
        ("plain", "A row of a plain tensor.", [(0, 16)], [(0, 16)]),
        (
            "plain-too",
            "A row of a plain tensor beside one that is not.",
            [(0, 9), (RFFT, 9)],
            [(0, 9), (1, 16)],
        ),
        ("row-missing", "No row of the second tensor.", [(RFFT, 9), (DCT, 9)], [(0, 16)]),
        ("row-surplus", "A row of a key that is none.", [(RFFT, 9)], [(0, 16), (1, 16)]),
        ("no-tensors", "A row where there is no tensor.", [], [(0, 0)]),
        ("order", "Rows not ascending.", [(RFFT, 9), (DCT, 16)], [(1, 16), (0, 16)]),
        ("twice", "A row twice.", [(DCT, 16)], [(0, 16), (0, 16)]),
        ("rfft-fewer", "15 elements have 8 bins, not 9.", [(RFFT, 9)], [(0, 15)]),
        ("rfft-more", "17 elements have 10 bins, not 9.", [(RFFT, 9)], [(0, 17)]),
        ("rfft-half", "As many elements as bins.", [(RFFT, 9)], [(0, 9)]),
        (
            "rfft-rough",
            "22 elements have the 13 bins of 24, not 12.",
            [(RFFT, 12)],
            [(0, 22)],
        ),
        ("dct-fewer", "8 elements have 8 coefficients, not 9.", [(DCT, 9)], [(0, 8)]),
        ("dct-more", "10 elements have 10 coefficients, not 9.", [(DCT, 9)], [(0, 10)]),
        ("dct-rough", "7 elements have 8 coefficients, not 7.", [(DCT, 7)], [(0, 7)]),
        ("most", "2^64 - 1 elements.", [(DCT, 16)], [(0, 2**64 - 1)]),
        ("wrapping", "16 elements modulo 2^32.", [(DCT, 16)], [(0, 2**32 + 16)]),
        ("size-0", "Coefficients of no elements.", [(DCT, 1)], [(0, 0)]),
        ("d0", "An element without coefficients.", [(RFFT, 0)], [(0, 1)]),
    ):
        data = _entries(*entries, records=[Record(TRANSFORM, 1, write_lengths(rows))])
        yield bad(f"transform-{id}", about, kind, code, data)
    row = Row(1, 0, 9, 0, 0x11, 1, 1)
    yield bad("transform-after-keys", "Key 1 alone comes first.", "Invalid", "keys", assemble([row]))


def _rules() -> Iterator[Case]:
    kind = "Invalid"
    record = Record(TRANSFORM, 1, write_lengths([(0, 16)]))
    data = _entries((RFFT, 9), records=[Record(FUSED, 1, write_fused([[(0, 4), (1, 5)]])), record])
    yield bad("fused-transformed", "Coefficients are not fused.", kind, "fused", data)
    data = _entries((RFFT, 9), records=[Record(SHAPES, 0, write_shape(0, (3, 3))), record])
    yield bad("shapes-transformed", "A shape of the bins, not of the elements.", kind, "shapes", data)
    for id, about, rows in (
        ("rfft-d", "d is 2^23 + 1 in domain 1.", [(CHUNK // 2 + 1, 0, 0x11)]),
        ("rfft-whole", "A first chunk of 2^24 bins.", [(CHUNK, 0, 0x11), (1, CHUNK, 0x11)]),
        (
            "dct-half",
            "A first chunk of 2^23 real coefficients.",
            [(CHUNK // 2, 0, 0x21), (1, CHUNK // 2, 0x21)],
        ),
        ("domains", "Chunks of different domains.", [(CHUNK, 0, 0x01), (2, CHUNK, 0x21)]),
        ("empty-last-rfft", "A last chunk without bins.", [(CHUNK // 2, 0, 0x11), (0, CHUNK // 2, 0x11)]),
    ):
        data = assemble([Row(0, base, d, 0, dtype, 1, 1) for d, base, dtype in rows])
        yield bad(f"chunks-{id}", about, kind, "chunks", data)
    one = write([spectrum(RFFT, 16, [3], name="w")])
    kind = "SchemaMismatch"
    schemas: tuple[tuple[str, str, Schema], ...] = (
        ("shape", "A schema of the bins.", {"w": ((9,), "float32")}),
        ("dtype", "Another type; that of the coefficients is binary32.", {"w": ((16,), "float16")}),
    )
    for id, about, schema in schemas:
        yield bad(f"schema-{id}-transformed", about, kind, f"schema-{id}", one, schema=schema)
    for domain, name in NAMED.items():
        d = coefficient_count(domain, 16)
        section = values_for(d if domain == RFFT else 2 * d, "float32")
        row = Row(0, 0, d, d, domain << 4 | 1, 1, 1, value_section=section)
        data = assemble([row], write_extension_block([record]))
        about = f"{len(section) // 4} numbers of {d} coefficients."
        yield bad(f"{name}-raw-length", about, "Malformed", "raw-length", data)
        row = Row(0, 0, d, d, domain << 4 | 2, 1, 1, value_section=bytes(2 * d * COMPONENTS[domain]))
        data = assemble([row], write_extension_block([record]))
        about = "Coefficients of 16 bits, as the elements."
        yield bad(f"{name}-raw-length-16", about, "Malformed", "raw-length", data)
    yield bad("rfft-count", "r = 10 of 9 bins.", "Invalid", "count", reseal(patch(one, R, "I", 10)))
    about = "The coefficients of another transform: 9 are too few."
    yield bad("transform-other", about, "Invalid", "transform", reseal(patch(one, DTYPE, "B", 0x21)))
    about = "A record, and the entry called plain."
    yield bad("transform-called-plain", about, "Invalid", "transform", reseal(patch(one, DTYPE, "B", 1)))


def _values() -> Iterator[Case]:
    kind, code = "Invalid", "transform-value"
    nan, infinity = math.nan, math.inf
    for domain, name in NAMED.items():
        width = COMPONENTS[domain]
        for id, number in (("nan", nan), ("infinity", infinity), ("minus-infinity", -infinity)):
            for dtype in ("float32", "float64"):
                numbers = [1.0] * (2 * width - 1) + [number]
                t = spectrum(domain, 16, [1, 5], dtype, numbers=numbers)
                about = f"A coefficient is {number}."
                yield bad(f"{name}-value-{id}-{dtype}", about, kind, code, write([t], names=False))
        for id, number in (("large", 2.0**1000 * (1 + 2.0**-52)), ("small", -(2.0**1000) * (1 + 2.0**-52))):
            t = spectrum(domain, 16, [1], "float64", numbers=[0.0] * (width - 1) + [number])
            about = "A magnitude just above 2^1000."
            yield bad(f"{name}-value-{id}", about, kind, code, write([t], names=False))
        t = spectrum(domain, 16, [1, 5], numbers=[nan] * (2 * width))
        about = "Coefficients are finite under any codec."
        data = write([t], Rice(), Raw("bfloat16"), names=False)
        yield bad(f"{name}-value-bfloat16", about, kind, code, data)
    t = spectrum(RFFT, 16, [0, 8], numbers=[1.0, nan, 1.0, 0.0])
    about = "A part that has no effect is checked, too."
    yield bad("rfft-value-ignored", about, kind, code, write([t], names=False))
    two = write([spectrum(DCT, 8, [1], numbers=[nan], name="a"), sparse("b", 4, [1])], names=False)
    about = "The first entry's coefficients come before the second entry's checksum."
    yield bad("dct-value-first", about, kind, code, patch(two, len(two) - 1, "B", 1))

"""Containers that exceed a reader's limits or do not match its schema, and damaged payloads.

Rows 25-27 and 42-46 of SPEC section 7.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Row, Tensor, assemble, reseal, write
from formats.reference.container import compute_head_checksum
from formats.reference.table import CHUNK
from formats.vector_cases.bad_container import CRC, one_entry
from formats.vector_cases.case import Case, bad, patch, sparse, values_for
from formats.vector_cases.containers import zeros


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _limits()
    yield from _schema()
    yield from _payload()


def _limits() -> Iterator[Case]:
    two = write([sparse("a", 10, [2, 5]), sparse("b", 10, [2])])
    kind = "LimitExceeded"
    yield bad(
        "max-elements",
        "Three elements present, two allowed.",
        kind,
        "max-elements",
        two,
        limits={"max_elements": 2},
    )
    rows = [Row(n, 0, CHUNK, CHUNK, 1, 1, 1, value_section=bytes(4)) for n in range(17)]
    yield bad(
        "max-elements-default", "17 entries of 2^24 elements present.", kind, "max-elements", assemble(rows)
    )
    yield bad("max-dense", "20 elements, 19 allowed.", kind, "max-dense", two, limits={"max_dense": 19})
    rows = [Row(0, n * CHUNK, CHUNK, 0, 1, 1, 1) for n in range(9)]
    yield bad(
        "max-dense-chunks",
        "A tensor of nine chunks.",
        kind,
        "max-dense",
        assemble(rows),
        limits={"max_dense": 2**27},
    )
    full = assemble([Row(0, 0, CHUNK, CHUNK, 1, 1, 1, value_section=bytes(4))])
    yield bad("max-expansion", "2^24 elements from 72 bytes.", kind, "max-expansion", full)
    few = assemble([Row(0, 0, 73, 73, 2, 1, 1, value_section=bytes(146))])
    limits = {"max_expansion": 0}
    yield bad(
        "max-expansion-limit",
        "No element is allowed without a schema.",
        kind,
        "max-expansion",
        few,
        limits=limits,
    )
    tight = assemble([Row(0, 0, 105, 105, 2, 1, 4, value_section=zeros(105))])
    about = "105 elements in 104 bytes, max_expansion = 1."
    yield bad("max-expansion-tight", about, kind, "max-expansion", tight, limits={"max_expansion": 1})
    schema = {"w": ((CHUNK,), "float32")}
    about = "A schema vouches for the sizes, not for the sections: 2^24 values in 4 bytes."
    yield bad("max-expansion-schema", about, "Malformed", "raw-length", full, schema=schema)


def _schema() -> Iterator[Case]:
    kind = "SchemaMismatch"
    two = [sparse("a", 10, [2, 5]), sparse("b", 10, [2], "float16")]
    named, bare = write(two), write(two, names=False)
    a: tuple[tuple[int, ...], str] = ((10,), "float32")
    b: tuple[tuple[int, ...], str] = ((10,), "float16")
    for id, about, data, schema in (
        ("other", "Another name.", named, {"a": a, "c": b}),
        ("missing", "A tensor is missing.", named, {"a": a, "b": b, "c": b}),
        ("surplus", "A tensor too many.", named, {"a": a}),
        ("empty", "No tensor is expected.", named, {}),
        ("number", "Without names, a tensor too many.", bare, {"a": a}),
        ("number-more", "Without names, a tensor is missing.", bare, {"a": a, "b": b, "c": b}),
        ("none", "A container without tensors.", write([]), {"a": a}),
    ):
        yield bad(f"schema-names-{id}", about, kind, "schema-names", data, schema=schema)
    shapes: tuple[tuple[str, tuple[int, ...]], ...] = (
        ("size", (11,)),
        ("0d", ()),
        ("2d", (2, 5)),
        ("ones", (10, 1)),
    )
    for id, shape in shapes:
        schema = {"a": (shape, "float32"), "b": b}
        yield bad(
            f"schema-shape-{id}", f"Shape {shape} is expected.", kind, "schema-shape", named, schema=schema
        )
    matrix = write([Tensor("w", "float32", (2, 3), [4], values_for(1, "float32"))])
    yield bad(
        "schema-shape-transposed",
        "The other way round.",
        kind,
        "schema-shape",
        matrix,
        schema={"w": ((3, 2), "float32")},
    )
    yield bad("schema-dtype", "float32 is expected.", kind, "schema-dtype", named, schema={"a": a, "b": a})
    schema = {"a": ((10,), "bfloat16"), "b": ((9,), "float16")}
    about = "All shapes are compared before any element type."
    yield bad("schema-shape-first", about, kind, "schema-shape", named, schema=schema)
    damaged = named[:-1] + b"\1"
    yield bad(
        "schema-before-payload",
        "A schema is checked before payloads.",
        kind,
        "schema-dtype",
        damaged,
        schema={"a": a, "b": a},
    )


def _payload() -> Iterator[Case]:
    one = one_entry()
    kind, code = "ChecksumMismatch", "entry-checksum"
    crc = struct.unpack_from("<I", one, CRC)[0] ^ 0x80000000
    wrong = patch(one, CRC, "I", crc)
    wrong = patch(wrong, 12, "I", compute_head_checksum(wrong, 64))
    yield bad("entry-checksum", "The checksum itself differs.", kind, code, wrong)
    yield bad("entry-checksum-index", "A bit of the indices.", kind, code, patch(one, 64, "B", 3))
    yield bad(
        "entry-checksum-value", "The last bit of the values.", kind, code, one[:-1] + bytes([one[-1] ^ 0x80])
    )
    yield bad("entry-checksum-padding", "A bit of the padding.", kind, code, patch(one, 71, "B", 1))
    two = write([sparse("a", 10, [2, 5]), sparse("b", 10, [2])])
    data = two[:-1] + b"\1"
    yield bad("entry-checksum-second", "The second entry is damaged.", kind, code, data)
    data = reseal(patch(one, 68, "B", 1))
    yield bad("padding-index", "Padding after the indices.", "Malformed", "padding", data)
    three = write([sparse("0", 10, [2, 5, 7])], names=False)
    yield bad(
        "padding-value", "Padding after the values.", "Malformed", "padding", reseal(three[:-1] + b"\x80")
    )
    data = reseal(patch(patch(one, 64, "HH", 5, 5), 68, "B", 1))
    yield bad("padding-first", "Padding is checked before the codecs.", "Malformed", "padding", data)
    swapped = patch(two, len(two) - 32, "H", 9)  # the first entry's indices: 9, 5
    resealed = reseal(swapped)
    about = "Entries are checked one after the other: the first one's codec before the second one's checksum."
    yield bad("entry-by-entry", about, "Invalid", "index-order", resealed[:-1] + b"\1")

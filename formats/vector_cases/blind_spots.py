"""Containers on which only a reader with a certain mistake fails; all other vectors leave it unnoticed.

Independent implementers made the mistakes, or might have made them. The ``about`` of a case has its mistake.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Record, Row, Schema, assemble, reseal, write
from formats.reference.annotations import CONTAINER
from formats.reference.element_types import IN_RECORD, RECORD_TYPES, write_types
from formats.reference.extension import CRITICAL, META, NAMES, SHAPES, TYPES
from formats.reference.table import CHUNK
from formats.reference.transform.coefficients import DCT, RFFT
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.patch import draft_patch
from formats.reference.writing.records import write_names, write_shape
from formats.vector_cases.annotations import MINOR, digest, meta
from formats.vector_cases.case import Case, bad, exact, patch, sparse, valid
from formats.vector_cases.patches import accepted, tensor

MOST_ROWS = 65_536
"""Most rows of metadata."""
PROTOTYPE = ["__proto__", "constructor", "hasOwnProperty", "toString"]
"""Names that every object of JavaScript has."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _prefix()
    yield from _digest_of_types()
    yield from _rows_of_metadata()
    yield from _large_integers()
    yield from _stored_coefficients()
    yield from _many_stored()
    yield from _names()
    yield from _patches()


def _prefix() -> Iterator[Case]:
    """Yield a length that is right in its low 32 bits."""
    data = write([sparse("w", 4, [1])])
    long = reseal(patch(data, 16, "Q", 2**32 + len(data)))
    about = "total_len has 64 bits: it is 2^32 more than the bytes that are present."
    yield bad("max-bytes-high", about, "LimitExceeded", "max-bytes", long)
    about = "total_len is 2^32 more than the bytes that are present, which max_bytes allows."
    yield bad("total-length-high", about, "Truncated", "container", long, limits={"max_bytes": 2**40})


def _digest_of_types() -> Iterator[Case]:
    """Yield a digest of every type of section 3.6: its own number is hashed, not 14."""
    rows = [Row(key, 0, 2, 0, IN_RECORD, 1, 1) for key in range(len(RECORD_TYPES))]
    types = Record(TYPES, CRITICAL, write_types([(key, t.number) for key, t in enumerate(RECORD_TYPES)]))
    schema: Schema = {f"{key:02}": ((2,), t.name) for key, t in enumerate(RECORD_TYPES)}
    data = assemble(rows, write_extension_block([types, digest(schema)]), minor=MINOR)
    about = "A digest has the numbers of the record's types, not 14."
    yield valid("schema-record-types", about, data, schema=schema)


def _rows_of_metadata() -> Iterator[Case]:
    """Yield the most rows and one more. All are equal, so that both are refused, for different reasons."""
    for id, about, kind, code, count in (
        ("meta-rows", "65,536 rows are allowed; these do not ascend.", "Invalid", "meta", MOST_ROWS),
        ("meta-record-rows", "65,537 rows, all present.", "Malformed", "meta-record", MOST_ROWS + 1),
    ):
        body = struct.pack("<I", count) + struct.pack("<III", CONTAINER, 1, 0) * count + b"a" * count
        block = write_extension_block([Record(META, 0, body)])
        yield bad(id, about, kind, code, assemble([Row(0, 0, 4, 0, 1, 1, 1)], block, minor=MINOR))


def _large_integers() -> Iterator[Case]:
    """Yield dimensions that the text form writes as a number, and as a string (spec/text.md)."""
    shapes = write_shape(0, (0, 2**53)) + write_shape(1, (2**53 + 2, 0)) + write_shape(2, (0, 2**56))
    block = write_extension_block([Record(SHAPES, 0, shapes)])
    data = assemble([Row(key, 0, 0, 0, 1, 1, 1) for key in range(3)], block)
    yield valid("shape-2p53", "In a text form, 2^53 is a number, and larger integers are strings.", data)


def _stored_coefficients() -> Iterator[Case]:
    """Yield tensors of two chunks, one without coefficients: both count as stored.

    There is no transform record. A reader that counts fewer elements refuses them by that row, before it
    inverts a transform.
    """
    for domain, name in ((RFFT, "rfft"), (DCT, "dct")):
        most = CHUNK // (2 if domain == RFFT else 1)
        for id, about, first in (
            ("first", "Chunks count as stored if any has a coefficient; here, the second has one.", 0),
            ("last", "Chunks count as stored if any has a coefficient; here, the first has one.", 1),
        ):
            rows = [_chunk(domain, 0, most, first), _chunk(domain, most, 9, 1 - first)]
            limits = {"max_elements": CHUNK + (17 if domain == RFFT else 8)}
            yield bad(
                f"{name}-chunks-{id}-stored",
                about,
                "LimitExceeded",
                "max-elements",
                assemble(rows),
                limits=limits,
            )


def _many_stored() -> Iterator[Case]:
    """Yield more stored elements than 32 bits can count: one coefficient in 2^32 + 9."""
    rows = [_chunk(DCT, n * CHUNK, CHUNK if n < 256 else 9, int(n == 256)) for n in range(257)]
    about = "2^32 + 9 elements are stored, which are 9 in 32 bits."
    yield bad("dct-max-elements-wrapping", about, "LimitExceeded", "max-elements", assemble(rows))


def _chunk(domain: int, base: int, d: int, r: int) -> Row:
    """Return a chunk of coefficients of which the first r are present."""
    width = 2 if d <= 65_536 else 4
    values = bytes(4 * r * (2 if domain == RFFT else 1))
    return Row(0, base, d, r, domain << 4 | 1, 1, 1, bytes(width * r), values)


def _names() -> Iterator[Case]:
    """Yield names and texts that a decoder of UTF-8, or an object of JavaScript, may change or lose."""
    for id, about, names in (
        ("mark", "U+FEFF at the beginning of a name is a part of it.", ["", "\ufeff", "\ufeffa", "a"]),
        (
            "composed",
            "Names are not normalized: é as two characters, and as one.",
            ["e\u0301", "é"],
        ),
        ("objects", "Names that objects of JavaScript have, or order as numbers.", ["10", "9", *PROTOTYPE]),
    ):
        tensors = [sparse(name, 3, [n % 3], first=n) for n, name in enumerate(sorted(names, key=str.encode))]
        yield exact(f"names-{id}", about, tensors, many=True)
    body = write_names([b"n" * 2**15] * 2)
    data = assemble(
        [Row(key, 0, 4, 0, 1, 1, 1) for key in (0, 1)], write_extension_block([Record(NAMES, 0, body)])
    )
    yield bad("names-signed", "A name of 32,768 bytes, twice.", "Invalid", "names", data)
    rows = [(CONTAINER, name.encode(), b"\xef\xbb\xbf") for name in sorted([*PROTOTYPE, "\ufeff", "e\u0301"])]
    one = [sparse("w", 4, [1])]
    about = "Names of metadata that objects of JavaScript have, and U+FEFF, which is a part of a text."
    yield valid("meta-objects", about, write(one, extra=[meta(*rows)], minor=MINOR), one)
    about = "A surrogate in a name of metadata."
    data = write(one, extra=[meta((CONTAINER, b"\xed\xa0\x80", b""))], minor=MINOR)
    yield bad("meta-name-surrogate", about, "Invalid", "meta", data)
    data = write([sparse("constructor", 4, [1])])
    about = "A name that each object of JavaScript has, but not the schema."
    schema: Schema = {"w": ((4,), "float32")}
    yield bad("schema-names-object", about, "SchemaMismatch", "schema-names", data, schema=schema)


def _patches() -> Iterator[Case]:
    """Yield a patch whose names have other lengths, and another order, in bytes than in UTF-16."""
    names = "é", "\uffff", "\U00010000"
    old = {name: tensor("int16", [n, 2, 3]) for n, name in enumerate(names)}
    new = {"é": old["é"], "ü": tensor("int16", [7])}
    about = "Digests of names are of their bytes, and removed names ascend by them."
    yield accepted("names", about, draft_patch(old, new), old, new)

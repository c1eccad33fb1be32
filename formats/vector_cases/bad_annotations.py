"""Invalid records of version 1.1, and their order: rows 41a-41g and 44a of SPEC section 7."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from formats.reference import Record, Row, Schema, Spectrum, assemble, write
from formats.reference.annotations import CONTAINER, MetaRow
from formats.reference.extension import CRITICAL, META, NAMES, SCHEMA, SEMANTICS, TAG
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_meta, write_names, write_semantics
from formats.vector_cases.annotations import MINOR, STEP, digest, meta, patches
from formats.vector_cases.case import Case, bad, patch, sparse, values_for

MAX32 = 2**32 - 1


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _flags()
    yield from _meta_record()
    yield from _meta()
    yield from _schema()
    yield from _digest()
    yield from _semantics()
    yield from _order()


def _tensors(*records: Record, n: int = 1) -> bytes:
    """Return a container with these records, and n tensors of 4 elements, all absent."""
    rows = [Row(key, 0, 4, 0, 1, 1, 1) for key in range(n)]
    return assemble(rows, write_extension_block(records), minor=MINOR)


def _flags() -> Iterator[Case]:
    for record, name in ((meta(STEP), "meta"), (Record(SCHEMA, 0, bytes(32)), "schema")):
        wrong = Record(record.type, CRITICAL, record.body)
        about = f"A critical {name} record has an unknown type, as in version 1.0."
        yield bad(f"extension-{name}-critical", about, "Unsupported", "extension", _tensors(wrong))


def _meta_record() -> Iterator[Case]:
    good = write_meta([(0, b"unit", b"m"), STEP])
    for id, about, body in (
        ("empty", "No bytes.", b""),
        ("short", "Three bytes.", bytes(3)),
        ("short-count", "Three bytes; with their padding, they are 65,536 rows.", b"\0\0\1"),
        (
            "rows-cut",
            "The only row is cut in the middle, where the container ends.",
            struct.pack("<II", 1, 0),
        ),
        ("rows-end", "Eight rows of eleven bytes each.", struct.pack("<I", 8) + bytes(88)),
        ("count-0", "No rows.", bytes(4)),
        ("count-0-row", "No rows are announced, and one is there.", patch(good, 0, "I", 0)),
        ("count-more", "A row too many is announced.", patch(good, 0, "I", 3)),
        ("count-few", "A row too few is announced.", patch(good, 0, "I", 1)),
        ("count-most", "2^32 - 1 rows are announced.", patch(good, 0, "I", MAX32)),
        (
            "count-wrapping",
            "2^30 + 2 rows: 12 bytes each wrap in 32 bits to those of 2.",
            patch(good, 0, "I", 2**30 + 2),
        ),
        ("row-cut", "The only row is cut.", good[:4] + good[4:15]),
        ("cut", "The last value is cut.", good[:-1]),
        ("surplus", "A byte after the last value.", good + b"d"),
        ("name-most", "A name of 2^32 - 1 bytes is announced.", patch(good, 8, "I", MAX32)),
        ("value-most", "A value of 2^32 - 1 bytes is announced.", patch(good, 24, "I", MAX32)),
        (
            "lengths-wrapping",
            "Two lengths that add up to the right sum in 32 bits.",
            patch(good, 8, "II", 2**31 + 4, 2**31 + 1),
        ),
        ("count-first", "65,537 rows are announced in an empty record.", struct.pack("<I", 65_537)),
    ):
        yield bad(f"meta-record-{id}", about, "Malformed", "meta-record", _tensors(Record(META, 0, body)))
    about = "The sum of the lengths comes before the keys and the names."
    body = write_meta([(5, b"", b"\xff")]) + b"x"
    yield bad("meta-record-first", about, "Malformed", "meta-record", _tensors(Record(META, 0, body)))


def _meta() -> Iterator[Case]:
    cases: tuple[tuple[str, str, list[MetaRow]], ...] = (
        ("key", "The key of no tensor.", [(1, b"a", b"")]),
        ("key-most", "Key 2^32 - 2.", [(CONTAINER - 1, b"a", b"")]),
        ("key-last", "The key of no tensor after the container's.", [(CONTAINER, b"a", b""), (1, b"a", b"")]),
        ("order", "Names that do not ascend.", [(0, b"b", b""), (0, b"a", b"")]),
        ("order-keys", "The container before a tensor.", [STEP, (0, b"a", b"")]),
        ("order-prefix", "A name before its prefix.", [(0, b"ab", b""), (0, b"a", b"")]),
        (
            "order-long",
            "Names that differ in the ninth byte.",
            [(0, b"abcdefghj", b""), (0, b"abcdefghi", b"")],
        ),
        ("twice", "A name twice.", [(0, b"a", b"1"), (0, b"a", b"2")]),
        ("name-empty", "An empty name.", [(0, b"", b"1")]),
        ("texts-empty", "An empty name of an empty value: rows without texts.", [(0, b"", b"")]),
        ("name-utf8", "A name that is not UTF-8.", [(0, b"\xff", b"1")]),
        ("value-utf8", "A value that is not UTF-8.", [(0, b"a", b"\xff")]),
        ("value-surrogate", "A surrogate.", [(0, b"a", b"\xed\xa0\x80")]),
        ("value-overlong", "An overlong form.", [(0, b"a", b"\xc0\x80")]),
        ("value-beyond", "Beyond U+10FFFF.", [(0, b"a", b"\xf4\x90\x80\x80")]),
        ("value-cut", "A cut sequence at the end.", [(0, b"a", b"x\xc3")]),
        (
            "split",
            "A character of which the name and the value have one byte each.",
            [(0, b"a\xc3", b"\xa9")],
        ),
        (
            "split-rows",
            "A character that is divided between a value and the next name.",
            [(0, b"a", b"\xc3"), (0, b"\xa9", b"")],
        ),
    )
    for id, about, rows in cases:
        yield bad(f"meta-{id}", about, "Invalid", "meta", _tensors(Record(META, 0, write_meta(rows))))


def _schema() -> Iterator[Case]:
    for length in (0, 8, 31, 33, 64):
        data = _tensors(Record(SCHEMA, 0, bytes(length)))
        about = f"A digest of {length} bytes."
        yield bad(f"schema-record-{length}", about, "Malformed", "schema-record", data)
    named = Record(NAMES, 0, write_names([b"w"]))
    about = "Names, and the right digest."
    data = _tensors(named, digest({"w": ((4,), "float32")}))
    yield bad("schema-record-names", about, "Invalid", "schema", data)
    about = "The length comes before the names."
    data = _tensors(named, Record(SCHEMA, 0, bytes(8)))
    yield bad("schema-record-names-first", about, "Malformed", "schema-record", data)


def _digest() -> Iterator[Case]:
    w: Schema = {"w": ((4,), "float32")}
    kind = "SchemaMismatch"
    data = write([sparse("w", 4, [1])], names=False, extra=[digest(w)], minor=MINOR)
    other: Schema = {"v": ((4,), "float32")}
    yield bad("schema-digest", "Another name.", kind, "schema-digest", data, schema=other)
    about = "The digest is that of another shape, although the container's is the schema's."
    wrong = write([sparse("w", 4, [1])], names=False, extra=[digest({"w": ((2, 2), "float32")})], minor=MINOR)
    yield bad("schema-digest-shape", about, kind, "schema-digest", wrong, schema=w)
    last = bytearray(digest(w).body)
    last[-1] ^= 0x80
    wrong = _tensors(Record(SCHEMA, 0, bytes(last)))
    yield bad("schema-digest-last", "The last bit differs.", kind, "schema-digest", wrong, schema=w)
    about = "The names of two tensors are exchanged."
    two = [sparse("a", 4, [1]), sparse("b", 4, [2])]
    pair: Schema = {"b": ((4,), "float32"), "c": ((4,), "float32")}
    data = write(two, names=False, extra=[digest({t.name: (t.shape, t.dtype) for t in two})], minor=MINOR)
    yield bad("schema-digest-two", about, kind, "schema-digest", data, schema=pair)
    for code, about, schema in (
        ("schema-names", "The number of tensors comes before the digest.", {**w, "x": ((4,), "float32")}),
        ("schema-shape", "The shape comes before the digest.", {"w": ((2, 2), "float32")}),
        ("schema-dtype", "The element type comes before the digest.", {"w": ((4,), "float16")}),
    ):
        data = write([sparse("w", 4, [1])], names=False, extra=[digest(w)], minor=MINOR)
        yield bad(f"schema-digest-after-{code[7:]}", about, kind, code, data, schema=schema)
    about = "The digest comes before the payload."
    damaged = bytearray(write([sparse("w", 4, [1])], names=False, extra=[digest(w)], minor=MINOR))
    damaged[-1] ^= 1
    yield bad("schema-digest-first", about, kind, "schema-digest", bytes(damaged), schema=other)


def _semantics() -> Iterator[Case]:
    good = write_semantics([(0, 1)])
    for id, body in (
        ("empty", b""),
        ("short", good[:4]),
        ("cut", good + good[:7]),
        ("surplus", good + b"\0"),
    ):
        about = f"A body of {len(body)} bytes."
        data = _tensors(Record(SEMANTICS, CRITICAL, body))
        yield bad(f"semantics-record-{id}", about, "Malformed", "semantics-record", data)
    for meaning in (0, 0x100, 0x10000, 0x1000001, MAX32):
        data = _tensors(Record(SEMANTICS, CRITICAL, write_semantics([(0, meaning)])))
        yield bad(f"meaning-{meaning}", f"Meaning {meaning}.", "Unsupported", "meaning", data)
    about = "The second row has meaning 0."
    data = _tensors(Record(SEMANTICS, CRITICAL, write_semantics([(0, 1), (1, 0)])), n=2)
    yield bad("meaning-second", about, "Unsupported", "meaning", data)
    about = "An unknown meaning comes before the keys: a later version may give it another rule."
    data = _tensors(Record(SEMANTICS, CRITICAL, write_semantics([(1, 1), (1, 0)])))
    yield bad("meaning-first", about, "Unsupported", "meaning", data)
    for id, about, keys in (
        ("key", "The key of no tensor.", [1]),
        ("key-most", "Key 2^32 - 1, which is not the container here.", [MAX32]),
        ("key-last", "The key of no tensor after that of one.", [0, 1]),
        ("order", "Keys that do not ascend.", [1, 0]),
        ("twice", "A key twice.", [0, 0]),
    ):
        data = _tensors(patches(*keys), n=1 if id.startswith("key") else 2)
        yield bad(f"semantics-{id}", about, "Invalid", "semantics", data)
    for domain, name in ((1, "rfft"), (2, "dct")):
        t = Spectrum("w", "float32", (2,), [0], values_for(1 if domain == 2 else 2, "float32"), domain)
        data = write([t], extra=[patches(0)], minor=MINOR)
        yield bad(
            f"semantics-{name}", f"A patch stored as coefficients of {name}.", "Invalid", "semantics", data
        )


def _order() -> Iterator[Case]:
    """Yield containers with two faults each, of which the earlier row decides."""
    empty_tag, wrong_meta = Record(TAG, 0, b""), meta((7, b"a", b""))
    short, wrong_keys = Record(SCHEMA, 0, b"x"), patches(7)
    for id, about, kind, code, records in (
        (
            "tag",
            "The tag comes before metadata.",
            "Malformed",
            "tag-record",
            [empty_tag, Record(META, 0, b"")],
        ),
        ("meta", "Metadata come before the digest.", "Invalid", "meta", [wrong_meta, short]),
        (
            "schema",
            "The digest comes before the meanings.",
            "Malformed",
            "schema-record",
            [short, Record(9, 1, b"")],
        ),
        (
            "names",
            "The digest's conflict comes before the meanings.",
            "Invalid",
            "schema",
            [Record(NAMES, 0, write_names([b"w"])), Record(SCHEMA, 0, bytes(32)), Record(9, 1, b"")],
        ),
        (
            "meaning",
            "Rows of meanings come before their keys.",
            "Malformed",
            "semantics-record",
            [Record(9, 1, wrong_keys.body + b"\0")],
        ),
    ):
        yield bad(f"order-annotation-{id}", about, kind, code, _tensors(*records))
    other: Schema = {"v": ((5,), "float32"), "w": ((5,), "float32")}
    about = "The meanings come before the schema's names."
    yield bad("order-annotation-semantics", about, "Invalid", "semantics", _tensors(wrong_keys), schema=other)

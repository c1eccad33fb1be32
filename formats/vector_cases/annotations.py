"""Containers with the records meta, schema and semantics of version 1.1 (SPEC sections 3.7-3.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from formats.conformance import One
from formats.reference import Record, Row, Schema, Tensor, assemble, write
from formats.reference.annotations import CONTAINER, MetaRow, compute_digest
from formats.reference.extension import CRITICAL, META, SCHEMA, SEMANTICS
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.records import write_fused, write_meta, write_semantics, write_shape
from formats.vector_cases.case import UNKNOWN_RECORD, Case, sparse, valid

MINOR = 1
STEP: MetaRow = CONTAINER, b"step", b"12"


def meta(*rows: MetaRow) -> Record:
    """Return a meta record."""
    return Record(META, 0, write_meta(rows))


def patches(*keys: int) -> Record:
    """Return a semantics record in which these tensors are patches."""
    return Record(SEMANTICS, CRITICAL, write_semantics([(key, 1) for key in keys]))


def digest(schema: Schema) -> Record:
    """Return a schema record."""
    return Record(SCHEMA, 0, compute_digest(schema))


def patch_of(name: str, d: int, indices: Sequence[int], dtype: str = "float32") -> Tensor:
    """Return a tensor whose absent elements are unchanged."""
    t = sparse(name, d, indices, dtype)
    t.absent = "unchanged"
    return t


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _meta()
    yield from _schema()
    yield from _semantics()
    one = sparse("w", 4, [1])
    extra = [meta(STEP), patches(0), Record(UNKNOWN_RECORD, 0, b"later")]
    data = write([one], tag=b"t", extra=extra, minor=MINOR)
    about = "A tag, metadata, a patch, and an unknown record, in the order of their types."
    yield valid("records-later", about, data, [patch_of("w", 4, [1])], tag=b"t")


def _meta() -> Iterator[Case]:
    one = [sparse("w", 4, [1])]
    unit: MetaRow = 0, b"unit", b"m"
    about = "A text of a tensor, and one of the container."
    yield valid("meta", about, write(one, extra=[meta(unit, STEP)], minor=MINOR), one)
    for id, about, rows in (
        ("one", "The least record: a name of one byte, and an empty value.", [(CONTAINER, b"a", b"")]),
        (
            "names",
            "Names ascend by their bytes: a prefix first, upper case first, and 3 bytes of UTF-8 before 4.",
            [(CONTAINER, name.encode(), b"1") for name in ("A", "a", "ab", "b", "é", "\uffff", "\U00010000")],
        ),
        (
            "same-name",
            "The same name for a tensor and the container.",
            [(0, b"a", b"1"), (CONTAINER, b"a", b"2")],
        ),
        ("odd", "NUL, a newline, and U+10FFFF.", [(0, b"\0\n", "\U0010ffff\0".encode())]),
        ("long", "A value of 300 bytes.", [(0, b"note", b"0123456789" * 30)]),
    ):
        yield valid(f"meta-{id}", about, write(one, extra=[meta(*rows)], minor=MINOR), one)
    three = [sparse(name, 4, [n]) for n, name in enumerate("abc")]
    rows = [(0, b"x", b"1"), (0, b"y", b"2"), (2, b"a", b"3"), (CONTAINER, b"a", b"4")]
    about = "Names begin again with each key; tensor 1 has none."
    yield valid("meta-keys", about, write(three, extra=[meta(*rows)], minor=MINOR), three)
    about = "Tensors that share an entry have metadata of their own."
    data = write(three, groups=["abc"], extra=[meta((1, b"x", b"1"), (2, b"x", b"2"))], minor=MINOR)
    yield valid("meta-fused", about, data, three)
    data = assemble([], write_extension_block([meta(STEP)]), minor=MINOR)
    yield valid("meta-no-tensors", "Metadata of a container without tensors.", data, [])
    about = "The record has the same rules under minor 0."
    yield valid("meta-minor-0", about, write(one, extra=[meta(STEP)]), one)
    about = "Rows of metadata do not count as entries."
    data = write(one, extra=[meta((0, b"x", b"1"), (0, b"y", b"2"), STEP)], minor=MINOR)
    yield valid("meta-max-entries", about, data, one, limits={"max_entries": 1})


def _schema() -> Iterator[Case]:
    four: Schema = {"w": ((4,), "float32")}
    w = [sparse("w", 4, [1])]
    data = write(w, names=False, extra=[digest(four)], minor=MINOR)
    yield valid("schema-record", "The digest of the schema that the reader has.", data, w, schema=four)
    about = "Without a schema, the digest is not compared."
    yield valid("schema-record-no-schema", about, data, [sparse("0", 4, [1])])
    about = "One tensor is expected without a name: the digest is not compared."
    other = write(w, names=False, extra=[digest({"v": ((4,), "float32")})], minor=MINOR)
    yield valid("schema-record-one", about, other, one=One(((4,), "float32")))
    mixed: Schema = {
        "b": ((), "float64"),
        "\uffff": ((2, 3), "float16"),
        "\U00010000": ((2**33, 0), "bfloat16"),
        "": ((1,), "float32"),
    }
    rows = [
        Row(0, 0, 1, 0, 1, 1, 1),
        Row(1, 0, 1, 0, 4, 1, 1),
        Row(2, 0, 6, 0, 2, 1, 1),
        Row(3, 0, 0, 0, 3, 1, 1),
    ]
    shapes = [(1, ()), (2, (2, 3)), (3, (2**33, 0))]
    body = b"".join(write_shape(key, shape) for key, shape in shapes)
    data = assemble(rows, write_extension_block([Record(3, 0, body), digest(mixed)]), minor=MINOR)
    about = (
        "All element types; no, one and two dimensions, one above 2^32; an empty name; the order of UTF-8."
    )
    yield valid("schema-record-mixed", about, data, schema=mixed)
    name = "36 bytes, so that 55 will be hashed."
    long: Schema = {name: ((4,), "float32")}
    data = write(w, names=False, extra=[digest(long)], minor=MINOR)
    about = "The hashed bytes leave room for the length in one block, exactly."
    yield valid("schema-record-block", about, data, [sparse(name, 4, [1])], schema=long)
    data = assemble([], write_extension_block([digest({})]), minor=MINOR)
    yield valid("schema-record-empty", "The digest of no tensors.", data, [], schema={})


def _semantics() -> Iterator[Case]:
    w = [sparse("w", 4, [1])]
    data = write(w, extra=[patches(0)], minor=MINOR)
    yield valid("semantics", "A patch of one element.", data, [patch_of("w", 4, [1])])
    for id, about, indices in (
        ("none", "A patch without elements.", []),
        ("all", "A patch of all elements.", range(4)),
    ):
        data = write([sparse("w", 4, list(indices))], extra=[patches(0)], minor=MINOR)
        yield valid(f"semantics-{id}", about, data, [patch_of("w", 4, indices)])
    three = [sparse(name, 4, [n]) for n, name in enumerate("abc")]
    patched = [patch_of("a", 4, [0]), three[1], patch_of("c", 4, [2])]
    data = write(three, extra=[patches(0, 2)], minor=MINOR)
    yield valid("semantics-some", "Patches, and a tensor with zeros.", data, patched)
    patched = [three[0], *(patch_of(name, 4, [n]) for n, name in ((1, "b"), (2, "c")))]
    data = write(three, extra=[patches(1, 2)], minor=MINOR)
    yield valid("semantics-last", "Patches after a tensor with zeros.", data, patched)
    patched = [patch_of("a", 4, [0]), three[1], patch_of("c", 4, [2])]
    data = write(three, groups=["abc"], extra=[patches(0, 2)], minor=MINOR)
    yield valid("semantics-fused", "Patches and another tensor in one entry.", data, patched)
    body = write_semantics([(0, 1)])
    records = [Record(1, 1, write_fused([[(0, 0), (1, 3)]])), Record(SEMANTICS, CRITICAL, body)]
    data = assemble([Row(0, 0, 3, 0, 1, 1, 1)], write_extension_block(records), minor=MINOR)
    yield valid("semantics-size-0", "A patch of a tensor without elements.", data)
    data = write(w, names=False, extra=[patches(0)], minor=MINOR)
    yield valid("semantics-one", "The caller asks for one tensor, a patch.", data, one=One(None))
    data = write(w, extra=[Record(SEMANTICS, 0, b"any content")], minor=MINOR)
    about = "A semantics record that is not critical has an unknown type, and is skipped as in version 1.0."
    yield valid("semantics-not-critical", about, data, w)
    about = "The record has the same rules under minor 0."
    yield valid("semantics-minor-0", about, write(w, extra=[patches(0)]), [patch_of("w", 4, [1])])

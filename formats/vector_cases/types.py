"""Element types of the record ``types`` (SPEC section 3.6), and rows 15-18, 36a-36c and 48a of section 7."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from formats import reference
from formats.conformance import One
from formats.reference import Deflate, Record, Rice, Row, Tensor, Zstd, assemble, write
from formats.reference.element_types import IN_RECORD, RECORD_TYPES, TYPE_NAMED, RecordType, write_types
from formats.reference.prng import draw32
from formats.reference.table import CHUNK
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.container import Index
from formats.reference.writing.records import write_fused, write_names
from formats.vector_cases.case import Case, bad, exact, patch, sparse, spread, valid

FUSED, NAMES, TRANSFORM, TYPES = 1, 2, 4, 6
NUMBER = {t.name: t.number for t in RECORD_TYPES}
NEVER_ASSIGNED = (0, 1, 4, 15, 0xFFF0, 0xFFFF)
INDEX: tuple[Index, ...] = (
    "raw-index",
    "bitmap",
    Rice(),
    reference.Rle(),
    reference.Delta(),
    reference.Huffman(),
    reference.EliasFano(),
    reference.Binned(16),
    reference.Structured(),
    reference.Context(),
)
OF_FLOATS = (2, 3, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15)
"""Value codecs that carry floats alone."""


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _each_type()
    yield from _codecs()
    yield from _several()
    yield from _frames()
    yield from _bad_table()
    yield from _bad_record()
    yield from _bad_types()
    yield from _bad_sections()
    yield from _bad_bool()


def _values(count: int, dtype: str, first: int = 0) -> bytes:
    """Return elements of irregular but fixed bits; the first four are all ones, 1, the highest bit, and 0."""
    width = TYPE_NAMED[dtype].itemsize
    words = [draw32(0x0F1E2D3C4B5A6978, first + n) for n in range(4 * count)]
    if dtype == "bool":
        return bytes([1, 0, *(word & 1 for word in words)][:count])
    ones, most = (1 << 8 * width) - 1, 1 << 8 * width - 1
    extremes = b"".join(bits.to_bytes(width, "little") for bits in (ones, 1, most, 0))
    stream = b"".join(struct.pack("<I", word) for word in words)
    return (extremes + stream)[: count * width]


def _tensor(name: str, dtype: str, d: int, indices: Sequence[int], first: int = 0) -> Tensor:
    return Tensor(name, dtype, (d,), indices, _values(len(indices), dtype, first))


def _each_type() -> Iterator[Case]:
    """Yield a sparse and a full tensor of each type, which an exact writer reproduces."""
    for n, t in enumerate(RECORD_TYPES):
        x = _tensor("0", t.name, 90, spread(17, 90, n), n)
        yield exact(f"types-{t.name}", f"17 of 90 elements of {t.name}.", [x], INDEX[n % len(INDEX)])
        full = Tensor("0", t.name, (3, 3), range(9), _values(9, t.name, n))
        yield exact(f"types-{t.name}-full", f"All elements of a matrix of {t.name}.", [full], Rice())
        none = Tensor("0", t.name, (0,), [], b"")
        yield exact(f"types-{t.name}-empty", f"No elements of {t.name}.", [none])


def _codecs() -> Iterator[Case]:
    for n, t in enumerate(RECORD_TYPES):
        x = [_tensor("0", t.name, 64, spread(12, 64, n), n)]
        for planes in (False, True):
            how = "in byte planes" if planes else "one after the other"
            id = f"types-{t.name}-{{}}-{int(planes)}"
            data = write(x, "bitmap", Deflate(shuffle=planes), names=False)
            yield valid(id.format("deflate"), f"Values of {t.name} in deflate, {how}.", data, x)
            data = write(x, "bitmap", Zstd(shuffle=planes), names=False)
            yield valid(id.format("zstd"), f"Values of {t.name} in zstd, {how}.", data, x)
    one = [_tensor("0", "int8", 1, [0])]
    data = write(one, "raw-index", Zstd(), names=False)
    yield valid("types-int8-zstd-one", "One byte in zstd.", data, one)
    for n, index in enumerate(INDEX):
        x = [_tensor("0", "int16", 400, spread(60, 400, 100 + n), n)]
        name = index if isinstance(index, str) else type(index).__name__.lower()
        yield exact(f"types-index-{name}", "An index codec with elements of int16.", x, index)
    for policy in ("p0", "p1", "p2"):
        x = [_tensor("0", "int32", 300, spread(30, 300, 7), 4)]
        about = f"The lossy index codec bloom, policy {policy}, with elements of int32."
        yield exact(f"types-index-bloom-{policy}", about, x, reference.Bloom(policy, 0.05))


def _several() -> Iterator[Case]:
    mixed = [
        sparse("a", 10, [0, 3, 9]),
        _tensor("b", "int64", 5, [1, 4]),
        sparse("c", 4, [3], "float16"),
        _tensor("d", "bool", 12, [0, 1, 5]),
        Tensor("e", "complex64", (2, 2), [1, 2], _values(2, "complex64")),
        Tensor("f", "uint8", (), [0], b"\xff"),
    ]
    yield exact("types-mixed", "Floats and other types in turn.", mixed, Rice(), many=True, tag=b"tag")
    data = write(mixed, names=False)
    schema = {t.name: (t.shape, t.dtype) for t in mixed}
    yield valid("types-schema", "A schema names the tensors and their types.", data, mixed, schema=schema)
    one = _tensor("0", "float8_e5m2", 6, [2, 3])
    about = "A caller that asks for one tensor, of its shape and type."
    data = write([one], names=False)
    yield valid("types-one", about, data, [one], one=One(((6,), "float8_e5m2")))
    trio = [_tensor("a", "int32", 4, [0, 2]), _tensor("b", "int32", 0, []), _tensor("c", "int32", 3, [1], 9)]
    yield valid("types-fused", "Fused tensors of int32.", write(trio, "bitmap", groups=["abc"]), trio)
    wide = [
        Tensor("a", "complex128", (2,), [0, 1], _values(2, "complex128")),
        sparse("b", 3, [1]),
        Tensor("c", "complex128", (2,), [0, 1], _values(2, "complex128", 5)),
        sparse("d", 3, [0, 2]),
        _tensor("e", "uint8", 5, [0]),
    ]
    about = "A fused entry of complex128, one of float32, and a tensor of uint8."
    yield valid("types-fused-mixed", about, write(wide, Rice(), groups=["ac", "bd"]), wide)
    absent = [
        Row(0, 0, CHUNK, 0, IN_RECORD, 1, 6),
        Row(0, CHUNK, 3, 2, IN_RECORD, 1, 1, b"\0\0\2\0", b"\7\x80"),
    ]
    data = assemble(absent, _block([("int8", 0)]), minor=1)
    two = [Tensor("0", "int8", (CHUNK + 3,), [CHUNK, CHUNK + 2], b"\7\x80")]
    yield valid("types-chunks", "Two chunks of one tensor of int8, of different codecs.", data, two)


def _block(rows: Sequence[tuple[str | int, int]], *records: Record, flags: int = 1) -> bytes:
    """Return an extension block with a types record of (type or number, key) rows, and other records."""
    body = write_types([(key, NUMBER[t] if isinstance(t, str) else t) for t, key in rows])
    return _with(body, *records, flags=flags)


def _with(body: bytes, *records: Record, flags: int = 1) -> bytes:
    """Return an extension block with a types record of this body, and other records."""
    return write_extension_block(sorted([*records, Record(TYPES, flags, body)], key=lambda r: r.type))


def _frames() -> Iterator[Case]:
    row = Row(0, 0, 3, 1, IN_RECORD, 1, 1, b"\1\0", b"\5")
    x = [Tensor("0", "uint8", (3,), [1], b"\5")]
    for minor in (0, 255):
        about = f"Minor version {minor}: a reader accepts any."
        yield valid(f"types-minor-{minor}", about, assemble([row], _block([("uint8", 0)]), minor=minor), x)
    plain = Row(0, 0, 3, 1, 1, 1, 1, b"\1\0", bytes(4))
    y = [Tensor("0", "float32", (3,), [1], bytes(4))]
    for id, body in (("", b"anything"), ("-empty", b""), ("-rows", write_types([(0, 18)]))):
        about = "A record of type 6 that is not critical: it is skipped, as version 1.0 does."
        yield valid(f"types-not-critical{id}", about, assemble([plain], _with(body, flags=0)), y)


def _bad_table() -> Iterator[Case]:
    kind, code = "Unsupported", "value-codec"
    for codec in OF_FLOATS:
        row = Row(0, 0, 2, 2, IN_RECORD, 1, codec, value_section=bytes(8))
        data = assemble([row], _block([("int32", 0)]), minor=1)
        yield bad(
            f"types-value-codec-{codec}", f"Value codec {codec} carries floats alone.", kind, code, data
        )
    row = Row(0, 0, 2, 0, IN_RECORD, 1, 4)
    about = "The codec is refused if no element is present, too."
    data = assemble([row], _block([("int32", 0)]), minor=1)
    yield bad("types-value-codec-absent", about, kind, code, data)
    about = "The codec is refused before its map, and before the record."
    data = assemble([Row(0, 0, 2, 2, IN_RECORD, 1, 9, value_section=bytes(8), map=1)])
    yield bad("types-value-codec-first", about, kind, code, data)
    for domain in (1, 2):
        data = assemble([Row(0, 0, 2, 0, IN_RECORD | domain << 4, 1, 1)], _block([("complex64", 0)]), minor=1)
        yield bad(f"types-domain-{domain}", "Transforms are of floats.", "Unsupported", "domain", data)
    kind, code = "Malformed", "extension-record"
    rows = [Row(0, 0, 2, 0, IN_RECORD, 1, 1)]
    for flags in (2, 3, 0x8001):
        data = assemble(rows, _block([("int8", 0)], flags=flags), minor=1)
        yield bad(f"types-flags-{flags}", "A reserved flag of the record.", kind, code, data)


def _absent(*dtypes: int, block: bytes) -> bytes:
    """Return a container of tensors of 2 elements, none present, with these dtype bytes."""
    return assemble([Row(key, 0, 2, 0, dtype, 1, 1) for key, dtype in enumerate(dtypes)], block, minor=1)


def _bad_record() -> Iterator[Case]:
    kind, code = "Malformed", "types-record"
    good = write_types([(0, 16), (1, 17)])
    for id, about, body in (
        ("empty", "No row.", b""),
        ("short", "Half a row.", good[:4]),
        ("cut", "The second row is cut.", good[:-1]),
        ("surplus", "Bytes after the last row.", good + bytes(4)),
        ("reserved", "The reserved bytes are 1.", patch(good, 6, "H", 1)),
        ("reserved-high", "The reserved bytes are 0x100.", patch(good, 6, "H", 0x100)),
        ("reserved-last", "The reserved bytes of the last row.", patch(good, 14, "H", 0x8000)),
        (
            "reserved-first",
            "Reserved bytes before the order of the keys.",
            patch(good[8:] + good[:8], 6, "H", 1),
        ),
    ):
        yield bad(f"types-record-{id}", about, kind, code, _absent(IN_RECORD, IN_RECORD, block=_with(body)))
    data = _absent(1, 1, block=_with(good[:7]))
    yield bad("types-record-floats", "Half a row, and no tensor of such a type.", kind, code, data)
    lengths = Record(TRANSFORM, 1, struct.pack("<IIQ", 0, 0, 2))
    about = "The transform record comes first."
    data = _absent(IN_RECORD, IN_RECORD, block=_with(b"", lengths))
    yield bad("types-record-after-transform", about, "Invalid", "transform", data)


def _bad_types() -> Iterator[Case]:
    kind, code, t = "Invalid", "types", IN_RECORD
    for id, about, dtypes, rows in (
        ("few", "No row of the second tensor.", (t, t), [0]),
        ("few-first", "No row of the first tensor.", (t, t), [1]),
        ("many", "A row of a key that no tensor has.", (t, t), [0, 1, 2]),
        ("float", "A row of a tensor of float32.", (1, t), [0, 1]),
        ("other", "A row of a tensor of float32 in place of the other.", (1, t), [0]),
        ("order", "Rows not ascending.", (t, t), [1, 0]),
        ("twice", "A row twice.", (t, t), [0, 0]),
        ("twice-more", "A row twice, besides all others.", (t, t), [0, 1, 1]),
        ("floats", "No tensor of such a type.", (1, 2), [0]),
        ("key-most", "Key 2^32 - 1.", (t,), [2**32 - 1]),
    ):
        data = _absent(*dtypes, block=_block([("int8", key) for key in rows]))
        yield bad(f"types-{id}", about, kind, code, data)
    yield bad("types-no-block", "No extension block.", kind, code, _absent(t, block=b""))
    names = Record(NAMES, 0, write_names([b"a"]))
    data = _absent(t, block=write_extension_block([names]))
    yield bad("types-no-record", "No such record.", kind, code, data)
    data = _absent(t, block=_block([("int8", 0)], flags=0))
    yield bad("types-no-critical-record", "The record is not critical: it is skipped.", kind, code, data)
    data = assemble([], _block([("int8", 0)]), minor=1)
    yield bad("types-no-tensors", "No tensors at all.", kind, code, data)
    fused = Record(FUSED, 1, write_fused([[(0, 1), (2, 1)]]))
    differing: tuple[tuple[str, str, list[tuple[str | int, int]]], ...] = (
        ("differ", "Members of one entry have different types.", [("int8", 0), ("int16", 1), ("uint8", 2)]),
        ("few", "No row of a member.", [("int8", 0), ("int16", 1)]),
        ("first", "Types that differ are found before an unknown one.", [(15, 0), (15, 1), ("int8", 2)]),
    )
    for id, about, fused_rows in differing:
        data = _absent(t, t, block=_block(fused_rows, fused))
        yield bad(f"types-fused-{id}", about, kind, code, data)
    kind, code = "Unsupported", "dtype"
    for number in NEVER_ASSIGNED:
        data = _absent(t, t, block=_block([("int8", 0), (number, 1)]))
        yield bad(f"types-number-{number}", f"Number {number} is no type of this record.", kind, code, data)
    about = "Unknown types are found before the names."
    data = _absent(t, block=_block([(15, 0)], Record(NAMES, 0, b"")))
    yield bad("types-number-first", about, kind, code, data)
    about = "The names are read after the types."
    data = _absent(t, block=_block([("int8", 0)], Record(NAMES, 0, b"")))
    yield bad("types-names", about, "Malformed", "names-record", data)
    data = write([_tensor("w", "int32", 4, [1])])
    kind, code = "SchemaMismatch", "schema-dtype"
    for other in ("uint32", "float32", "complex64"):
        about = f"int32, and the schema has {other}."
        yield bad(f"types-schema-{other}", about, kind, code, data, schema={"w": ((4,), other)})
    data = write([sparse("w", 4, [1])])
    about = "float32, and the schema has int32."
    yield bad("types-schema-int32", about, kind, code, data, schema={"w": ((4,), "int32")})


def _full(t: RecordType, codec: int, section: bytes, r: int = 3) -> bytes:
    """Return a container of one tensor with all of its r elements present."""
    row = Row(0, 0, r, r, IN_RECORD, 1, codec, value_section=section)
    return assemble([row], _block([(t.number, 0)]), minor=1)


def _bad_sections() -> Iterator[Case]:
    for t in RECORD_TYPES:
        if t.name not in ("int8", "int16", "int32", "complex64", "complex128"):
            continue
        values = _values(4, t.name)
        for id, cut in (("short", 3 * t.itemsize - 1), ("long", 3 * t.itemsize + 1)):
            about = f"A byte too {'few' if id == 'short' else 'many'} of raw values of {t.itemsize} bytes."
            yield bad(f"types-raw-{t.itemsize * 8}-{id}-{t.name}", about, "Malformed", "raw-length",
                      _full(t, 1, values[:cut]))  # fmt: skip
        section = Deflate(False).write_section(values[: 2 * t.itemsize], t, 0)
        about = f"Two of three values of {t.itemsize} bytes."
        data = _full(t, 6, section)
        yield bad(f"types-deflate-few-{t.name}", about, "Invalid", "deflate-length", data)
        about = f"Four of three values of {t.itemsize} bytes."
        data = _full(t, 6, Deflate(False).write_section(values, t, 0))
        yield bad(f"types-deflate-many-{t.name}", about, "Malformed", "deflate-stream", data)
        data = _full(t, 7, Zstd(False).write_section(values, t, 0))
        yield bad(f"types-zstd-many-{t.name}", about, "Invalid", "zstd-size", data)
    limits = {"max_elements": 2}
    data = write([_tensor("0", "complex128", 3, range(3))])
    about = "Limits count elements, not their components or bytes."
    yield valid("types-max-elements", about, data, limits={"max_elements": 3, "max_dense": 3})
    about = "Three elements, where two are allowed."
    yield bad("types-max-elements-less", about, "LimitExceeded", "max-elements", data, limits=limits)


def _bad_bool() -> Iterator[Case]:
    kind, code, t = "Invalid", "bool-value", TYPE_NAMED["bool"]
    assert isinstance(t, RecordType)
    for id, about, values in (
        ("2", "The byte 2.", b"\2\1\0"),
        ("255", "The byte 255 in the middle.", b"\0\xff\1"),
        ("128", "The byte 128 at the end.", b"\1\0\x80"),
    ):
        yield bad(f"types-bool-{id}", about, kind, code, _full(t, 1, values))
        data = _full(t, 6, Deflate(True).write_section(values, t, 0))
        yield bad(f"types-bool-{id}-deflate", about, kind, code, data)
        yield bad(
            f"types-bool-{id}-zstd", about, kind, code, _full(t, 7, Zstd(True).write_section(values, t, 0))
        )
    about = "The length is checked before the values."
    yield bad("types-bool-length", about, "Malformed", "raw-length", _full(t, 1, b"\2\2"))
    about = "The index section is checked before the values."
    row = Row(0, 0, 3, 1, IN_RECORD, 1, 1, b"\3\0", b"\2")
    data = assemble([row], _block([("bool", 0)]), minor=1)
    yield bad("types-bool-index", about, "Invalid", "index-range", data)
    rows = [Row(key, 0, 3, 3, IN_RECORD, 1, 1, value_section=b"\2\0\0") for key in range(2)]
    block = _block([("bool", 0), ("uint8", 1)])
    about = "An element of the first entry, before the checksum of the second."
    data = assemble(rows, block, minor=1)
    yield bad("types-bool-first", about, kind, code, data[:-1] + b"\1")
    data = assemble(rows, _block([("uint8", 0), ("bool", 1)]), minor=1)
    yield bad("types-bool-second", "An element of the second entry.", kind, code, data)

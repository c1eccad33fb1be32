"""Valid containers that test everything but the codecs: SPEC sections 2 and 3, limits and schemas.

Many have forms that an encoder may never write but that readers must accept.
"""

from __future__ import annotations

from collections.abc import Iterator

from formats.reference import Qsgd, Raw, Record, Rice, Row, Tensor, assemble, write
from formats.reference.table import CHUNK
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.vector_cases.case import UNKNOWN_RECORD, Case, exact, sparse, spread, valid, values_for

EMPTY = Tensor("a", "float32", (0,), [], b"")


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _frames()
    yield from _shapes()
    yield from _names()
    yield from _chunks()
    yield from _fused()
    yield from _crowds()
    yield from _extension()
    yield from _limits()
    yield from _schemas()


def _three() -> list[Tensor]:
    return [sparse("a", 10, [0, 3, 9]), sparse("b", 20, [1, 2], "float16"), sparse("c", 4, [3], "float64")]


def _frames() -> Iterator[Case]:
    yield valid("no-entries", "The smallest container: a prefix alone.", write([]), [])
    yield valid("no-entries-tag", "No entries, and a tag.", write([], tag=b"nothing"), [], tag=b"nothing")
    one = [sparse("0", 10, [2, 5])]
    yield valid(
        "minor-higher", "A minor version of the future; all else is known.", write(one, minor=255), one
    )
    data = write(one, flags=1 << 15, names=False)
    yield valid("flags-bit15", "Flag bit 15 is unknown and ignored.", data, one)
    rows = [
        Row(0, 0, 5, 0, 2, 3, 2),
        Row(1, 0, 5, 0, 3, 2, 3),
        Row(2, 0, 5, 0, 1, 1, 4),
    ]
    about = "No element present: no codec's page is consulted, not even for raw-float16 of float16 elements."
    yield valid("absent-any-codec", about, assemble(rows))
    yield exact("absent", "A tensor with no element present.", [sparse("0", 10, [])])
    for dtype in ("float32", "float16", "bfloat16", "float64"):
        none = Tensor("0", dtype, (0,), [], b"")
        yield exact(f"size-0-{dtype}", "A tensor without elements.", [none])
    yield exact("size-1", "One element, present.", [sparse("0", 1, [0])])


def _shapes() -> Iterator[Case]:
    values = values_for(1, "float32")
    yield exact("shape-0d", "No dimensions, the element present.", [Tensor("0", "float32", (), [0], values)])
    yield exact("shape-0d-absent", "No dimensions, no element.", [Tensor("0", "float32", (), [], b"")])
    tall: list[tuple[str, tuple[int, ...], list[int]]] = [
        ("2d", (3, 4), [1, 7, 11]),
        ("3d-ones", (1, 5, 1), [4]),
        ("32d", (2,) + (1,) * 30 + (2,), [0, 3]),
        ("width-1", (255, 2), [9, 509]),
        ("width-2", (256, 2), [9, 511]),
        ("width-2-most", (65_535, 1), [9, 65_534]),
        ("width-4", (65_536, 1), [9, 65_535]),
        ("width-4-most", (0, 2**32 - 1), []),
        ("width-8", (2**32, 0), []),
        ("product-2p56", (2**28, 0, 2**28), []),
        ("zeros", (0, 0), []),
    ]
    for id, shape, indices in tall:
        t = Tensor("0", "float32", shape, indices, values_for(len(indices), "float32"))
        yield exact(f"shape-{id}", f"The shape {shape if len(shape) < 9 else '(2, 1, ..., 1, 2)'}.", [t])
    several = [
        Tensor("a", "float32", (2, 2), [3], values_for(1, "float32")),
        sparse("b", 7, [0]),
        Tensor("c", "float64", (), [0], values_for(1, "float64")),
    ]
    yield exact("shapes-some", "Two tensors with a row of shapes, one without.", several, many=True)


def _names() -> Iterator[Case]:
    three = _three()
    yield exact("names", "Three tensors of three element types.", three, many=True)
    digits = [Tensor(str(n), t.dtype, t.shape, t.indices, t.values) for n, t in enumerate(three)]
    yield valid(
        "names-absent",
        "Without names the digits of the keys are the names.",
        write(three, names=False),
        digits,
    )
    ten = [sparse(f"t{n}", 2, [n % 2]) for n in range(10)]
    digits = [Tensor(str(n), t.dtype, t.shape, t.indices, t.values) for n, t in enumerate(ten)]
    yield valid("names-absent-10", "Ten tensors without names.", write(ten, names=False), digits)
    eleven = [sparse(f"t{n:02}", 2, [n % 2]) for n in range(11)]
    digits = [Tensor(f"{n:02}", t.dtype, t.shape, t.indices, t.values) for n, t in enumerate(eleven)]
    about = "Eleven tensors without names: two digits each, so that they ascend."
    yield valid("names-absent-11", about, write(eleven, names=False), digits)
    odd = ["", "\0", "a", "a b", "a.b", "aa", "\u00e4", "\u20ac", "\uffff", "\U00010000", "\U0010ffff"]
    about = "The empty name, a NUL, and names whose order in UTF-8 is not that in UTF-16."
    yield exact(
        "names-unicode", about, [sparse(name, 3, [1], first=n) for n, name in enumerate(odd)], many=True
    )
    yield exact("names-one", "One tensor with a name.", [sparse("layer1.weight", 12, [4, 5])], many=True)
    yield exact("names-empty", "One tensor whose name is empty.", [sparse("", 12, [4, 5])], many=True)
    yield exact("names-long", "A name of 300 bytes.", [sparse("n" * 300, 3, [0])], many=True)


def _chunks() -> Iterator[Case]:
    size = CHUNK + 5
    two = [sparse("0", size, [0, 70_000, CHUNK - 1, CHUNK, CHUNK + 4])]
    yield exact("chunks-2", "Two chunks with few elements.", two)
    yield exact("chunks-2-rice", "Two chunks with few elements.", two, Rice())
    yield exact(
        "chunks-2-qsgd", "The second chunk draws from a stream of its own.", two, Rice(), Qsgd(), seed=7
    )
    two = [sparse("0", size, list(range(CHUNK, size)))]
    yield exact("chunks-empty-full", "No element of the first chunk, all of the second.", two)
    two = [sparse("0", 2 * CHUNK, [CHUNK - 1, 2 * CHUNK - 1])]
    yield exact("chunks-last-whole", "A last chunk of 2^24 elements.", two, Rice())
    two = [Tensor("0", "float16", (3, CHUNK), [5, 2 * CHUNK + 7], values_for(2, "float16"))]
    yield exact("chunks-3-shape", "Three chunks of a matrix, the one in the middle empty.", two)
    mixed: list[Index] = ["raw-index", Rice(), "bitmap"]
    values: list[ValueWriter] = [Raw(), Raw("float16"), Raw("bfloat16")]
    many = [sparse("a", CHUNK + 9, [3, CHUNK, CHUNK + 2]), sparse("b", 9, [1, 8])]
    data = write(many, mixed, values)
    yield valid("codecs-mixed", "Each entry with codecs of its own, also within a tensor.", data)


def _fused() -> Iterator[Case]:
    two = [sparse("a", 3, [0, 2]), sparse("b", 5, [4], first=2)]
    yield valid("fused-2", "Two tensors in one entry.", write(two, groups=["ab"]), two)
    yield valid("fused-rice", "Two tensors in one entry, Rice-coded.", write(two, Rice(), groups=["ab"]), two)
    digits = [Tensor(str(n), t.dtype, t.shape, t.indices, t.values) for n, t in enumerate(two)]
    yield valid("fused-no-names", "Fused and without names.", write(two, groups=["ab"], names=False), digits)
    full = [sparse("a", 3, [0, 1, 2]), sparse("b", 2, [0, 1])]
    yield valid("fused-full", "All elements present: no index section.", write(full, groups=["ab"]), full)
    none = [sparse("a", 3, []), sparse("b", 2, [])]
    yield valid("fused-absent", "No element present.", write(none, groups=["ab"]), none)
    zero = [EMPTY, sparse("b", 2, [1]), sparse("c", 0, []), sparse("d", 1, [0])]
    yield valid("fused-size-0", "Members without elements.", write(zero, groups=["abcd"]), zero)
    none = [sparse("a", 0, []), sparse("b", 0, [])]
    yield valid(
        "fused-all-size-0", "Nothing but members without elements: d = 0.", write(none, groups=["ab"]), none
    )
    five = [sparse(name, 4 + n, [n, n + 2], first=3 * n) for n, name in enumerate("abcde")]
    yield valid(
        "fused-2-groups",
        "Two groups whose keys alternate, and a tensor alone.",
        write(five, groups=["bd", "ae"]),
        five,
    )
    square = [
        Tensor("a", "float64", (2, 2), [3], values_for(1, "float64")),
        sparse("b", 3, [0, 1], "float64"),
    ]
    shaped = [*square, Tensor("c", "float64", (), [0], values_for(1, "float64"))]
    yield valid("fused-shapes", "Members with shapes.", write(shaped, groups=["abc"]), shaped)
    yield valid(
        "fused-qsgd", "One quantised value section.", write(five, Rice(), Qsgd(), groups=["abcde"], seed=3)
    )


def _crowds() -> Iterator[Case]:
    """Yield containers of many tensors: a reader should allocate objects only after all checks."""
    dtypes = ("float32", "float16", "bfloat16", "float64")
    many = []
    for n in range(72):
        r, name = n // 4, f"{n:02}"
        where = [*range(r)] if n % 3 == 0 else [*range(0, 2 * r, 2)]
        many.append(sparse(name, max(where, default=0) + 1 + n % 2, where, dtypes[n % 4], first=5 * n))
    yield exact("crowd", "72 small tensors of all types, up to 17 elements present.", many, many=True)
    yield valid("crowd-unnamed", "The same without names.", write(many, names=False), many)
    schema = {t.name: (t.shape, t.dtype) for t in many}
    yield valid("crowd-schema", "The same under a schema.", write(many, names=False), many, schema=schema)
    shaped = [
        Tensor(f"{n:02}", "float32", (2, 3) if n % 2 else (6,), [n % 6], values_for(1, "float32", n))
        for n in range(66)
    ]
    yield exact("crowd-shapes", "Every other one of 66 small tensors is 2-d.", shaped, many=True)
    pairs = [sparse(f"{n:03}", 4 + n % 3, [n % 4], first=n) for n in range(140)]
    groups = [(pairs[2 * n].name, pairs[2 * n + 1].name) for n in range(70)]
    yield valid("crowd-fused", "70 fused entries of two members each.", write(pairs, groups=groups), pairs)


def _extension() -> Iterator[Case]:
    one = [sparse("a", 4, [1])]
    yield exact("tag", "A tag of 5 bytes, padded.", [sparse("0", 4, [1])], tag=b"step7")
    yield exact("tag-8", "A tag of 8 bytes.", [sparse("0", 4, [1])], tag=bytes(range(248, 256)))
    unknown = [
        Record(UNKNOWN_RECORD, 0, b""),
        Record(UNKNOWN_RECORD + 1, 0, b"x" * 9),
        Record(0xFFFF, 0, b"y" * 8),
    ]
    yield valid("record-unknown", "Unknown records that are not critical.", write(one, extra=unknown), one)
    alone = assemble([Row(0, 0, 2, 0, 1, 1, 1)], write_extension_block([Record(UNKNOWN_RECORD, 0, b"")]))
    yield valid("record-unknown-alone", "An extension block with an empty unknown record.", alone)
    all_known = [Tensor("a", "float32", (1, 2), [1], values_for(1, "float32")), sparse("b", 2, [0])]
    data = write(all_known, groups=["ab"], tag=b"t")
    yield valid("records-all", "Every record of version 1.0.", data, all_known, tag=b"t")


def _limits() -> Iterator[Case]:
    three = _three()
    data = write(three)
    limits = {"max_bytes": len(data), "max_entries": 3, "max_elements": 6, "max_dense": 34}
    yield valid("limits-met", "Limits are inclusive.", data, three, limits=limits)
    fused = write([*three[:1], sparse("b", 20, spread(3, 20)), sparse("c", 4, [3])], groups=["abc"])
    about = "An entry of three members: the two that are not the first count as entries do."
    yield valid("limit-entries-fused", about, fused, limits={"max_entries": 3})
    row = Row(0, 0, 10_000, 10_000, 2, 1, 4, value_section=zeros(10_000))
    data = assemble([row])
    limits = {"max_expansion": -(-10_000 // len(data))}
    yield valid("limit-expansion-met", "Many elements from few bytes, within the limit.", data, limits=limits)
    tight = assemble([Row(0, 0, 104, 104, 2, 1, 4, value_section=zeros(104))])
    about = "104 elements in 104 bytes: max_expansion = 1 is met exactly."
    yield valid("limit-expansion-equal", about, tight, limits={"max_expansion": 1})
    limits, schema = {"max_expansion": 1}, {"w": ((10_000,), "float16")}
    about = "A schema vouches for the sizes: max_expansion is not applied."
    yield valid("schema-expansion", about, data, limits=limits, schema=schema)


def zeros(r: int) -> bytes:
    """Return a qsgd section of zeros at 2 bits: level 0 is code 1."""
    words = 16 * 2 * (r // 512) + -(-(r % 512) * 2 // 32)
    tail = r % 512 * 2 % 32
    last = (0x55555555 & ((1 << tail) - 1)).to_bytes(4, "little") if tail else b""
    head = bytes([2, 0, 0, 0]) + (2**24).to_bytes(4, "little") + bytes(4)
    return head + b"\x55" * (4 * words - len(last)) + last


def _schemas() -> Iterator[Case]:
    three = _three()
    schema = {"c": ((4,), "float64"), "a": ((10,), "float32"), "b": ((20,), "float16")}
    yield valid("schema", "The tensors that the schema expects.", write(three), three, schema=schema)
    data = write(three, names=False)
    yield valid(
        "schema-names", "The schema gives the names, in ascending byte order.", data, three, schema=schema
    )
    odd = [sparse("\uffff", 3, [0]), sparse("\U00010000", 4, [1])]
    schema = {"\U00010000": ((4,), "float32"), "\uffff": ((3,), "float32")}
    about = "The schema's names in the order of UTF-8, which is not that of UTF-16."
    yield valid("schema-names-order", about, write(odd, names=False), odd, schema=schema)
    square = [Tensor("w", "float32", (2, 3), spread(2, 6), values_for(2, "float32"))]
    yield valid(
        "schema-shape", "A shape of two dimensions.", write(square), square, schema={"w": ((2, 3), "float32")}
    )
    yield valid("schema-empty", "No tensors, and none expected.", write([]), [], schema={})

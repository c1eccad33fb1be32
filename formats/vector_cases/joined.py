"""Several tensors transformed as one vector: the record joined of version 1.1 (SPEC section 3.11)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from formats.conformance import One
from formats.reference import Limits, Qsgd, Record, Rice, Schema, Spectrum, Tensor, decode, write
from formats.reference.extension import CRITICAL, JOINED
from formats.reference.table import CHUNK
from formats.reference.transform.coefficients import DCT, RFFT, coefficient_count
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.reference.writing.records import write_joined, write_semantics
from formats.vector_cases.annotations import STEP, digest, meta
from formats.vector_cases.case import RAW, Case, sparse, spread, valid
from formats.vector_cases.transforms import DTYPES, NAMED, find_tolerance, read_numbers, spectrum

MINOR = 1
TURNING = [4.0, -4.0] * 8
"""Elements of the vector of 16 whose last bin alone is present, with real part 16."""


def vector(
    domain: int,
    sizes: dict[str, int],
    indices: Sequence[int] | None = None,
    dtype: str = "float32",
    *,
    shapes: dict[str, tuple[int, ...]] | None = None,
    numbers: Sequence[float] | None = None,
) -> list[Spectrum | Tensor]:
    """Return the members of a joined vector; the first one has its coefficients.

    Args:
        domain: domain of the transform.
        sizes: elements of each member by name, ascending.
        indices: indices of the coefficients present; None for all.
        dtype: the element type.
        shapes: of members that do not have one dimension, by name.
        numbers: the coefficients' components; None for the fixed sequence.
    """
    dims = {name: (size,) for name, size in sizes.items()} | (shapes or {})
    whole = spectrum(domain, sum(sizes.values()), indices, dtype, numbers=numbers)
    members: list[Spectrum | Tensor] = [Tensor(name, dtype, dims[name], [], b"") for name in sizes]
    first = next(iter(sizes))
    members[0] = replace(whole, name=first, shape=dims[first])
    return members


def joined(
    id: str,
    about: str,
    *vectors: Sequence[Spectrum | Tensor],
    others: Sequence[Spectrum | Tensor] = (),
    groups: Sequence[Sequence[str]] = (),
    index: Index = "raw-index",
    value: ValueWriter = RAW,
    elements: Sequence[float] | None = None,
    names: bool = True,
    tag: bytes = b"",
    extra: Sequence[Record] = (),
    limits: dict[str, int] | None = None,
    schema: Schema | None = None,
) -> Case:
    """Build the case of a container with joined vectors that readers must accept.

    Args:
        id: name of the vector and of its file.
        about: one line on what the vector tests.
        vectors: members of each joined vector, from ``vector``.
        others: tensors that are not joined.
        groups: names of those that share an entry.
        index, value: codecs of all entries.
        elements: elements of the first vector, if they are known by hand.
        names, tag, extra, limits, schema: as for ``write`` and ``valid``.

    Raises:
        AssertionError: if the reference's elements are not near those known by hand.
    """
    tensors = [t for members in [*vectors, others] for t in members]
    parts = [[t.name for t in members] for members in vectors]
    data = write(tensors, index, value, joined=parts, groups=groups, names=names, tag=tag, extra=extra)
    found = decode(data, Limits(**(limits or {})), schema).tensors
    ordered = sorted(tensors, key=lambda t: t.name.encode("utf-8"))
    heads = {t.name: members[0] for members in vectors for t in members}
    within = [find_tolerance(heads.get(a.name, a), b) for a, b in zip(ordered, found, strict=True)]
    if elements is not None:
        keys = [n for n, t in enumerate(ordered) if t.name in parts[0]]
        decoded = [x for n in keys for x in read_numbers(found[n])]
        far = [abs(a - b) for a, b in zip(elements, decoded, strict=True)]
        if max(far) > within[keys[0]]:
            raise AssertionError(f"{id} decodes to elements {max(far)} off")
    return valid(id, about, data, None, limits=limits, schema=schema, tag=tag, within=within)


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _members()
    yield from _by_hand()
    yield from _mixed()
    yield from _record()


def _members() -> Iterator[Case]:
    about = "Two tensors of 3 and 5 elements as one vector of 8, with all bins."
    yield joined("joined", about, vector(RFFT, {"a": 3, "b": 5}))
    for domain, name in NAMED.items():
        for dtype in DTYPES:
            some = vector(domain, {"a": 10, "b": 1, "c": 13}, spread(5, 13, domain), dtype)
            yield joined(f"joined-{name}-{dtype}", f"5 coefficients of 24 {dtype} elements.", some)
        for id, sizes in (("first", (0, 6, 5)), ("middle", (6, 0, 5)), ("last", (6, 5, 0))):
            some = vector(domain, dict(zip("abc", sizes, strict=True)), [1, 3])
            yield joined(f"joined-{name}-size-0-{id}", f"A member without elements: {id}.", some)
        none = vector(domain, {"a": 0, "b": 0})
        yield joined(f"joined-{name}-size-0", "No member has an element.", none)
        absent = vector(domain, {"a": 5, "b": 7}, [])
        about = "No coefficient, so no element of a member is present."
        yield joined(f"joined-{name}-absent", about, absent)
        absent = vector(domain, {"a": 5, "b": CHUNK}, [])
        about = "Several chunks, without a coefficient."
        yield joined(f"joined-{name}-chunks-absent", about, absent)
        many = vector(domain, {f"{n:02}": n % 4 for n in range(40)}, [0, 2, 5])
        yield joined(f"joined-{name}-many", "40 members of 0 to 3 elements.", many)


def _by_hand() -> Iterator[Case]:
    last = vector(RFFT, {"a": 3, "b": 13}, [8], numbers=[16.0, 0.0])
    about = "The last bin alone: 4, -4, 4, and on with -4 in the second member."
    yield joined("joined-nyquist", about, last, elements=TURNING)
    padded = vector(RFFT, {"a": 3, "b": 4}, [4], numbers=[math.sqrt(8) * 3, 0.0])
    about = "7 elements have the bins of 8: the vector is filled up, and no member is."
    yield joined("joined-padded", about, padded, elements=[3.0, -3.0] * 3 + [3.0])
    half = vector(DCT, {"a": 1, "b": 1}, [1], numbers=[math.sqrt(8)])
    yield joined("joined-dct-2", "Two scalars: 2, -2.", half, elements=[2.0, -2.0])
    apart = vector(RFFT, {"a": 3, "d": 13}, [8], numbers=[16.0, 0.0])
    others: list[Spectrum | Tensor] = [sparse("b", 4, [1]), spectrum(DCT, 2, [1], name="c")]
    about = "Tensors of the keys between the members are none."
    yield joined("joined-apart", about, apart, others=others, elements=TURNING)


def _mixed() -> Iterator[Case]:
    first = vector(
        RFFT, {"a": 6, "d": 12, "i": 1}, spread(6, coefficient_count(RFFT, 19)), shapes={"a": (2, 3), "i": ()}
    )
    second = vector(DCT, {"b": 4, "h": 5}, [0, 2, 5], "float16")
    plain: list[Spectrum | Tensor] = [
        sparse("c", 9, [4, 8]),
        sparse("e", 4, [0]),
        sparse("f", 2, [1]),
        spectrum(RFFT, 5, [1], name="g"),
    ]
    about = "Two vectors, a fused entry, a transformed tensor, and a plain one; names, shapes and a tag."
    yield joined("joined-mixed", about, first, second, others=plain, groups=["ef"], tag=b"mixed")
    value = Qsgd(bits=6, bucket=16)
    some = vector(RFFT, {"a": 17, "b": 23}, spread(9, coefficient_count(RFFT, 40)))
    yield joined(
        "joined-rice-qsgd", "Coefficients of a vector in other codecs.", some, index=Rice(), value=value
    )
    two = {"a": ((2, 3), "float32"), "b": ((5,), "float32")}
    schema: Schema = dict(two)
    some = vector(RFFT, {"a": 6, "b": 5}, [0, 3], shapes={"a": (2, 3)})
    yield joined("joined-schema", "A schema of the members.", some, names=False, schema=schema)
    about = "The digest of the members."
    yield joined("joined-digest", about, some, names=False, schema=schema, extra=[digest(schema)])
    about = "Metadata of members."
    yield joined("joined-meta", about, some, extra=[meta((0, b"unit", b"m"), (1, b"unit", b"s"), STEP)])
    extra = [Record(9, CRITICAL, write_semantics([(2, 1)]))]
    others = [sparse("c", 4, [1])]
    yield joined("joined-patch", "A patch beside a vector.", some, others=others, extra=extra)


def _record() -> Iterator[Case]:
    some = vector(RFFT, {"a": 6, "b": 5}, [0, 3])
    for id, about, limits in (
        ("entries", "A vector of two members counts as two entries.", {"max_entries": 2}),
        ("elements", "The elements are those of the vector: 7 bins.", {"max_elements": 14, "max_dense": 14}),
    ):
        yield joined(f"joined-{id}-met", about, some, limits=limits)
    absent = vector(RFFT, {"a": 6, "b": 5}, [])
    about = "Without a coefficient no element is stored."
    yield joined("joined-elements-absent", about, absent, limits={"max_elements": 0, "max_expansion": 0})
    about = "The record has the same rules under minor 0."
    data = write(some, joined=["ab"], minor=0)
    within = [find_tolerance(some[0], t) for t in decode(data).tensors]
    yield valid("joined-minor-0", about, data, within=within)
    body = write_joined([[(0, 6), (1, 5)]])
    about = (
        "A joined record that is not critical has an unknown type, as in version 1.0: there is one tensor."
    )
    whole = spectrum(RFFT, 11, [0, 3])
    data = write([whole], names=False, extra=[Record(JOINED, 0, body)])
    within = [find_tolerance(whole, t) for t in decode(data).tensors]
    yield valid("joined-not-critical", about, data, within=within)
    yield valid("joined-not-critical-one", about, data, within=within, one=One(((11,), "float32")))

"""Tensors stored as coefficients: SPEC section 3.5 and the pages under spec/transform/.

Their elements have a tolerance.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

from formats.reference import (
    Binned,
    Bloom,
    Context,
    Delta,
    EliasFano,
    Huffman,
    Limits,
    Qsgd,
    Raw,
    Record,
    Rice,
    Rle,
    Row,
    Schema,
    SignScale,
    Spectrum,
    Structured,
    Tensor,
    assemble,
    decode,
    write,
)
from formats.reference.floats import BY_NAME, to_float, unpack_elements
from formats.reference.table import CHUNK
from formats.reference.transform.coefficients import (
    COMPONENTS,
    DCT,
    RFFT,
    coefficient_count,
    smooth_length,
    stored_type,
    tolerance,
)
from formats.reference.writing.assembly import write_extension_block
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.reference.writing.records import write_fused
from formats.reference.writing.transform.coefficients import write_lengths
from formats.vector_cases.case import RAW, Case, rice, sparse, spread, valid, values_for, values_of

FUSED, NAMES, SHAPES, TRANSFORM = 1, 2, 3, 4
NAMED = {RFFT: "rfft", DCT: "dct"}
DTYPES = ("float32", "float16", "bfloat16", "float64")
INDEX: dict[str, Index] = {
    **{"raw-index": "raw-index", "bitmap": "bitmap", "rice": Rice(), "rle": Rle(), "delta": Delta()},
    **{"huffman": Huffman(), "elias-fano": EliasFano(), "binned": Binned(7), "bloom": Bloom("p0", 0.01)},
    **{"structured": Structured(), "context": Context()},
}
VALUE: dict[str, ValueWriter] = {
    **{"qsgd": Qsgd(bits=6, bucket=16), "sign-scale": SignScale()},
    **{"raw-float16": Raw("float16"), "raw-bfloat16": Raw("bfloat16")},
}


def cases() -> Iterator[Case]:
    """Yield all cases of this module."""
    yield from _lengths()
    yield from _types()
    yield from _by_hand()
    yield from _codecs()
    yield from _tensors()
    yield from _limits()


def spectrum(
    domain: int,
    n: int,
    indices: Sequence[int] | None = None,
    dtype: str = "float32",
    *,
    name: str = "0",
    shape: tuple[int, ...] | None = None,
    numbers: Sequence[float] | None = None,
) -> Spectrum:
    """Return a tensor of n elements as coefficients.

    Args:
        domain: domain of the transform.
        n: number of elements.
        indices: indices of the coefficients present; None for all.
        dtype: the tensor's element type.
        name: its name.
        shape: its shape; None for one dimension.
        numbers: the coefficients' components; None for the fixed sequence.
    """
    where = range(coefficient_count(domain, n)) if indices is None else indices
    stored = stored_type(domain, BY_NAME[dtype]).name
    given = values_for(len(where) * COMPONENTS[domain], stored, n)
    if numbers is not None:
        given = (
            struct.pack(f"<{len(numbers)}d", *numbers) if stored == "float64" else values_of(numbers, stored)
        )
    return Spectrum(name, dtype, (n,) if shape is None else shape, where, given, domain)


def transformed(
    id: str,
    about: str,
    tensors: Sequence[Spectrum | Tensor],
    index: Index = "raw-index",
    value: ValueWriter = RAW,
    *,
    elements: Sequence[float] | None = None,
    names: bool = False,
    tag: bytes = b"",
    limits: dict[str, int] | None = None,
    schema: Schema | None = None,
) -> Case:
    """Build the case of a container of coefficients that readers must accept.

    Args:
        id: name of the vector and of its file.
        about: one line on what the vector tests.
        tensors: the tensors, in the order of their names.
        index: the index codec of all entries.
        value: the value codec of all entries.
        elements: elements of the first tensor, if they are known by hand.
        names: whether there is a names record.
        tag: application data; empty for none.
        limits: the reader's limits that differ from the defaults.
        schema: the reader's schema.

    Raises:
        AssertionError: if the reference's elements are not near those known by hand.
    """
    data = write(tensors, index, value, names=names, tag=tag)
    decoded = decode(data, Limits(**(limits or {})), schema).tensors
    within = [find_tolerance(given, found) for given, found in zip(tensors, decoded, strict=True)]
    if elements is not None:
        far = [abs(a - b) for a, b in zip(elements, read_numbers(decoded[0]), strict=True)]
        if max(far) > within[0]:
            raise AssertionError(f"{id} decodes to elements {max(far)} off")
    return valid(id, about, data, None, limits=limits, schema=schema, tag=tag, within=within)


def read_numbers(t: Tensor) -> list[float]:
    """Return the elements of a decoded tensor."""
    dtype = BY_NAME[t.dtype]
    return [to_float(bits, dtype) for bits in unpack_elements(t.values, dtype.itemsize)]


def find_tolerance(given: Spectrum | Tensor, found: Tensor) -> float:
    """Return the tolerance of a reader, plus a rounding to the element type."""
    if not isinstance(given, Spectrum) or not len(found.indices):
        return 0.0
    dtype = BY_NAME[given.dtype]
    largest = max(map(abs, read_numbers(found)))
    rounding = math.ldexp(1.0, math.frexp(largest)[1] - dtype.fraction_bits - 1)
    return float(f"{tolerance(stored_type(given.domain, dtype), given.values) + rounding:.3e}")


def _lengths() -> Iterator[Case]:
    for domain, name in NAMED.items():
        for n in (1, 2, 3, 4, 5, 7, 9, 11, 13, 15, 16):
            m = smooth_length(n)
            about = (
                f"{n} elements, filled up to {m}, all coefficients."
                if m > n
                else f"{n} elements, all of {m}."
            )
            yield transformed(f"{name}-n{n}", about, [spectrum(domain, n)])
        empty = spectrum(domain, 0)
        yield transformed(f"{name}-size-0", "A tensor without elements has no coefficients.", [empty])
        absent = spectrum(domain, 12, [])
        yield transformed(f"{name}-absent", "No coefficient, so no element is present.", [absent])
        n = CHUNK + 1
        absent = spectrum(domain, n, [])
        yield transformed(f"{name}-chunks-absent", "Several chunks, without a coefficient.", [absent])


def _types() -> Iterator[Case]:
    for domain, name in NAMED.items():
        for dtype in DTYPES:
            some = spectrum(domain, 24, spread(5, coefficient_count(domain, 24), domain), dtype)
            about = f"5 coefficients of 24 {dtype} elements."
            yield transformed(f"{name}-{dtype}", about, [some])
            most = {"float16": 1e6, "float64": 2.0**1000}.get(dtype, 3.4e38)
            numbers = [most] * (3 * COMPONENTS[domain])
            large = spectrum(domain, 24, [1, 2, 4], dtype, numbers=numbers)
            about = "Elements beyond the type's range are cut to it."
            if dtype == "float64":
                about = "Coefficients of 2^1000, the largest."
            yield transformed(f"{name}-largest-{dtype}", about, [large])
        least = spectrum(domain, 24, [1, 4], "float64", numbers=[-(2.0**1000)] * (2 * COMPONENTS[domain]))
        yield transformed(f"{name}-least-float64", "Coefficients of -2^1000, the smallest.", [least])
        tiny = spectrum(domain, 4, [1], numbers=[1e-45] * COMPONENTS[domain])
        yield transformed(f"{name}-subnormal", "The smallest coefficient of binary32.", [tiny])


def _by_hand() -> Iterator[Case]:
    four = [4.0] * 16
    for domain, name in NAMED.items():
        constant = spectrum(domain, 16, [0], numbers=[16.0, 0.0][: COMPONENTS[domain]])
        yield transformed(f"{name}-constant", "Coefficient 0 alone: 4, 4, 4.", [constant], elements=four)
    turning = [4.0, -4.0] * 8
    last = spectrum(RFFT, 16, [8], numbers=[16.0, 0.0])
    yield transformed("rfft-nyquist", "The last bin alone: 4, -4, 4.", [last], elements=turning)
    both = spectrum(RFFT, 16, [0, 8], numbers=[16.0, 99.0, 16.0, -7.0])
    about = "The imaginary parts of the first bin and of the last have no effect."
    yield transformed("rfft-ignored", about, [both], elements=[8.0, 0.0] * 8)
    odd = spectrum(RFFT, 9, [0, 4], numbers=[6.0, 5.0, 0.0, -3.0])
    wave = [2 + math.sqrt(2) * math.sin(2 * math.pi * 4 * j / 9) for j in range(9)]
    about = "The last bin of an odd length is complex like the others."
    yield transformed("rfft-odd-last", about, [odd], elements=wave)
    quarter = spectrum(RFFT, 16, [4], numbers=[math.sqrt(8), 0.0])
    wave = [1.0, 0.0, -1.0, 0.0] * 4
    yield transformed("rfft-cosine", "Bin 4 of 16, real: 1, 0, -1, 0.", [quarter], elements=wave)
    quarter = spectrum(RFFT, 16, [4], numbers=[0.0, math.sqrt(8)])
    wave = [0.0, -1.0, 0.0, 1.0] * 4
    yield transformed("rfft-sine", "Bin 4 of 16, imaginary: 0, -1, 0, 1.", [quarter], elements=wave)
    padded = spectrum(RFFT, 7, [4], numbers=[math.sqrt(8) * 3, 0.0])
    wave = [3.0, -3.0] * 3 + [3.0]
    yield transformed(
        "rfft-padded", "The last bin of 8, of which 7 elements are wanted.", [padded], elements=wave
    )
    half = spectrum(DCT, 2, [1], numbers=[math.sqrt(8)])
    yield transformed("dct-2", "Two elements: 2, -2.", [half], elements=[2.0, -2.0])


def _codecs() -> Iterator[Case]:
    for domain, name in NAMED.items():
        d = coefficient_count(domain, 40)
        for index, writer in INDEX.items():
            some = spectrum(domain, 40, spread(6, d, 7))
            yield transformed(f"{name}-{index}", f"{index} indices of coefficients.", [some], writer)
        for value, codec in VALUE.items():
            for dtype in ("float32", "float16", "float64"):
                some = spectrum(domain, 40, spread(9, d, 3), dtype)
                about = f"{value} of {dtype} elements' coefficients, which are not of 16 bits."
                yield transformed(f"{name}-{value}-{dtype}", about, [some], Rice(), codec)
        foreign = spectrum(domain, 40, spread(6, d, 8))
        yield transformed(f"{name}-rice-foreign", "A foreign Rice parameter.", [foreign], rice(3))


def _tensors() -> Iterator[Case]:
    for domain, name in NAMED.items():
        some = spectrum(domain, 12, [0, 2], shape=(3, 4))
        yield transformed(f"{name}-shape", "The shape is the tensor's.", [some])
        scalar = spectrum(domain, 1, [0], shape=())
        yield transformed(f"{name}-shape-0d", "No dimensions.", [scalar])
        schema: Schema = {"w": ((3, 7), "float16")}
        some = spectrum(domain, 21, [1, 3], "float16", name="w", shape=(3, 7))
        yield transformed(
            f"{name}-schema", "A schema of the tensor, not of its coefficients.", [some], schema=schema
        )
    mixed: list[Spectrum | Tensor] = [
        spectrum(RFFT, 20, [2, 5], name="a"),
        sparse("b", 9, [4, 8]),
        spectrum(DCT, 18, [0, 9, 17], "float64", name="c", shape=(2, 9)),
        sparse("d", 5, [0], "float16"),
        spectrum(RFFT, 0, name="e"),
    ]
    about = "Transformed tensors between plain ones; every record but fused."
    yield transformed("transforms-mixed", about, mixed, names=True, tag=b"mixed")
    crowd: list[Spectrum | Tensor] = []
    for n in range(68):
        dtype, size = DTYPES[n % 4], 1 + n // 4
        if n % 5 == 4:
            crowd.append(sparse(f"{n:02}", size, [size - 1], dtype))
        else:
            domain = (RFFT, DCT)[n % 2]
            where = None if n % 3 else range(0, coefficient_count(domain, size), 2)
            crowd.append(spectrum(domain, size, where, dtype, name=f"{n:02}"))
    yield transformed(
        "transforms-crowd", "68 small tensors, most of them as coefficients.", crowd, names=True
    )
    body = write_lengths([(2, 12)])
    rows = [Row(n, 0, 2, 2, 1, 1, 1, value_section=values_for(2, "float32")) for n in (0,)]
    coefficients = values_for(12, "float32", 30)
    rows.append(Row(2, 0, 12, 12, 0x21, 1, 1, value_section=coefficients))
    records = [Record(FUSED, 1, write_fused([[(0, 1), (1, 1)]])), Record(TRANSFORM, 1, body)]
    far = tolerance(BY_NAME["float32"], coefficients) + 1e-4
    about = "A fused entry and a transformed tensor."
    yield valid("transform-fused", about, assemble(rows, write_extension_block(records)), within=[0, 0, far])


def _limits() -> Iterator[Case]:
    for domain, name, numbers in ((RFFT, "rfft", 26), (DCT, "dct", 24)):
        one = spectrum(domain, 24, [3])
        limits = {"max_elements": numbers, "max_dense": numbers}
        about = f"{numbers} elements are counted, all stored, though one coefficient is present."
        yield transformed(f"{name}-limits-met", about, [one], limits=limits)
        absent = spectrum(domain, 24, [])
        limits = {"max_elements": 0, "max_expansion": 0, "max_dense": numbers}
        about = "Without a coefficient no element is stored."
        yield transformed(f"{name}-limits-absent", about, [absent], limits=limits)

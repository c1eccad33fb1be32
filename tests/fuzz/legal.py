"""Generator of valid containers, independent of the library's encoder.

``draw_container`` draws tensors, coefficients and codecs, and the reference writer assembles them. The
library never writes some of the forms: foreign parameters, one codec per entry, unknown
records, higher minor versions. The only source of randomness is a ``random.Random``, so a seed determines a
container.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from formats import reference
from formats.reference.element_types import RECORD_TYPES, TYPE_NAMED
from formats.reference.floats import BY_NAME
from formats.reference.table import CHUNK
from formats.reference.transform.coefficients import (
    COMPONENTS,
    DCT,
    PLAIN,
    RFFT,
    coefficient_count,
    stored_type,
)
from formats.reference.writing.container import Index
from formats.reference.writing.protocols import ValueWriter
from formats.reference.writing.records import write_meta, write_semantics
from wirecodec.element_types import dtype_named

DTYPES = ("float32", "float16", "bfloat16", "float64")
RECORD_DTYPES = tuple(t.name for t in RECORD_TYPES)
STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE)
POLICIES = ("naive", "p0", "p1", "leftmost", "middle", "rightmost")
ROUNDINGS = ("nearest", "stochastic")
SMALL = 10_000
"""Maximum elements for codecs whose size or time depends on absent elements."""

Member = reference.Tensor | reference.Spectrum


def draw_container(rng: Random) -> bytes:
    """Draw a valid container of at most four tensors."""
    given = [_tensor(rng, n) for n in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 4)))]
    given.sort(key=lambda pair: pair[0].name.encode())
    joined = _join(rng, given)
    tensors = [tensor for tensor, _ in given]
    groups = _groups(rng, [tensor for tensor in tensors if tensor.name not in joined])
    index: list[Index] = []
    value: list[ValueWriter] = []
    for tensor in tensors:
        members = next((g for g in groups if tensor.name in g), [tensor.name])
        if members[0] != tensor.name or tensor.name in joined[1:]:
            continue
        finite = all(its for other, its in given if other.name in members)
        d, chunks = _extent(tensor)
        for _ in range(chunks):
            index.append(_index(rng, d))
            value.append(_value(rng, finite, tensor))
    later = rng.choice(((), (), (), (reference.Record(77, 0, b"later"),)))
    return reference.write(
        tensors,
        index,
        value,
        seed=rng.getrandbits(64),
        names=rng.random() < 0.5,
        tag=rng.randbytes(rng.choice((0, 0, 0, 1, 8, 9))),
        groups=groups,
        joined=[joined] if joined else [],
        minor=rng.choice((0, 0, 0, 1, 255)),
        flags=rng.choice((0, 0, 0, 0x100, 0xFF00)),
        extra=[*later, *_annotations(rng, tensors, joined)],
    )


def _join(rng: Random, given: list[tuple[Member, bool]]) -> list[str]:
    """Replace some tensors by the members of a joined vector, or none; return their names."""
    if len(given) < 2 or rng.random() < 0.8:
        return []
    places = sorted(rng.sample(range(len(given)), rng.randint(2, len(given))))
    names, sizes = [given[place][0].name for place in places], [rng.randint(0, 30) for _ in places]
    dtype, domain = rng.choice(DTYPES), rng.choice((RFFT, DCT))
    for place, name, size in zip(places, names, sizes, strict=True):
        given[place] = reference.Tensor(name, dtype, _shape(rng, size), [], b""), True
    whole = _spectrum(rng, names[0], dtype, sum(sizes), domain)
    whole.shape = given[places[0]][0].shape
    given[places[0]] = whole, True
    return names


def _annotations(rng: Random, tensors: list[Member], joined: list[str]) -> list[reference.Record]:
    """Draw records of version 1.1: metadata, and patches among the tensors that are no coefficients."""
    records = []
    keys = [*range(len(tensors)), 0xFFFFFFFF]
    names = sorted({rng.randbytes(rng.randint(1, 3)).hex().encode() for _ in range(3)})
    if rng.random() < 0.2:
        rows = [(key, name, rng.randbytes(rng.randrange(5)).hex().encode()) for key in keys for name in names]
        records.append(reference.Record(7, 0, write_meta(rows)))
    plain = [key for key, t in enumerate(tensors) if isinstance(t, reference.Tensor) and t.name not in joined]
    if plain and rng.random() < 0.2:
        chosen = sorted(rng.sample(plain, rng.randint(1, len(plain))))
        records.append(reference.Record(9, 1, write_semantics([(key, 1) for key in chosen])))
    return records


def _tensor(rng: Random, n: int) -> tuple[Member, bool]:
    """Draw a tensor or its coefficients; also return whether all its numbers are finite."""
    name, dtype = f"{rng.choice('abcäz')}{n}", rng.choice(DTYPES)
    domain = rng.choices((PLAIN, RFFT, DCT), (10, 1, 1))[0]
    if domain:
        size = rng.choice((rng.randint(0, 9), rng.randint(0, 64)))
        return _spectrum(rng, name, dtype, size, domain), True
    d = rng.choices((70, 900, 9000, CHUNK, 2 * CHUNK), (50, 38, 6, 5, 1))[0]
    d = rng.randint(0, d)
    where = _support(rng, d)
    if rng.random() < 0.15:  # a type that lossless codecs alone carry
        dtype = rng.choice(RECORD_DTYPES)
        elements = rng.randbytes(len(where) * TYPE_NAMED[dtype].itemsize)
        if dtype == "bool":
            elements = bytes(byte & 1 for byte in elements)
        return reference.Tensor(name, dtype, _shape(rng, d), where, elements), False
    finite = rng.random() < 0.8
    numbers = (
        _numbers(rng, dtype, len(where)) if finite else rng.randbytes(len(where) * BY_NAME[dtype].itemsize)
    )
    return reference.Tensor(name, dtype, _shape(rng, d), where, numbers), finite


def _spectrum(rng: Random, name: str, dtype: str, size: int, domain: int) -> reference.Spectrum:
    """Draw the coefficients of a tensor."""
    where = _support(rng, coefficient_count(domain, size))
    stored = stored_type(domain, BY_NAME[dtype]).name
    numbers = _numbers(rng, stored, len(where) * COMPONENTS[domain])
    return reference.Spectrum(name, dtype, _shape(rng, size), where, numbers, domain)


def _shape(rng: Random, d: int) -> tuple[int, ...]:
    shapes = [(d,), (d,), (1, d), (d, 1, 1)]
    return rng.choice(shapes + ([(d // 2, 2)] if d % 2 == 0 else []) + ([()] if d == 1 else []))


def _support(rng: Random, d: int) -> list[int]:
    """Draw ascending indices below d: none, all, a run, a grid, blocks, or any."""
    most = min(d, rng.choices((9, 40, 300, 1500), (30, 50, 15, 2))[0])
    how = rng.randrange(8)
    if d == 0 or how == 0:
        return [0] * (d > 0 and rng.random() < 0.5)
    if how == 1 and d <= 900:
        return list(range(d))
    start, step, r = rng.randrange(d), rng.randint(1, 70), rng.randint(0, most)
    if how == 2:
        return list(range(start, min(d, start + r)))
    if how == 3:
        return list(range(start, d, step))[:r] if d <= SMALL else [start]
    if how == 4:
        width = rng.choice((2, 3, 8, 16))
        firsts = rng.sample(range(-(-d // width)), min(-(-d // width), r // width + 1))
        return sorted(i for f in firsts for i in range(f * width, min(d, f * width + width)))
    if how == 5 and d <= 900:
        absent = set(rng.sample(range(d), rng.randint(0, min(d, 9))))
        return [i for i in range(d) if i not in absent]
    return sorted(rng.sample(range(d), r))


def _numbers(rng: Random, dtype: str, n: int) -> bytes:
    """Draw finite elements of many magnitudes, some or all of them zero."""
    draws = np.random.default_rng(rng.getrandbits(32))
    x = draws.laplace(size=n) * 10.0 ** rng.randint(-45, 4)
    x *= draws.random(n) > rng.choice((0, 0, 0.5, 1))
    return x.clip(-6e4, 6e4).astype(dtype_named(dtype)).tobytes()


def _groups(rng: Random, tensors: list[Member]) -> list[list[str]]:
    """Draw groups of tensors to fuse: none, or the names of all plain tensors of each type."""
    if rng.random() < 0.6:
        return []
    alike: dict[str, list[Any]] = {}
    for tensor in tensors:
        if isinstance(tensor, reference.Tensor) and _extent(tensor)[0] <= SMALL:
            alike.setdefault(tensor.dtype, []).append(tensor)
    return [[t.name for t in group] for group in alike.values() if len(group) > 1]


def _extent(tensor: Member) -> tuple[int, int]:
    """Return (elements or coefficients, chunks)."""
    size = int(np.prod(tensor.shape, dtype=np.int64))
    return size, max(1, -(-size // CHUNK))


def _index(rng: Random, d: int) -> Index:
    """Draw an index codec with default or foreign parameters."""
    return rng.choice(FOR_ANY if d > SMALL else FOR_FEW)(rng)


def _rice(rng: Random) -> Index:
    if rng.random() < 0.4:
        return reference.Rice()
    return reference.Rice(tuple(rng.randint(12, 24) for _ in range(rng.randint(1, 4))))


def _huffman(rng: Random) -> Index:
    m, spare = rng.choice((None, 0, 1, 2, 3)), rng.random() < 0.5
    return reference.Huffman("gaps" if rng.random() < 0.7 else "keys", m, spare)


def _bloom(rng: Random) -> Index:
    """Draw a filter that p2 can read, or one of any rate, k and size."""
    if rng.random() < 0.4:
        return reference.Bloom("p2", 10 ** rng.uniform(-6, -3))
    own = rng.random() < 0.5
    k, words = (None, None) if own else (rng.randint(1, 32), rng.randint(1, 90))
    return reference.Bloom(rng.choice(POLICIES), 10 ** rng.uniform(-6, -0.005), k, words)


def _structured(rng: Random) -> Index:
    """Draw any form that lists present or absent elements, with or without a grain."""
    form, complement = rng.choice((None, 0, 1, 2)), rng.choice((None, False, True))
    parameter = rng.choice((None, rng.randint(0, 24)))
    return reference.Structured(form, complement, rng.choice((None, (1, 0))), parameter)


FOR_ANY: tuple[Callable[[Random], Index], ...] = (
    _rice,
    _rice,
    _huffman,
    lambda rng: reference.Rle(),
    lambda rng: reference.Delta(),
    lambda rng: reference.EliasFano(),
    lambda rng: reference.Binned(rng.randint(500, 16_383)),
)
FOR_FEW: tuple[Callable[[Random], Index], ...] = (
    *FOR_ANY,
    _bloom,
    _bloom,
    _structured,
    _structured,
    lambda rng: "raw-index",
    lambda rng: "bitmap",
    lambda rng: reference.Binned(rng.randint(1, 16_383)),
    lambda rng: reference.Context(rng.choice((None, 0, rng.randint(64, 16_384)))),
)


def _value(rng: Random, finite: bool, tensor: Member) -> ValueWriter:
    """Draw a value codec with default or foreign parameters; a lossless one if a number is not finite."""
    if not finite:
        return rng.choice(LOSSLESS)(rng)
    narrow = isinstance(tensor, reference.Tensor) and BY_NAME[tensor.dtype].itemsize == 2
    return rng.choice(VALUES if narrow else (*VALUES, _narrowing))(rng)


def _narrowing(rng: Random) -> ValueWriter:
    """Draw a codec that stores wider elements in two bytes."""
    return reference.Raw("float16" if rng.random() < 0.5 else "bfloat16")


def _zstd(rng: Random) -> ValueWriter:
    window = rng.choice((None, rng.randint(0, 13 << 3)))
    return reference.Zstd(rng.random() < 0.5, rng.randint(1, 1024), window)


def _deflate(rng: Random) -> ValueWriter:
    flush = rng.choice((0, 0, 7, 1000))
    return reference.Deflate(rng.random() < 0.5, rng.randint(0, 9), rng.choice(STRATEGIES), flush)


def _qsgd(rng: Random) -> ValueWriter:
    return reference.Qsgd(rng.randint(2, 8), 16 * rng.randint(1, 40), rng.choice(("max", "l2")))


def _offset_float(rng: Random) -> ValueWriter:
    """Draw ranges, mantissas and roundings, explicit or chosen by the writer."""
    low, high = (rng.choice((None, None, 0.0, 1e-45, 0.3, 2.0, 3e38)) for _ in range(2))
    eps = rng.choice((None, None, 1e-45, 1e-38, 2.0**-10, 0.3, 3e38))
    mantissa = rng.choice((None, rng.randint(0, 23)))
    low = None if low is None else -low
    return reference.OffsetFloat(rng.randint(2, 16), mantissa, low, high, eps, rng.choice(ROUNDINGS))


def _dexpfit(rng: Random) -> ValueWriter:
    b, d = (rng.choice((rng.uniform(-80, 64), -1e300, 0.0, -0.0)) for _ in range(2))
    return reference.DExpFit(b, d, rng.random() < 0.5, rng.random() < 0.5)


def _error_bounded(rng: Random) -> ValueWriter:
    """Draw any error bound, with the writer's own rows and start or other ones."""
    rows = tuple(sorted(rng.sample(range(26), rng.choice((0, 0, 1, 3)))))
    return reference.ErrorBounded(
        rng.choice((0.01, 0.1, 0.5, 1e-4)), rows, rng.choice((None, rng.randint(0, 57)))
    )


LOSSLESS: tuple[Callable[[Random], ValueWriter], ...] = (lambda rng: reference.Raw(), _deflate, _zstd)
VALUES: tuple[Callable[[Random], ValueWriter], ...] = (
    *LOSSLESS,
    _qsgd,
    _offset_float,
    _dexpfit,
    _error_bounded,
    lambda rng: reference.PolyFit(rng.randint(0, 150), rng.randint(0, 8)),
    lambda rng: reference.SignScale(),
    lambda rng: reference.Mean(),
    lambda rng: reference.TernGrad(rng.choice((None, 2.5, 1.0, 0.01, 1e300))),
    lambda rng: reference.ThreeLC(rng.uniform(1, 1.999)),
    lambda rng: reference.SketchML(rng.choice((rng.randint(2, 9), rng.randint(2, 256)))),
)

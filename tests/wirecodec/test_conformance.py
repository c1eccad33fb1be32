"""The library against the standard: golden vectors both ways, and the reference decoder on thousands of
containers.

The containers come from the reference writer, which is independent of the library's encoder and also writes
legal forms that the library never writes; and from those, broken.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import wirecodec as wc
from formats import conformance, reference
from wirecodec.arrays import dtype_named

VECTORS = list(conformance.load_all())
ENCODED = [v for v in VECTORS if v.encode is not None]


def library(data: bytes, limits: dict[str, int], schema: Any) -> tuple[bytes, list[Any]]:
    """The library behind the contract of formats/conformance.py."""
    decoded = wc.decode_many(data, limits=wc.DecodeLimits(**limits), schema=schema)
    tensors = [
        (name, t.dtype.name, t.shape, range(t.size) if t.is_full else t.indices.tolist(), t.values.tobytes())
        for name, t in decoded.items()
    ]
    return wc.inspect(data).tag, tensors


@pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.id)
def test_golden_vectors(vector: conformance.Vector) -> None:
    assert conformance.check(library, vector) is None


@pytest.mark.parametrize("vector", ENCODED, ids=lambda v: v.id)
def test_golden_vectors_are_what_the_library_writes(vector: conformance.Vector) -> None:
    given = vector.encode
    assert given is not None
    tensors = {}
    for name, dtype, shape, indices, values in given.tensors:
        elements = np.frombuffer(values, dtype_named(dtype))
        tensors[name] = wc.SparseTensor(np.asarray(indices, np.int64), elements, tuple(shape))
    if given.many:
        blob = wc.encode_many(tensors, given.scheme, seed=given.seed, tag=given.tag)
    else:
        (tensor,) = tensors.values()
        blob = wc.encode(tensor, given.scheme, seed=given.seed, tag=given.tag)
    assert blob.tobytes() == vector.data


def test_there_are_vectors_to_write() -> None:
    assert len(ENCODED) >= 60


DTYPES = ["float32", "float16", "bfloat16", "float64"]
WIDTH = {"float32": 4, "float16": 2, "bfloat16": 2, "float64": 8}


@st.composite
def supports(draw: st.DrawFn) -> tuple[int, list[int]]:
    """(d, indices): sparse, dense, runs, empty, full."""
    d = draw(st.one_of(st.integers(0, 70), st.integers(0, 9000), st.integers(0, 2**24)))
    kind = draw(st.integers(0, 4))
    if kind == 0 or d == 0:
        return d, sorted(draw(st.sets(st.integers(0, d - 1), max_size=40))) if d else []
    if kind == 1 and d <= 9000:
        return d, list(range(d))
    start = draw(st.integers(0, d - 1))
    step = draw(st.integers(1, 70))
    count = draw(st.one_of(st.integers(0, 300), st.integers(0, 5000)))
    if kind == 2:
        return d, list(range(start, min(d, start + count)))
    if kind == 3:
        return d, list(range(start, d, step))[:count]
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return d, sorted(set(rng.integers(0, d, min(d, count)).tolist()))


def values_for(draw: Any, dtype: str, r: int, finite: bool) -> bytes:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    if not finite:
        return rng.bytes(r * WIDTH[dtype])
    x = (
        rng.laplace(size=r)
        * 10.0 ** draw(st.integers(-45, 4))
        * (rng.random(r) > draw(st.sampled_from([0, 0.5, 1])))
    )
    return x.clip(-6e4, 6e4).astype(dtype_named(dtype)).tobytes()


def entropy_coders() -> st.SearchStrategy[Any]:
    """Run lengths, varints, Huffman codes: exact ones and foreign ones."""
    huffman = st.builds(
        reference.Huffman,
        st.sampled_from(["gaps", "gaps", "keys"]),
        st.sampled_from([None, 0, 1, 2, 3]),
        st.booleans(),
    )
    return st.one_of(st.just(reference.Rle()), st.just(reference.Delta()), huffman)


@st.composite
def blooms(draw: st.DrawFn) -> Any:
    """A Bloom filter that p2 can read, or one of any rate, k and size."""
    if draw(st.booleans()):
        return reference.Bloom("p2", draw(st.floats(1e-6, 1e-3)))
    policy = draw(st.sampled_from(["naive", "p0", "p1", "leftmost", "middle", "rightmost"]))
    windows, words = draw(st.one_of(st.just((None, None)), st.tuples(st.integers(1, 32), st.integers(1, 90))))
    return reference.Bloom(policy, draw(st.floats(1e-6, 0.99)), windows, words)


@st.composite
def structured_codecs(draw: st.DrawFn) -> reference.Structured:
    """Any form, listing what is present or what is absent, with or without a grain."""
    complement = draw(st.sampled_from([None, False, True]))
    grain = draw(st.sampled_from([None, (1, 0)]))
    parameter = draw(st.one_of(st.none(), st.integers(0, 24)))
    return reference.Structured(draw(st.sampled_from([None, 0, 1, 2])), complement, grain, parameter)


def shaped_codecs() -> st.SearchStrategy[Any]:
    """Structure, high and low bits, bins, learned contexts."""
    binned = st.integers(1, 16_383).map(reference.Binned)
    context = st.one_of(st.none(), st.just(0), st.integers(64, 16_384)).map(reference.Context)
    return st.one_of(structured_codecs(), st.just(reference.EliasFano()), binned, context)


def coders() -> st.SearchStrategy[Any]:
    """Streams and frames of any blocks."""
    deflate = st.builds(
        reference.Deflate,
        st.booleans(),
        st.integers(0, 9),
        st.sampled_from([zlib.Z_DEFAULT_STRATEGY, zlib.Z_FIXED, zlib.Z_HUFFMAN_ONLY, zlib.Z_RLE]),
        st.sampled_from([0, 0, 7, 1000]),
    )
    window = st.one_of(st.none(), st.integers(0, 13 << 3))
    return st.one_of(deflate, st.builds(reference.Zstd, st.booleans(), st.integers(1, 1024), window))


@st.composite
def curves(draw: st.DrawFn) -> Any:
    """Pieces of any length and degree, two exponentials at any rate, or the values in order."""
    rate = st.one_of(st.floats(-80, 64), st.sampled_from([-1e300, 0.0, -0.0]))
    poly = st.builds(reference.PolyFit, st.integers(0, 150), st.integers(0, 8))
    return draw(st.one_of(poly, st.builds(reference.DExpFit, rate, rate, st.booleans(), st.booleans())))


def offset_floats() -> st.SearchStrategy[Any]:
    """Ranges, mantissas and roundings, given and chosen."""
    bound = st.sampled_from([None, None, 0.0, 1e-45, 0.3, 2.0, 3e38])
    return st.builds(
        reference.OffsetFloat,
        st.integers(2, 16),
        st.one_of(st.none(), st.integers(0, 23)),
        bound.map(lambda x: None if x is None else -x),
        bound,
        st.sampled_from([None, None, 1e-45, 1e-38, 2.0**-10, 0.3, 3e38]),
        st.sampled_from(["nearest", "stochastic"]),
    )


def error_bounded() -> st.SearchStrategy[Any]:
    """Any error; rows and starts as a writer finds them, or others."""
    return st.builds(
        reference.ErrorBounded,
        st.sampled_from([0.01, 0.1, 0.5, 1e-4]),
        st.sets(st.integers(0, 25), max_size=3).map(lambda rows: tuple(sorted(rows))),
        st.one_of(st.none(), st.integers(0, 57)),
    )


NORMS = st.sampled_from(["max", "l2"])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "raw": st.just(reference.Raw()),
    "qsgd": st.builds(reference.Qsgd, st.integers(2, 8), st.integers(1, 40).map(lambda n: 16 * n), NORMS),
    "sign-scale": st.just(reference.SignScale()),
    "offset-float": offset_floats(),
    "coder": coders(),
    "curve": curves(),
    "terngrad": st.builds(reference.TernGrad, st.sampled_from([None, 2.5, 1.0, 0.01, 1e300])),
    "3lc": st.builds(reference.ThreeLC, st.floats(1, 2, exclude_max=True)),
    "sketchml": st.builds(reference.SketchML, st.one_of(st.integers(2, 9), st.integers(2, 256))),
    "error-bounded": error_bounded(),
    "mean": st.just(reference.Mean()),
}
LOSSLESS = ("raw", "coder")  # they carry NaN and Inf


@st.composite
def containers(draw: st.DrawFn) -> bytes:
    """A valid container, of forms that the library writes and of others."""
    tensors, index, value = [], [], []
    for n in range(draw(st.integers(0, 3))):
        d, indices = draw(supports())
        dtype = draw(st.sampled_from(DTYPES))
        kind = draw(st.sampled_from(sorted(VALUES)))
        data = values_for(draw, dtype, len(indices), finite=kind not in LOSSLESS)
        shape = draw(st.sampled_from([(d,), (1, d), (d, 1, 1)] + ([(d // 2, 2)] if d % 2 == 0 else [])))
        tensors.append(reference.Tensor(f"{draw(st.sampled_from('abcäz'))}{n}", dtype, shape, indices, data))
        bits = draw(st.one_of(st.none(), st.lists(st.integers(12, 24), min_size=1, max_size=4).map(tuple)))
        plain = st.sampled_from([reference.Rice(bits), reference.EliasFano(), reference.Binned(500)])
        sparse = st.one_of(plain, entropy_coders())
        any_d = st.one_of(st.sampled_from(["raw-index", "bitmap"]), shaped_codecs(), blooms())
        index.append(draw(st.one_of(sparse, any_d) if d < 10_000 else sparse))
        value.append(draw(VALUES[kind]))
    order = sorted(range(len(tensors)), key=lambda i: tensors[i].name.encode())
    return reference.write(
        tensors,
        [index[i] for i in order],
        [value[i] for i in order],
        seed=draw(st.integers(0, 2**64 - 1)),
        names=draw(st.booleans()),
        tag=draw(st.binary(max_size=9)),
        minor=draw(st.sampled_from([0, 0, 1, 255])),
        flags=draw(st.sampled_from([0, 0, 0x100, 0xFF00])),
        extra=draw(st.sampled_from([(), (), (reference.Record(77, 0, b"later"),)])),
    )


def outcome(read: Any, data: bytes) -> Any:
    """What a reader makes of the bytes, or why it does not."""
    try:
        tag, tensors = read(data, {}, None)
    except (wc.WireError, reference.WireError) as error:
        return type(error).__name__, error.code
    return tag, [(n, d, tuple(s), list(i), bytes(v)) for n, d, s, i, v in tensors]


many = settings(max_examples=1500, deadline=None, database=None, suppress_health_check=list(HealthCheck))


@many
@given(containers())
def test_library_and_reference_read_the_same(data: bytes) -> None:
    found = outcome(library, data)
    assert isinstance(found[0], bytes), found
    assert found == outcome(conformance.reference, data)


@many
@given(containers(), st.data())
def test_library_and_reference_refuse_the_same(data: bytes, choose: st.DataObject) -> None:
    """Bytes changed, put in or left out, mostly under right checksums: the same error, or the same values."""
    broken = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 3))):
        at = choose.draw(st.integers(0, len(broken) - 1))
        how = choose.draw(st.integers(0, 4))
        if how == 0:
            broken[at] ^= 1 << choose.draw(st.integers(0, 7))
        elif how == 1:
            broken[at] = choose.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif how == 2:
            word = choose.draw(st.sampled_from([0, 1, 2**24, 2**24 + 1, 2**31, 2**32 - 1]))
            at = min(at // 4 * 4, len(broken) - 4)
            broken[at : at + 4] = struct.pack("<I", word)
        elif how == 3:
            del broken[at : at + choose.draw(st.sampled_from([1, 8]))]
        else:
            broken[at:at] = bytes(choose.draw(st.sampled_from([1, 8])))
        if not broken:
            break
    sealed = reference.reseal(bytes(broken)) if choose.draw(st.integers(0, 3)) else bytes(broken)
    assert outcome(library, sealed) == outcome(conformance.reference, sealed)


def test_the_whole_data_way_agrees_with_the_reference(gradient: Any) -> None:
    for scheme in (
        "topk(0.01) | rice | qsgd(bits=4)",
        "topk(0.003) | rice | raw(bfloat16)",
        "nonzero | rice | raw",
    ):
        x = gradient[:40_000]
        blob = wc.encode(x, scheme, seed=1)
        assert outcome(library, blob.tobytes()) == outcome(conformance.reference, blob.tobytes())

"""Probes of decoder behaviour that golden vectors do not cover; each returns a list of outcomes to compare.

They cover streams, truncated headers, wrong numbers of tensors, ``decode_add``, lists of containers, the
positions that errors report, and codecs with experimental ids.
"""

from __future__ import annotations

import io
import itertools
import math
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, ClassVar

import numpy as np

import wirecodec as wc
from formats import reference
from formats.reference.writing.assembly import write_extension_block
from formats.vector_cases.curves import POLY, curve_row, raw_section
from formats.vector_cases.parts import forge
from tests.fuzz.seeds import valid_seeds
from tests.golden import vectors
from wirecodec import registry
from wirecodec.cpu.fast.add import RANGE
from wirecodec.cpu.fast.decode import MAX_ENTRIES
from wirecodec.interop import decode_sum
from wirecodec.kernels.layout import BOUNDED_BLOCK
from wirecodec.limits import UNLIMITED

PROBED = ("names", "names-absent-11", "records-all", "dct-2", "no-entries", "bitmap-d9", "padding-index")
VECTORS = {v.id: v for v in vectors() if v.id in PROBED}


def _outcome(read: Callable[..., Any], *given: Any, **options: Any) -> str:
    """Describe the result of a call, or its error with container, entry and offset."""
    try:
        found = read(*given, **options)
    except wc.WireError as error:
        return f"{type(error).__name__} {error.code} {error.container} {error.entry} {error.offset}"
    except Exception as error:
        return repr(error)
    return " ".join(map(_describe, found.values() if isinstance(found, dict) else [found]))


def _describe(thing: Any) -> str:
    if isinstance(thing, wc.SparseTensor):
        return f"{thing.shape} {thing.indices.tolist()} {thing.values.tobytes().hex()}"
    return repr(thing)


def heads() -> list[str]:
    """Call ``inspect`` and ``blob_size`` with a container truncated at every byte.

    The fourth byte alone gives the length of the last one's block.
    """
    found = []
    long = struct.pack("<4sBBHIIQI", b"\xf7WC\x1a", 1, 0, 1, 0, 0, 2**25, 2**24)
    for data in (*(VECTORS[id].data for id in ("names", "records-all", "no-entries")), long):
        for n in range(len(data) + 2):
            cut = (data + b"\0\0")[:n]
            found += [_outcome(wc.inspect, cut), _outcome(wc.blob_size, cut)]
    return found


def large() -> list[str]:
    """Decode containers with more elements than vectors have."""
    return [_outcome(_sum, data) for data in (*_large(), _whole())]


def _sum(data: bytes) -> int:
    return zlib.crc32(wc.decode(data, limits=UNLIMITED).to_dense().tobytes())


def _whole() -> bytes:
    """Return a tensor of two chunks with all elements."""
    return wc.encode(np.ones(2**24 + 3, np.float16), "all | rice | mean").tobytes()


@cache
def _large() -> list[bytes]:
    """Build bitmaps of two blocks, numbers of values at which codecs use more lanes, and a MiB of values."""
    draws = np.random.default_rng(0)
    found = []
    for d, index, value in (
        *((d, "raw-index", "error-bounded") for d in (16_383, 16_384, 16_385, BOUNDED_BLOCK + 99)),
        *((150_000, index, "mean") for index in ("bitmap", "structured", "rice", "elias-fano", "huffman")),
    ):
        x = draws.laplace(size=d).astype(np.float32)
        found.append(
            wc.encode(
                x, f"{'all' if value == 'error-bounded' else 'topk(0.4)'} | {index} | {value}"
            ).tobytes()
        )
    data = bytearray(found[4])
    data[-100] ^= 1
    found.append(wc.encode(draws.random(2**18 + 2, np.float32), "all | raw-index | raw").tobytes())
    return [*found, reference.reseal(bytes(data))]


def infos() -> list[str]:
    """Call ``inspect`` with every small valid container, and with ten fused tensors without names."""
    ten = [replace(THREE[0], name=f"{n}") for n in range(10)]
    fused = reference.write(ten, names=False, groups=["0123456789"])
    return [_outcome(wc.inspect, data) for data in (*valid_seeds(), fused)]


def streams() -> list[str]:
    """Iterate over concatenated containers in buffers and files, truncated at every fourth byte."""
    found = []
    whole = VECTORS["names"].data + VECTORS["no-entries"].data + VECTORS["names"].data
    for most in (len(VECTORS["names"].data), 64):
        for n in range(0, len(whole) + 1, 4):
            for source in (whole[:n], io.BytesIO(whole[:n])):
                found.append(_outcome(_sizes, source, wc.DecodeLimits(max_bytes=most)))
    return found


def _sizes(source: Any, limits: wc.DecodeLimits) -> list[int]:
    return [blob.size for blob in wc.iter_blobs(source, limits=limits)]


def schemas() -> list[str]:
    """Decode containers of none, one and several tensors with matching and other schemas."""
    found = []
    for vector in VECTORS.values():
        fitting: dict[str, Any] = {t[0]: (t[2], t[1]) for t in vector.tensors}
        first: Any = next(iter(fitting.values()), ((3,), "float32"))
        for one in (None, first, (first[0], "bfloat16"), ((7, 7), first[1]), (7, first[1])):
            found.append(_outcome(wc.decode, vector.data, schema=one))
        for names in (None, fitting, {**fitting, "more": first}, dict.fromkeys(fitting, first)):
            found.append(_outcome(wc.decode_many, vector.data, schema=names))
        found.append(_outcome(wc.decode, vector.data, schema=((3,), "int7")))
    wide = reference.assemble([reference.Row(0, 0, 99, 99, 1, 1, 15, value_section=bytes(4))])
    fused = reference.write(THREE, groups=["ab"])
    for limits in (wc.DecodeLimits(max_expansion=0), wc.DecodeLimits()):
        for schema in (None, (99, "float32")):
            found.append(_outcome(wc.decode, wide, limits=limits, schema=schema))
            found.append(_outcome(wc.decode, fused, limits=limits, schema=schema))
    return found


THREE = [reference.Tensor(name, "float32", (2,), [1], b"\0\0\x80\x3f") for name in "abc"]


def sums() -> list[str]:
    """Call ``decode_add`` with arrays of all types, and of matching and other sizes."""
    found = []
    for vector in VECTORS.values():
        sizes = {t[0]: math.prod(t[2]) for t in vector.tensors}
        for extra in (0, 1):
            for dtype in (np.float32, np.float64, np.int32):
                out = {name: np.ones(size + extra, dtype) for name, size in sizes.items()}
                lone = next(iter(out.values()), np.ones(3, dtype)).copy()
                found += [_outcome(wc.decode_add, vector.data, out, scale=0.5), repr(out)]
                found += [_outcome(wc.decode_add, vector.data, lone), repr(lone)]
    one = reference.write(THREE[:1], names=False)
    fixed = np.ones(2, np.float32)
    fixed.flags.writeable = False
    for target in (fixed, np.ones(4, np.float32)[::2], np.ones((2, 1), np.float32), np.ones(2, np.float16)):
        found += [_outcome(wc.decode_add, one, target), repr(target)]
    return found


def totals() -> list[str]:
    """Add lists of containers to arrays that are long, overlap, or have two types."""
    found = []
    size = 2 * RANGE + 777
    draws = np.random.default_rng(0).standard_normal(size).astype(np.float32)
    model: dict[str, Any] = {"a": draws[:1000], "b": draws, "c": draws[:7], "d": draws[:RANGE]}
    blobs = [wc.encode_many(model, scheme) for scheme in ("topk(0.01) | rice | raw", "all | rice | raw")]
    spectrum = wc.encode_many(model, {"a": "dct | topk(0.1) | rice | raw", "*": "topk(0.01) | rice | raw"})
    for given in ([blobs[0]], blobs, [blobs[0], spectrum]):
        for divisor in (1, 3):
            out = {name: np.full(x.size, 0.3, np.float32) for name, x in model.items()}
            found.append(_outcome(wc.decode_add, given, out, scale=0.7) + _crc(out))
            found.append(_outcome(decode_sum, given, out, divisor=divisor) + _crc(out))
    three = wc.encode_many({name: draws[n : n + 400] for n, name in enumerate("abc")}, "all | rice | raw")
    for starts in ((0, 100, 200), (400, 200, 0), (0, 400, 800)):
        memory = np.zeros(1200, np.float32)
        out = {name: memory[at : at + 400] for name, at in zip("abc", starts, strict=True)}
        found.append(_outcome(wc.decode_add, [three, three], out, scale=0.3) + _crc({"": memory}))
    damaged = three.tobytes()[:-1] + b"\xff"
    huge = wc.encode_many({name: np.full(400, 3e38, "f4") for name in "abc"}, "all | rice | raw")
    for kinds in (("f4", "f8", "f4"), ("f8", "f4", "f4"), ("f4", "f4", "f4")):
        out = {name: np.ones(400, kind) for name, kind in zip("abc", kinds, strict=True)}
        found.append(_outcome(wc.decode_add, [three, three], out) + _crc(out))
        found.append(_outcome(wc.decode_add, three, out, max_norm=1) + _crc(out))
        found += [_outcome(wc.decode_add, given, out) for given in ([damaged], [three, damaged])]
        found.append(_outcome(decode_sum, [huge, huge], out) + _crc(out))
    half = wc.encode_many(
        {name: draws[n : n + 400] for n, name in enumerate("abc")}, "topk(0.5) | rice | raw"
    )
    out = {name: np.full(400, 0x7F800001, np.uint32).view(np.float32) for name in "abc"}  # signaling NaN
    found.append(_outcome(wc.decode_add, half, out) + _crc(out))
    return found + _chunked()


def _chunked() -> list[str]:
    """Add two tensors of three chunks each; the mean of two containers is divided once."""
    where = np.array([5, 2**24 + 5, 2**25 + 7])
    tensor = wc.SparseTensor(where, np.array([1, 2, 3], np.float32), (2**25 + 99,))
    blob = wc.encode_many({"a": tensor, "b": np.ones(1, np.float32)}, "nonzero | rice | raw")
    out = {"a": np.empty(tensor.shape, np.float32), "b": np.empty(1, np.float32)}
    return [_outcome(decode_sum, [blob, blob], out, divisor=2) + repr(out["a"][where])]


def _crc(out: dict[str, Any]) -> str:
    return f" {zlib.crc32(b''.join(x.tobytes() for x in out.values()))}"


def blocks() -> list[str]:
    """Decode entries of more than one block; some have the checksums of bytes in the block before."""
    rows = [
        reference.Row(key, 0, 2, 2, 1, 1, 1, b"", struct.pack("<2I", key, key + 1))
        for key in range(MAX_ENTRIES + 2)
    ]
    mapped = curve_row(POLY, 5, raw_section(5), positions=[4, 2, 0, 1, 3])
    rows[-3] = replace(mapped, key=MAX_ENTRIES - 1)
    start = 8 * (MAX_ENTRIES - 1)
    found = [_outcome(wc.decode_many, reference.assemble(part)) for part in (rows[:-1], rows)]
    for at in (start, 8, start + len(mapped.value_section)):
        ranges = {MAX_ENTRIES: (at, at + 8), MAX_ENTRIES + 1: (at + 8, at + 16)}
        found.append(_outcome(wc.decode_many, forge(rows, ranges)))
    return found


def lists() -> list[str]:
    """Add lists of containers with the same tensors and with others, of which some were encoded here."""
    found = []
    for names in ("abc", [f"{n:02}" for n in range(40)]):
        like = {name: np.arange(9, dtype=np.float32) + n for n, name in enumerate(names)}
        sent = wc.Compressor("topk(0.3) | rice | raw").prepare(like)
        changed = (
            {name: x + 1 for name, x in like.items()},
            {name: x[:8] for name, x in like.items()},
            {name: x.reshape(3, 3) for name, x in like.items()},
            {name: x.astype(np.float64) for name, x in like.items()},
            {f"{name}'": x for name, x in like.items()},
        )
        others = [wc.encode_many(tensors) for tensors in changed]
        schema = {name: (x.shape, x.dtype) for name, x in like.items()}
        own = sent.blob
        for blobs in ([], [own[:-8]], [own, own[:-8]], *itertools.product((own, *others), repeat=2)):
            for given in (None, schema):
                out = {name: np.ones(9, np.float32) for name in names}
                found += [_outcome(wc.decode_add, list(blobs), out, schema=given), repr(out)]
        for other, at in itertools.product(others, (0, 1)):
            for scales in (None, (2, 0.5)):
                out = {name: np.ones(9, np.float32) for name in names}
                blobs = [other, own] if at else [own, other]
                options: Any = {"sent": {at: sent.sent}, "scales": scales, "schema": schema}
                found += [_outcome(decode_sum, blobs, out, **options), repr(out)]
    return found


def places() -> list[str]:
    """Flip bits of every byte, and record the positions that errors report."""
    found = []
    data = VECTORS["names"].data
    for at in range(len(data)):
        for flip in (1, 0x80):
            broken = bytearray(data)
            broken[at] ^= flip
            for form in (bytes(broken), reference.reseal(bytes(broken))):
                found.append(_outcome(wc.decode_many, form))
    return found


def ids() -> list[str]:
    """Decode tables with every type, domain and codec id, and blocks with every record type."""
    found = []
    row = reference.Row(0, 0, 9, 2, 1, 2, 1, b"\6\0", struct.pack("<2f", 1, 2))
    for field, n in itertools.product(("dtype", "index", "value", "map"), range(256)):
        data = reference.assemble([replace(row, **{field: n})])  # type: ignore[arg-type]
        found += [_outcome(wc.decode_many, data), _outcome(wc.inspect, data, private=True)]
    for kind, flags in itertools.product((0, 1, 2, 3, 4, 5, 6, 7, 0xFFFF), (0, 1, 2)):
        block = write_extension_block([reference.Record(kind, flags, b"\1\0\0\0\1\0\0\0")])
        found.append(_outcome(wc.decode_many, reference.assemble([row], block)))
    return found


def experimental() -> list[str]:
    """Decode with user-defined codecs, correct and faulty, of the smallest and the largest id."""
    tables: list[dict[Any, Any]] = [registry._index, registry._value, *registry._stages.values()]
    kept = [dict(table) for table in tables]
    found = []
    try:
        for wire_id in (0x80, 0xFF):
            wc.register(type("Index", (_Index,), {"wire_id": wire_id, "name": f"probe-index-{wire_id}"}))
            wc.register(type("Value", (_Value,), {"wire_id": wire_id, "name": f"probe-value-{wire_id}"}))
        for wire_id, what, work in itertools.product((0x80, 0xFF), range(9), (0, 2)):
            limits = wc.DecodeLimits(max_work=work)
            good = struct.pack("<2f", 1, 2)
            one = reference.Row(0, 0, 6, 2, 1, wire_id, 1, bytes([what]), good)
            other = reference.Row(1, 0, 6, 2, 1, 2, wire_id, b"\6", bytes([what]))
            full = replace(one, d=2, index_section=b"")
            coded = replace(other, d=2, index_section=b"")
            for rows in (
                *([one], [replace(other, key=0)], [one, replace(one, key=1)], [one, other]),
                *([full, replace(full, key=1)], [replace(coded, key=0), coded]),
            ):
                found.append(_outcome(wc.decode_many, reference.assemble(rows), limits=limits))
    finally:
        for table, old in zip(tables, kept, strict=True):
            table.clear()
            table.update(old)
    return found


def _misbehave(what: int, right: Any) -> Any:
    """Return the result of an experimental codec, correct or faulty, or raise an error."""
    if what == 1:
        raise ValueError("no")
    if what == 2:
        raise wc.Invalid("probe", "of its own")
    if 3 <= what <= 7:
        return (right[:1], right.astype(np.float16), list(right), right.reshape(1, -1), right[::-1])[what - 3]
    return right


@dataclass(frozen=True)
class _Index:
    """Index codec whose first section byte selects its behaviour."""

    def encode(self, indices: Any, d: int, stream: int) -> Any:
        """Return nothing; the probes do not encode."""
        return b""

    @classmethod
    def work(cls, section: Any, d: int, r: int) -> Any:
        """Return one step, or raise an error."""
        return _misbehave(1 if section[0] == 8 else 0, 1)

    @classmethod
    def decode(cls, section: Any, d: int, r: int, limits: Any) -> Any:
        """Return the last r indices."""
        found = np.arange(d - r, d, dtype=np.uint32)
        return _misbehave(int(section[0]), found)


@dataclass(frozen=True)
class _Value:
    """Value codec whose first section byte selects its behaviour."""

    carries_nonfinite: ClassVar[bool] = True

    def encode(self, values: Any, stream: int) -> Any:
        """Return nothing; the probes do not encode."""
        return b""

    @classmethod
    def decode(cls, section: Any, r: int, dtype: Any, limits: Any) -> Any:
        """Return ones."""
        return _misbehave(int(section[0]), np.ones(r, dtype))


PROBES: dict[str, Callable[[], list[str]]] = {
    probe.__name__: probe
    for probe in (
        heads,
        infos,
        large,
        streams,
        schemas,
        sums,
        totals,
        blocks,
        lists,
        places,
        ids,
        experimental,
    )
}

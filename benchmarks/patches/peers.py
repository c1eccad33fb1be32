"""Formats of other projects for the changes of weights, rewritten from their sources.

Each works tensor by tensor, on several threads if it may, as the projects do. Headers are short JSON. Formats
with one frame per patch compress it on as many threads as the library can use.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

import wirecodec as wc
from benchmarks.common.peers import load_peers
from benchmarks.common.timing import numba_threads
from benchmarks.patches.cases import bits
from wirecodec.arrays import Array

__all__ = ["FORMATS", "OURS", "Format", "load_bsdiff"]

T = TypeVar("T")
R = TypeVar("R")
State = Mapping[str, Array]
COUNT = struct.Struct("<I")


@dataclass(frozen=True)
class Format:
    """A format of patches.

    Attributes:
        name: in the tables.
        source: project and file that it is written after.
        encode: (old, new, threads) -> patch.
        apply: (patch, state, threads), which changes the state in place.
        reads_base: whether the reader needs the old elements.
        is_ours: whether it is this library's.
    """

    name: str
    source: str
    encode: Callable[[State, State, int], Any]
    apply: Callable[[Any, State, int], None]
    reads_base: bool
    is_ours: bool = False


def _map(function: Callable[[T], R], items: Sequence[T], threads: int) -> list[R]:
    if threads == 1:
        return [function(item) for item in items]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(function, items))


def _compress(parts: Sequence[bytes], level: int, threads: int) -> bytes:
    import zstandard

    workers = 0 if threads == 1 else threads
    return zstandard.ZstdCompressor(level=level, threads=workers).compress(b"".join(parts))


def _decompress(frame: bytes) -> bytes:
    import zstandard

    return zstandard.ZstdDecompressor().decompress(frame)


# Ours


def _ours(base: str) -> Format:
    def encode(old: State, new: State, threads: int) -> Any:
        with numba_threads(threads):
            return wc.diff(old, new, base=base)

    def apply(patch: Any, state: State, threads: int) -> None:
        with numba_threads(threads):
            wc.apply(patch, dict(state))

    return Format(
        f'wirecodec, base="{base}"', "wc.diff, wc.apply", encode, apply, base == "read", is_ours=True
    )


OURS = (_ours("read"), _ours("unread"))


# XOR of the bytes, a frame per tensor


def _encode_xor(old: State, new: State, threads: int, level: int) -> list[bytes]:
    def encode(name: str) -> bytes:
        return _compress([np.bitwise_xor(bits(old[name]), bits(new[name])).tobytes()], level, 1)

    return _map(encode, list(old), threads)


def _apply_xor(frames: Sequence[bytes], state: State, threads: int) -> None:
    def apply(item: tuple[str, bytes]) -> None:
        name, frame = item
        words = bits(state[name])
        np.bitwise_xor(words, np.frombuffer(_decompress(frame), words.dtype), out=words)

    _map(apply, list(zip(state, frames, strict=True)), threads)


def _xor(level: int, source: str) -> Format:
    return Format(
        f"XOR + zstd-{level}", source, partial(_encode_xor, level=level), _apply_xor, reads_base=True
    )


# Positions and new values, or their XOR: of all tensors in one buffer, positions before values


@dataclass(frozen=True)
class _Layout:
    """How positions are written, and which bits of an element.

    Attributes:
        write: positions (r,) and the number of columns -> arrays.
        read: (bytes, first byte, r, columns, codes of the arrays) -> positions.
        level: of Zstandard; None for none.
        xor: whether elements are written as the XOR with the old ones.
    """

    write: Callable[[Array, int], tuple[list[Array], str]]
    read: Callable[[bytes, int, int, int, str], Array]
    level: int | None
    xor: bool = False


def _encode_parts(old: State, new: State, threads: int, layout: _Layout) -> bytes:
    def encode(name: str) -> tuple[list[Any], list[bytes]]:
        before, after = bits(old[name]), bits(new[name])
        places = np.flatnonzero(before != after)
        columns = old[name].shape[-1] if old[name].ndim > 1 else 1
        arrays, code = layout.write(places, columns) if places.size else ([], "")
        values = after[places] ^ before[places] if layout.xor else after[places]
        return [name, int(places.size), code], [*(x.tobytes() for x in arrays), values.tobytes()]

    done = [one for one in _map(encode, list(old), threads) if one[0][1]]
    head = json.dumps([entry for entry, _ in done]).encode()
    places = (part for _, some in done for part in some[:-1])
    parts = [COUNT.pack(len(head)), head, *places, *(some[-1] for _, some in done)]
    return b"".join(parts) if layout.level is None else _compress(parts, layout.level, threads)


def _apply_parts(patch: bytes, state: State, threads: int, layout: _Layout) -> None:
    data = patch if layout.level is None else _decompress(patch)
    (length,) = COUNT.unpack_from(data)
    at = COUNT.size + length
    entries = json.loads(data[COUNT.size : at])
    sizes = [count * sum(np.dtype(one).itemsize for one in code.split()) for _, count, code in entries]
    values_at = at + sum(sizes)
    jobs = []
    for (name, count, code), size in zip(entries, sizes, strict=True):
        jobs.append((name, at, values_at, count, code))
        at += size
        values_at += count * state[name].itemsize

    def apply(job: tuple[str, int, int, int, str]) -> None:
        name, first, second, count, code = job
        tensor = state[name]
        words, columns = bits(tensor), tensor.shape[-1] if tensor.ndim > 1 else 1
        places = layout.read(data, first, count, columns, code)
        values = np.frombuffer(data, words.dtype, count, second)
        words[places] = words[places] ^ values if layout.xor else values

    _map(apply, jobs, threads)


def _write_int32(places: Array, columns: int) -> tuple[list[Array], str]:
    return [places.astype("<i4")], "<i4"


def _read_int32(data: bytes, at: int, count: int, columns: int, code: str) -> Array:
    return np.frombuffer(data, code, count, at)


def _write_gaps(places: Array, columns: int) -> tuple[list[Array], str]:
    """Write the unchanged elements before each one, in 16 bits, or 32 where a tensor needs it."""
    gaps = np.diff(places, prepend=-1) - 1
    code = "<u2" if gaps.max() < 2**16 else "<u4"
    return [gaps.astype(code)], code


def _read_gaps(data: bytes, at: int, count: int, columns: int, code: str) -> Array:
    gaps = np.frombuffer(data, code, count, at)
    places: Array = np.cumsum(gaps.astype(np.int64) + 1) - 1
    return places


def _write_rows(places: Array, columns: int) -> tuple[list[Array], str]:
    """Write the differences of rows, and columns as differences within a row."""
    rows, inside = np.divmod(places, columns)
    steps = np.diff(rows, prepend=0)
    same = steps == 0
    same[0] = False
    across = np.where(same, np.diff(inside, prepend=0), inside)
    code = ["u1" if steps.max() < 2**8 else "<u4", "<u2" if across.max() < 2**16 else "<u4"]
    return [steps.astype(code[0]), across.astype(code[1])], " ".join(code)


def _read_rows(data: bytes, at: int, count: int, columns: int, code: str) -> Array:
    kinds = [np.dtype(one) for one in code.split()]
    steps = np.frombuffer(data, kinds[0], count, at)
    at += steps.nbytes
    across = np.frombuffer(data, kinds[1], count, at)
    rows = np.cumsum(steps, dtype=np.int64)
    first = steps != 0
    first[0] = True
    total = np.cumsum(across, dtype=np.int64)
    starts = np.flatnonzero(first)
    before = total[starts] - across[starts]
    inside = total - np.repeat(before, np.diff(starts, append=count))
    places: Array = rows * columns + inside
    return places


def _parts(name: str, source: str, layout: _Layout) -> Format:
    encode, apply = partial(_encode_parts, layout=layout), partial(_apply_parts, layout=layout)
    return Format(name, source, encode, apply, reads_base=layout.xor)


FORMATS = (
    *OURS,
    _parts(
        "gaps + XOR + zstd-1",
        "NVIDIA-NeMo/RL, weight_transfer_sparse_codec.py",
        _Layout(_write_gaps, _read_gaps, 1, xor=True),
    ),
    _parts(
        "gaps + values + zstd-1",
        "THUDM/slime #1806; PULSEPT1 of the basilica SDK, codec.py",
        _Layout(_write_gaps, _read_gaps, 1),
    ),
    _parts(
        "rows, columns + values + zstd-1",
        "one-covenant/grail (PULSE), infrastructure/sparse_codec.py",
        _Layout(_write_rows, _read_rows, 1),
    ),
    _xor(1, "THUDM/slime, miles: disk deltas"),
    _xor(3, "SkyRL #1935"),
    _parts("int32 + values + zstd-1", "as the next one, compressed", _Layout(_write_int32, _read_int32, 1)),
    _parts(
        "int32 + values",
        "verl, delta_sharded; TRL; vLLM, SparseWeightPatch",
        _Layout(_write_int32, _read_int32, None),
    ),
)


def load_bsdiff() -> tuple[list[Callable[[bytes, bytes], bytes]], list[str]]:
    """Return bsdiff4's function if it is installed, and the names of missing packages."""
    return load_peers({"bsdiff4": lambda module: [module.diff]})

"""Peers of index codecs: set structures, integer and byte compressors, an entropy coder.

Each peer is used in the best form that a user would write. Peers that do not compute gaps receive gaps. Byte
compressors receive gaps in the narrowest of one, two or four bytes. Every peer decodes to uint32 indices.
Peers whose package is missing are skipped and reported.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.index.coders import Coder, Indices

__all__ = ["PACKAGES"]


@dataclass(frozen=True)
class Peer:
    """Base class of peers: exact, and measured on one thread."""

    peer: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    threads: ClassVar[bool] = False
    package: Any = field(repr=False)

    def nbytes(self, code: Any) -> int:
        """Return the length of the code."""
        return len(code)


class Roaring(Peer):
    """Roaring bitmap: containers of runs, arrays and bitmaps, in Roaring's serialised form."""

    name: ClassVar[str] = "pyroaring"

    def encode(self, indices: Indices, d: int) -> Any:
        """Build a bitmap from the array, with run containers."""
        bitmap = self.package.BitMap(indices)
        bitmap.run_optimize()
        return bitmap.serialize()

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Deserialise to an array."""
        return np.asarray(self.package.BitMap.deserialize(code).to_array(), np.uint32)


class FastPFor(Peer):
    """Gaps bit-packed in blocks of 128 with patched exceptions; delta and prefix sum by the package."""

    name: ClassVar[str] = "FastPFor, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode with simdfastpfor128."""
        gaps = indices.copy()
        self.package.delta1(gaps, gaps.size)
        out = np.empty(2 * gaps.size + 1024, np.uint32)
        words = self.package.getCodec("simdfastpfor128").encodeArray(gaps, gaps.size, out, out.size)
        return out[:words]

    def nbytes(self, code: Any) -> int:
        """Return four bytes per word."""
        return 4 * len(code)

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decode the gaps and sum them in place."""
        out = np.empty(r + 1024, np.uint32)
        self.package.getCodec("simdfastpfor128").decodeArray(code, code.size, out, r)
        self.package.prefixSum1(out, r)
        return out[:r]


class Parquet(Peer):
    """One column of an in-memory Parquet file: blocks of gaps minus their smallest gap, bit-packed."""

    name: ClassVar[str] = "Parquet delta"

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode with DELTA_BINARY_PACKED, without compression, statistics or an Arrow schema."""
        sink = self.package.BufferOutputStream()
        self.package.parquet.write_table(
            self.package.table({"i": indices}),
            sink,
            use_dictionary=False,
            column_encoding={"i": "DELTA_BINARY_PACKED"},
            compression="none",
            write_statistics=False,
            store_schema=False,
        )
        return sink.getvalue()

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Read the column."""
        table = self.package.parquet.read_table(self.package.BufferReader(code), use_threads=False)
        return np.asarray(table.column(0).to_numpy(), np.uint32)


@dataclass(frozen=True)
class Zstd(Peer):
    """Narrowed gaps compressed with Zstandard."""

    level: int = 3

    @property
    def name(self) -> str:
        """Return the name with its level."""
        return f"zstd-{self.level}, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode as (width, bytes)."""
        gaps = _narrow_gaps(indices)
        return gaps.itemsize, self.package.ZstdCompressor(level=self.level).compress(gaps)

    def nbytes(self, code: Any) -> int:
        """Return the length plus one byte for the width."""
        return 1 + len(code[1])

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decompress the gaps and sum them."""
        width, data = code
        return _sum_gaps(self.package.ZstdDecompressor().decompress(data), width)


class Blosc(Peer):
    """Narrowed gaps, bit-shuffled, compressed with Zstandard."""

    name: ClassVar[str] = "blosc2, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode as (width, bytes) at level 3."""
        gaps = _narrow_gaps(indices)
        code = self.package.compress2(
            gaps,
            codec=self.package.Codec.ZSTD,
            clevel=3,
            typesize=gaps.itemsize,
            filters=[self.package.Filter.BITSHUFFLE],
            filters_meta=[0],
            nthreads=1,
        )
        return gaps.itemsize, code

    def nbytes(self, code: Any) -> int:
        """Return the length plus one byte for the width."""
        return 1 + len(code[1])

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decompress the gaps and sum them."""
        width, data = code
        return _sum_gaps(self.package.decompress2(data, nthreads=1), width)


class Entropy(Peer):
    """Gaps coded with ANS and the geometric model that d and r imply, so that no table is sent.

    It reaches the bound for uniform supports and is above it for others. Gaps beyond twenty times their mean
    are escapes, which are stored separately as uint32.
    """

    name: ClassVar[str] = "constriction, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """Encode as (words of the coder, escaped gaps)."""
        model, escape = self._build_model(d, indices.size)
        gaps = np.subtract(indices, np.append(np.uint32(2**32 - 1), indices[:-1]))  # minus one, modulo 2^32
        gaps -= np.uint32(1)
        coder = self.package.stream.stack.AnsCoder()
        coder.encode_reverse(np.minimum(gaps, escape).astype(np.int32), model)
        return coder.get_compressed(), gaps[gaps >= escape]

    def nbytes(self, code: Any) -> int:
        """Return four bytes per word and per escape."""
        return 4 * (len(code[0]) + len(code[1]))

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Decode the gaps, restore the escapes and sum."""
        model, escape = self._build_model(d, r)
        gaps = self.package.stream.stack.AnsCoder(code[0]).decode(model, r).astype(np.uint32)
        gaps[gaps == escape] = code[1]
        gaps += np.uint32(1)
        return np.asarray(np.cumsum(gaps, dtype=np.uint32) - np.uint32(1))

    def _build_model(self, d: int, r: int) -> tuple[Any, int]:
        escape = min(20 * d // r, 2**16)
        probabilities = r / d * (1 - r / d) ** np.arange(escape + 1)
        probabilities[-1] = max((1 - r / d) ** escape, 1e-9)
        return self.package.stream.model.Categorical(probabilities, perfect=False), escape


def _narrow_gaps(indices: Indices) -> npt.NDArray[Any]:
    """Return the gaps, the first relative to 0, in the narrowest unsigned type."""
    gaps = np.empty_like(indices)
    gaps[0] = indices[0]
    np.subtract(indices[1:], indices[:-1], out=gaps[1:])
    return gaps.astype(np.min_scalar_type(int(gaps.max())))


def _sum_gaps(data: Any, width: int) -> Indices:
    return np.cumsum(np.frombuffer(data, f"<u{width}"), dtype=np.uint32)


PACKAGES: dict[str, Callable[[Any], list[Coder]]] = {
    "pyroaring": lambda package: [Roaring(package)],
    "zstandard": lambda package: [Zstd(package, 3), Zstd(package, 19)],
    "blosc2": lambda package: [Blosc(package)],
    "pyfastpfor": lambda package: [FastPFor(package)],
    "pyarrow.parquet": lambda package: [Parquet(importlib.import_module("pyarrow"))],
    "constriction": lambda package: [Entropy(package)],
}
"""For each module, a function that builds its peers."""

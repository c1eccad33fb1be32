"""What others would do with the same indices: set structures, integer and byte compressors, an entropy coder.

Each is given its best form that a user would write: gaps where it does not find them by itself, narrowed to
the least of one, two or four bytes where it works on bytes; and each goes all the way back to u32 indices.
Peers whose package is missing are left out, and said.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.index.coders import Coder, Indices

__all__ = ["PACKAGES", "installed"]


@dataclass(frozen=True)
class Peer:
    """What all peers share: they are exact, and are measured on one thread."""

    peer: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    threads: ClassVar[bool] = False
    package: Any = field(repr=False)

    def nbytes(self, code: Any) -> int:
        """The code's length, and a byte for the width where gaps were narrowed."""
        return len(code)


class Roaring(Peer):
    """Containers of runs, arrays and bitmaps, in Roaring's own serialised form."""

    name: ClassVar[str] = "pyroaring"

    def encode(self, indices: Indices, d: int) -> Any:
        """Built from the array, runs found."""
        bitmap = self.package.BitMap(indices)
        bitmap.run_optimize()
        return bitmap.serialize()

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """As an array again."""
        return np.asarray(self.package.BitMap.deserialize(code).to_array(), np.uint32)


class FastPFor(Peer):
    """Gaps bit-packed by 128 with patched exceptions, with the package's own delta and prefix sum."""

    name: ClassVar[str] = "FastPFor, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """simdfastpfor128."""
        gaps = indices.copy()
        self.package.delta1(gaps, gaps.size)
        out = np.empty(2 * gaps.size + 1024, np.uint32)
        words = self.package.getCodec("simdfastpfor128").encodeArray(gaps, gaps.size, out, out.size)
        return out[:words]

    def nbytes(self, code: Any) -> int:
        """Four for each word."""
        return 4 * len(code)

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Gaps, summed in place."""
        out = np.empty(r + 1024, np.uint32)
        self.package.getCodec("simdfastpfor128").decodeArray(code, code.size, out, r)
        self.package.prefixSum1(out, r)
        return out[:r]


class Parquet(Peer):
    """One column of a Parquet file in memory: blocks of gaps above the least gap, bit-packed."""

    name: ClassVar[str] = "Parquet delta"

    def encode(self, indices: Indices, d: int) -> Any:
        """DELTA_BINARY_PACKED, no compression, no statistics, no schema of Arrow's own."""
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
        """The column, whole."""
        table = self.package.parquet.read_table(self.package.BufferReader(code), use_threads=False)
        return np.asarray(table.column(0).to_numpy(), np.uint32)


@dataclass(frozen=True)
class Zstd(Peer):
    """Narrowed gaps through Zstandard."""

    level: int = 3

    @property
    def name(self) -> str:
        """With its level."""
        return f"zstd-{self.level}, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """(width, bytes)."""
        gaps = _narrowed(indices)
        return gaps.itemsize, self.package.ZstdCompressor(level=self.level).compress(gaps)

    def nbytes(self, code: Any) -> int:
        """With a byte for the width."""
        return 1 + len(code[1])

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Bytes, widened and summed."""
        width, data = code
        return _summed(self.package.ZstdDecompressor().decompress(data), width)


class Blosc(Peer):
    """Narrowed gaps, their bits transposed, through Zstandard."""

    name: ClassVar[str] = "blosc2, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """(width, bytes), at level 3."""
        gaps = _narrowed(indices)
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
        """With a byte for the width."""
        return 1 + len(code[1])

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Bytes, widened and summed."""
        width, data = code
        return _summed(self.package.decompress2(data, nthreads=1), width)


class Entropy(Peer):
    """Gaps through an entropy coder (ANS) with the geometric model that d and r imply: no table to send.

    It reaches the bound where the support is uniform, and pays for its model elsewhere. Gaps beyond twenty
    times their mean are escapes, and stand apart as u32.
    """

    name: ClassVar[str] = "constriction, gaps"

    def encode(self, indices: Indices, d: int) -> Any:
        """(words of the coder, escaped gaps)."""
        model, escape = self._model(d, indices.size)
        gaps = np.subtract(indices, np.append(np.uint32(2**32 - 1), indices[:-1]))  # less one, modulo 2^32
        gaps -= np.uint32(1)
        coder = self.package.stream.stack.AnsCoder()
        coder.encode_reverse(np.minimum(gaps, escape).astype(np.int32), model)
        return coder.get_compressed(), gaps[gaps >= escape]

    def nbytes(self, code: Any) -> int:
        """Four for each word and each escape."""
        return 4 * (len(code[0]) + len(code[1]))

    def decode(self, code: Any, d: int, r: int) -> Indices:
        """Gaps, escapes put back, summed."""
        model, escape = self._model(d, r)
        gaps = self.package.stream.stack.AnsCoder(code[0]).decode(model, r).astype(np.uint32)
        gaps[gaps == escape] = code[1]
        gaps += np.uint32(1)
        return np.asarray(np.cumsum(gaps, dtype=np.uint32) - np.uint32(1))

    def _model(self, d: int, r: int) -> tuple[Any, int]:
        escape = min(20 * d // r, 2**16)
        chances = r / d * (1 - r / d) ** np.arange(escape + 1)
        chances[-1] = max((1 - r / d) ** escape, 1e-9)
        return self.package.stream.model.Categorical(chances, perfect=False), escape


def _narrowed(indices: Indices) -> npt.NDArray[Any]:
    """Gaps, the first from 0, in the least of one, two or four bytes."""
    gaps = np.empty_like(indices)
    gaps[0] = indices[0]
    np.subtract(indices[1:], indices[:-1], out=gaps[1:])
    return gaps.astype(np.min_scalar_type(int(gaps.max())))


def _summed(data: Any, width: int) -> Indices:
    return np.cumsum(np.frombuffer(data, f"<u{width}"), dtype=np.uint32)


PACKAGES: dict[str, Callable[[Any], list[Coder]]] = {
    "pyroaring": lambda package: [Roaring(package)],
    "zstandard": lambda package: [Zstd(package, 3), Zstd(package, 19)],
    "blosc2": lambda package: [Blosc(package)],
    "pyfastpfor": lambda package: [FastPFor(package)],
    "pyarrow.parquet": lambda package: [Parquet(importlib.import_module("pyarrow"))],
    "constriction": lambda package: [Entropy(package)],
}
"""{module: the peers that it makes possible}."""


def installed() -> tuple[list[Coder], list[str]]:
    """The peers whose packages are here, and the names of the packages that are not."""
    peers: list[Coder] = []
    missing: list[str] = []
    for module, make in PACKAGES.items():
        try:
            peers += make(importlib.import_module(module))
        except ImportError:
            missing.append(module.partition(".")[0])
    return peers, missing

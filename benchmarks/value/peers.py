"""What others would do with the same values: compressors of floats and of integers, eight-bit floats, zstd.

Each is given its best form that a user would write, on one thread. Those that take an error bound are tuned
to the fewest bytes that keep the relative L2 error within a given one, on the first 2^18 values;
zfp and bit rounding, which know powers of two only, take the last one that does not exceed it. Peers whose
package is missing are left out, and said.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from benchmarks.value.coders import Coder
from benchmarks.value.distributions import Floats

__all__ = ["ERRORS", "PACKAGES", "installed"]

ERRORS = (0.05, 0.01)
_TUNED_ON = 2**18
_TOLERANCE = 1.002
"""Of an error."""


@dataclass(frozen=True)
class Peer(ABC):
    """What all peers share; ``error`` is relative, 0 for lossless, ``bound`` is what it took."""

    peer: ClassVar[bool] = True
    package: Any = field(repr=False)
    error: float = 0.0
    bound: float = 0.0

    family: ClassVar[str]

    @property
    def name(self) -> str:
        """With its error."""
        return f"{self.family}, {100 * self.error:g} %" if self.error else self.family

    def fitted(self, values: Floats) -> Coder:
        """With the bound of fewest bytes that keeps to the error, coarsely sought and then more finely."""
        if not self.error:
            return self
        part = values[:_TUNED_ON]
        best = (float("inf"), self.error * rms(part) / 4)
        for reach, count in ((2.5, 15), (1.1, 9)):
            middle = best[1] if math.isfinite(best[0]) else self.error * math.sqrt(12) * rms(part)
            for bound in middle * np.geomspace(1 / reach, reach, count):
                one = replace(self, bound=float(bound))
                code = one.encode(part, 0)
                if relative_error(part, one.decode(code, part.size)) <= self.error * _TOLERANCE:
                    best = min(best, (one.nbytes(code), one.bound))
        return replace(self, bound=best[1])

    @abstractmethod
    def encode(self, values: Floats, stream: int) -> Any:
        """Bytes."""

    @abstractmethod
    def decode(self, code: Any, r: int) -> Floats:
        """Values."""

    def nbytes(self, code: Any) -> int:
        """The code's length."""
        return len(code)


def rms(values: Floats) -> float:
    """Root mean square."""
    return math.sqrt(float(np.square(values, dtype=np.float64).mean()))


def relative_error(values: Floats, decoded: Floats) -> float:
    """‖decoded - values‖ / ‖values‖, both in float64."""
    off = decoded.astype(np.float64) - values
    norm = float(np.linalg.norm(values.astype(np.float64)))
    return float(np.linalg.norm(off)) / norm if norm else float(np.any(off))


class Pco(Peer):
    """pcodec of the values themselves."""

    family: ClassVar[str] = "pcodec"

    def encode(self, values: Floats, stream: int) -> Any:
        """Its own choice of everything."""
        return self.package.standalone.simple_compress(values, self.package.ChunkConfig())

    def decode(self, code: Any, r: int) -> Floats:
        """The same values."""
        return np.asarray(self.package.standalone.simple_decompress(code))


class PcoInteger(Peer):
    """pcodec of steps above the least magnitude, their lowest bit the sign; a step's centroid is sent."""

    family: ClassVar[str] = "pcodec, integers"

    def encode(self, values: Floats, stream: int) -> Any:
        """(bytes, least magnitude, centroid); 12 bytes with the step."""
        magnitude = np.abs(values)
        least = magnitude.min()
        steps = (magnitude - least) * np.float32(1 / self.bound)
        whole = steps.astype(np.uint32)
        centroid = float((steps - whole).mean())
        whole = (whole << np.uint32(1)) | np.signbit(values)
        narrow = whole.astype(np.uint16 if whole.max() < 2**16 else np.uint32)
        return (
            self.package.standalone.simple_compress(narrow, self.package.ChunkConfig()),
            least,
            np.float32(centroid),
        )

    def nbytes(self, code: Any) -> int:
        """With step, least magnitude and centroid."""
        return 12 + len(code[0])

    def decode(self, code: Any, r: int) -> Floats:
        """Steps to magnitudes, and signs."""
        data, least, centroid = code
        whole = np.asarray(self.package.standalone.simple_decompress(data))
        magnitude = ((whole >> 1) + centroid).astype(np.float32) * np.float32(self.bound) + least
        sign = (whole & 1).astype(np.uint32) << np.uint32(31)
        return np.asarray((magnitude.view(np.uint32) | sign).view(np.float32))


class Zfp(Peer):
    """zfp with a fixed accuracy, in one dimension."""

    family: ClassVar[str] = "zfp"

    def fitted(self, values: Floats) -> Coder:
        """The largest power of two that does not exceed the error."""
        return _powers(self, values)

    def encode(self, values: Floats, stream: int) -> Any:
        """With its header."""
        return self.package.compress_numpy(values, tolerance=self.bound)

    def decode(self, code: Any, r: int) -> Floats:
        """The values."""
        return np.asarray(self.package.decompress_numpy(code))


class BloscRounded(Peer):
    """Mantissas rounded to as few bits as the error allows, their bytes shuffled, through Zstandard."""

    family: ClassVar[str] = "blosc2, rounded"

    def fitted(self, values: Floats) -> Coder:
        """The fewest bits; -log2 of the error less two is too few."""
        for bits in range(max(0, int(-math.log2(self.error)) - 3), 23):
            one = replace(self, bound=float(bits))
            if relative_error(values, one._rounded(values)) <= self.error:
                break
        return one

    def _rounded(self, values: Floats) -> Floats:
        drop = 23 - int(self.bound)
        bits = values.view(np.uint32)
        half = np.uint32((1 << drop >> 1) - 1) + ((bits >> np.uint32(drop)) & np.uint32(1))
        return np.asarray(((bits + half) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32))

    def encode(self, values: Floats, stream: int) -> Any:
        """Bit shuffle, level 3."""
        return self.package.compress2(
            self._rounded(values),
            codec=self.package.Codec.ZSTD,
            clevel=3,
            typesize=4,
            filters=[self.package.Filter.BITSHUFFLE],
            filters_meta=[0],
            nthreads=1,
        )

    def decode(self, code: Any, r: int) -> Floats:
        """Bytes as values."""
        return np.frombuffer(self.package.decompress2(code, nthreads=1), np.float32)


class SZ3(Peer):
    """SZ3 with an absolute bound and no predictor: its best algorithm on values without neighbours."""

    family: ClassVar[str] = "SZ3"

    def encode(self, values: Floats, stream: int) -> Any:
        """One-dimensional."""
        config = self.package.szConfig()
        config.errorBoundMode = self.package.szErrorBoundMode.ABS
        config.absErrorBound = self.bound / 2
        config.cmprAlgo = self.package.szAlgorithm.NOPRED
        return self.package.sz.compress(values, config)[0]

    def decode(self, code: Any, r: int) -> Floats:
        """The values."""
        return np.asarray(self.package.sz.decompress(code, np.float32, (r,))[0])


@dataclass(frozen=True)
class Float8(Peer):
    """An eight-bit float, the largest magnitude scaled to the largest number it has."""

    kind: str = "float8_e4m3fn"

    @property
    def family(self) -> str:  # type: ignore[override]
        """As hardware calls it."""
        return {"float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}[self.kind]

    def encode(self, values: Floats, stream: int) -> Any:
        """(eight-bit floats, scale)."""
        kind = getattr(self.package, self.kind)
        largest = np.float32(self.package.finfo(kind).max)
        scale = np.abs(values).max() / largest or np.float32(1)
        return (values / scale).astype(kind), scale

    def nbytes(self, code: Any) -> int:
        """With the scale."""
        return 4 + int(code[0].nbytes)

    def decode(self, code: Any, r: int) -> Floats:
        """Widened and scaled."""
        return np.asarray(code[0].astype(np.float32) * code[1])


@dataclass(frozen=True)
class Zstd(Peer):
    """The bytes of the values through Zstandard."""

    level: int = 3

    @property
    def family(self) -> str:  # type: ignore[override]
        """With its level."""
        return f"zstd-{self.level}"

    def encode(self, values: Floats, stream: int) -> Any:
        """As they are."""
        return self.package.ZstdCompressor(level=self.level).compress(values)

    def decode(self, code: Any, r: int) -> Floats:
        """The same values."""
        return np.frombuffer(self.package.ZstdDecompressor().decompress(code), np.float32)


def _powers(peer: Peer, values: Floats) -> Coder:
    part = values[:_TUNED_ON]
    power = math.ceil(math.log2(self_bound)) if (self_bound := 64 * peer.error * rms(part)) else 0
    while True:
        one = replace(peer, bound=2.0**power)
        if power < -120 or relative_error(part, one.decode(one.encode(part, 0), part.size)) <= peer.error:
            return one
        power -= 1


def _each(kind: Callable[..., Any], package: Any) -> list[Coder]:
    return [kind(package, error) for error in ERRORS]


PACKAGES: dict[str, Callable[[Any], list[Coder]]] = {
    "pcodec": lambda package: [*_each(PcoInteger, package), Pco(package)],
    "pysz": lambda package: _each(SZ3, package),
    "zfpy": lambda package: _each(Zfp, package),
    "blosc2": lambda package: _each(BloscRounded, package),
    "ml_dtypes": lambda package: [Float8(package), Float8(package, kind="float8_e5m2")],
    "zstandard": lambda package: [Zstd(package)],
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
            missing.append(module)
    return peers, missing

"""Peers of value codecs: compressors of floats and integers, eight-bit floats, zstd.

Each peer is used on one thread in the best form that a user would write. A peer with an error bound is tuned
on the first 2^18 values: the bound with the fewest bytes that keeps the relative L2 error within a limit. zfp
and bit rounding support powers of two only, and use the largest that keeps the limit. Peers whose package is
missing are skipped and reported.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from benchmarks.value.coders import Coder
from benchmarks.value.distributions import Floats

__all__ = ["ERRORS", "PACKAGES", "compute_relative_error", "compute_rms"]

ERRORS = (0.05, 0.01)
_TUNED_ON = 2**18
_TOLERANCE = 1.002
"""Factor by which a tuned error may exceed its limit."""


@dataclass(frozen=True)
class Peer(ABC):
    """Base class of peers.

    Attributes:
        package: the imported module.
        error: limit of the relative error, or 0 if lossless.
        bound: the tuned error bound.
    """

    peer: ClassVar[bool] = True
    package: Any = field(repr=False)
    error: float = 0.0
    bound: float = 0.0

    family: ClassVar[str]

    @property
    def name(self) -> str:
        """Return the name with its error."""
        return f"{self.family}, {100 * self.error:g} %" if self.error else self.family

    def fit(self, values: Floats) -> Coder:
        """Return the peer with the bound of fewest bytes within the error, by a coarse and a fine search."""
        if not self.error:
            return self
        part = values[:_TUNED_ON]
        best = (float("inf"), self.error * compute_rms(part) / 4)
        for reach, count in ((2.5, 15), (1.1, 9)):
            middle = best[1] if math.isfinite(best[0]) else self.error * math.sqrt(12) * compute_rms(part)
            for bound in middle * np.geomspace(1 / reach, reach, count):
                one = replace(self, bound=float(bound))
                code = one.encode(part, 0)
                if compute_relative_error(part, one.decode(code, part.size)) <= self.error * _TOLERANCE:
                    best = min(best, (one.nbytes(code), one.bound))
        return replace(self, bound=best[1])

    @abstractmethod
    def encode(self, values: Floats, stream: int) -> Any:
        """Encode to bytes."""

    @abstractmethod
    def decode(self, code: Any, r: int) -> Floats:
        """Decode to values."""

    def nbytes(self, code: Any) -> int:
        """Return the length of the code."""
        return len(code)


def compute_rms(values: Floats) -> float:
    """Return the root mean square."""
    return math.sqrt(float(np.square(values, dtype=np.float64).mean()))


def compute_relative_error(values: Floats, decoded: Floats) -> float:
    """Return ‖decoded - values‖ / ‖values‖, computed in float64."""
    off = decoded.astype(np.float64) - values
    norm = float(np.linalg.norm(values.astype(np.float64)))
    return float(np.linalg.norm(off)) / norm if norm else float(np.any(off))


class Pco(Peer):
    """pcodec of the values."""

    family: ClassVar[str] = "pcodec"

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode with the default configuration."""
        return self.package.standalone.simple_compress(values, self.package.ChunkConfig())

    def decode(self, code: Any, r: int) -> Floats:
        """Decode to the same values."""
        return np.asarray(self.package.standalone.simple_decompress(code))


class PcoInteger(Peer):
    """pcodec of quantised magnitudes.

    The integers are steps above the smallest magnitude, with the sign as their lowest bit. The centroid of a
    step is stored also.
    """

    family: ClassVar[str] = "pcodec, integers"

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode as (bytes, smallest magnitude, centroid); 12 bytes of parameters with the step."""
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
        """Return the length with step, smallest magnitude and centroid."""
        return 12 + len(code[0])

    def decode(self, code: Any, r: int) -> Floats:
        """Convert steps to magnitudes and restore the signs."""
        data, least, centroid = code
        whole = np.asarray(self.package.standalone.simple_decompress(data))
        magnitude = ((whole >> 1) + centroid).astype(np.float32) * np.float32(self.bound) + least
        sign = (whole & 1).astype(np.uint32) << np.uint32(31)
        return np.asarray((magnitude.view(np.uint32) | sign).view(np.float32))


class Zfp(Peer):
    """zfp with fixed accuracy in one dimension."""

    family: ClassVar[str] = "zfp"

    def fit(self, values: Floats) -> Coder:
        """Return the peer with the largest power of two that keeps the error."""
        return _fit_power_of_two(self, values)

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode with a header."""
        return self.package.compress_numpy(values, tolerance=self.bound)

    def decode(self, code: Any, r: int) -> Floats:
        """Decode to values."""
        return np.asarray(self.package.decompress_numpy(code))


class BloscRounded(Peer):
    """Mantissas rounded to the fewest bits within the error, bit-shuffled, compressed with Zstandard."""

    family: ClassVar[str] = "blosc2, rounded"

    def fit(self, values: Floats) -> Coder:
        """Return the peer with the fewest bits; the search starts below -log2 of the error minus two."""
        for bits in range(max(0, int(-math.log2(self.error)) - 3), 23):
            one = replace(self, bound=float(bits))
            if compute_relative_error(values, one._round(values)) <= self.error:
                break
        return one

    def _round(self, values: Floats) -> Floats:
        drop = 23 - int(self.bound)
        bits = values.view(np.uint32)
        half = np.uint32((1 << drop >> 1) - 1) + ((bits >> np.uint32(drop)) & np.uint32(1))
        return np.asarray(((bits + half) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view(np.float32))

    def encode(self, values: Floats, stream: int) -> Any:
        """Bit-shuffle and compress at level 3."""
        return self.package.compress2(
            self._round(values),
            codec=self.package.Codec.ZSTD,
            clevel=3,
            typesize=4,
            filters=[self.package.Filter.BITSHUFFLE],
            filters_meta=[0],
            nthreads=1,
        )

    def decode(self, code: Any, r: int) -> Floats:
        """Decompress to values."""
        return np.frombuffer(self.package.decompress2(code, nthreads=1), np.float32)


class SZ3(Peer):
    """SZ3 with an absolute bound and no predictor, its best algorithm for values without correlation."""

    family: ClassVar[str] = "SZ3"

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode in one dimension."""
        config = self.package.szConfig()
        config.errorBoundMode = self.package.szErrorBoundMode.ABS
        config.absErrorBound = self.bound / 2
        config.cmprAlgo = self.package.szAlgorithm.NOPRED
        return self.package.sz.compress(values, config)[0]

    def decode(self, code: Any, r: int) -> Floats:
        """Decode to values."""
        return np.asarray(self.package.sz.decompress(code, np.float32, (r,))[0])


@dataclass(frozen=True)
class Float8(Peer):
    """Eight-bit floats, scaled so that the largest magnitude maps to the largest number."""

    kind: str = "float8_e4m3fn"

    @property
    def family(self) -> str:  # type: ignore[override]
        """Return the usual hardware name."""
        return {"float8_e4m3fn": "fp8 e4m3", "float8_e5m2": "fp8 e5m2"}[self.kind]

    def encode(self, values: Floats, stream: int) -> Any:
        """Encode as (eight-bit floats, scale)."""
        kind = getattr(self.package, self.kind)
        largest = np.float32(self.package.finfo(kind).max)
        scale = np.abs(values).max() / largest or np.float32(1)
        return (values / scale).astype(kind), scale

    def nbytes(self, code: Any) -> int:
        """Return the length with the scale."""
        return 4 + int(code[0].nbytes)

    def decode(self, code: Any, r: int) -> Floats:
        """Widen and scale."""
        return np.asarray(code[0].astype(np.float32) * code[1])


@dataclass(frozen=True)
class Zstd(Peer):
    """Bytes of the values, compressed with Zstandard."""

    level: int = 3

    @property
    def family(self) -> str:  # type: ignore[override]
        """Return the name with its level."""
        return f"zstd-{self.level}"

    def encode(self, values: Floats, stream: int) -> Any:
        """Compress the bytes."""
        return self.package.ZstdCompressor(level=self.level).compress(values)

    def decode(self, code: Any, r: int) -> Floats:
        """Decompress to the same values."""
        return np.frombuffer(self.package.ZstdDecompressor().decompress(code), np.float32)


def _fit_power_of_two(peer: Peer, values: Floats) -> Coder:
    """Find the largest power of two that keeps the error."""
    part = values[:_TUNED_ON]
    power = math.ceil(math.log2(largest)) if (largest := 64 * peer.error * compute_rms(part)) else 0
    while True:
        one = replace(peer, bound=2.0**power)
        if (
            power < -120
            or compute_relative_error(part, one.decode(one.encode(part, 0), part.size)) <= peer.error
        ):
            return one
        power -= 1


def _build_for_errors(kind: Callable[..., Any], package: Any) -> list[Coder]:
    return [kind(package, error) for error in ERRORS]


PACKAGES: dict[str, Callable[[Any], list[Coder]]] = {
    "pcodec": lambda package: [*_build_for_errors(PcoInteger, package), Pco(package)],
    "pysz": lambda package: _build_for_errors(SZ3, package),
    "zfpy": lambda package: _build_for_errors(Zfp, package),
    "blosc2": lambda package: _build_for_errors(BloscRounded, package),
    "ml_dtypes": lambda package: [Float8(package), Float8(package, kind="float8_e5m2")],
    "zstandard": lambda package: [Zstd(package)],
}
"""For each module, a function that builds its peers."""

"""``auto-value``: for each chunk the smallest codec whose error, as measured, is no more than promised.

``polyfit`` and ``dexpfit`` are left out: the map of their order alone takes ⌈log2 r⌉ bits a value, more than
all of ``error-bounded`` from a few dozen values on, and a choice gives a section without a map.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, as_bytes, read_only
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.validation import as_real, settle
from wirecodec.value.base import ValueCodec
from wirecodec.value.bit_packing import packed_size
from wirecodec.value.deflate import Deflate
from wirecodec.value.error_bounded import ErrorBounded
from wirecodec.value.mean import Mean
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16, widened
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.sketchml import SketchML
from wirecodec.value.terngrad import TernGrad
from wirecodec.value.three_lc import ThreeLC
from wirecodec.value.zstd import Zstd

__all__ = ["AutoValue"]

_SLACK = 1 - 2.0**-20
"""Sums that are rounded do not break a promise by less."""
_LEAST = 2.0**-900
"""A sum of squares of which some may have vanished."""
_MANY, _SAMPLE = 2**15, 2**12
"""Values from which on a sample says what is not worth a try; values of a sample."""
_MARGIN = 16.0
"""Times the allowed square of the error that a sample's must exceed."""
_FEW = 2048
"""Values below which ``deflate`` is tried whatever ``zstd`` makes of them."""


@dataclass(frozen=True)
class _Kind:
    """Codecs of one kind: those for an error, and their size of r elements of so many bytes.

    Args:
        codecs: of an error.
        size: without it they are encoded to know it.
        sampled: whether one scale serves all values, so that a sample is treated as they are.
    """

    codecs: Callable[[float], Sequence[ValueCodec]]
    size: Callable[[Any, int, int], int] | None = None
    sampled: bool = False


def _qsgd_bytes(codec: QSGD, r: int, width: int) -> int:
    return 8 + 4 * -(-r // codec.bucket) + packed_size(r, codec.bits)


_KINDS = (
    _Kind(lambda error: [Raw()], lambda codec, r, width: r * width),
    _Kind(lambda error: [RawFloat16(), RawBfloat16()], lambda codec, r, width: 2 * r),
    _Kind(lambda error: [SignScale()], lambda codec, r, width: max(width, 4) + -(-r // 8)),
    _Kind(lambda error: [Mean()], lambda codec, r, width: max(width, 4)),
    _Kind(lambda error: [QSGD(bits) for bits in range(2, 9)], _qsgd_bytes),
    _Kind(
        lambda error: [OffsetFloat(bits) for bits in range(2, 17)],
        lambda codec, r, width: 12 + packed_size(r, codec.bits),
        sampled=True,
    ),
    _Kind(lambda error: [TernGrad()], lambda codec, r, width: 4 + -(-r // 5), sampled=True),
    _Kind(lambda error: [ErrorBounded(error)]),
    _Kind(lambda error: [Zstd()]),
    _Kind(lambda error: [Deflate()]),
    _Kind(lambda error: [ThreeLC()], sampled=True),
    _Kind(lambda error: [SketchML(buckets) for buckets in (4, 16, 64, 256)], sampled=True),
)
"""What is tried: codecs that a scheme can name, and what ``raw`` picks."""


@dataclass(frozen=True)
class AutoValue:
    """The smallest codec that keeps ‖v̂ - v‖₂ ≤ error · ‖v‖₂ in a chunk; raw where a value is not finite.

    Of few values it is the smallest of all that are known. Of many, codecs are passed over of which a sample
    says that they miss the error by far, and ``deflate`` where ``zstd`` shows little to be had.

    Args:
        error: above 0 and below 1.
    """

    name: ClassVar[str] = "auto-value"
    error: float = 0.01

    def __post_init__(self) -> None:
        settle(self, error=as_real(self.error, "auto-value: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"auto-value: error is {self.error!r}; it must be above 0 and below 1")

    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """The codec and its section: smallest first, of those not yet encoded by the least they may take."""
        with np.errstate(invalid="ignore"):  # a bfloat16 that signals is reported as an invalid operation
            finite = np.isfinite(values).all()
        if values.size == 0 or not finite:
            return Raw(), Raw().encode(values, stream)
        wide = read_only(widened(values))
        tries: list[tuple[float, int, ValueCodec, Bytes | None]] = [
            (least, 2 * n, codec, None)
            for n, (codec, least) in enumerate(self._candidates(values, wide, stream))
        ]
        heapq.heapify(tries)
        while tries:
            _, n, codec, section = heapq.heappop(tries)
            if section is not None:
                if self._kept(codec, section, values.dtype, wide):
                    return codec, section
            elif (made := self._encoded(codec, values, stream)) is not None:
                heapq.heappush(tries, (made.size, n, codec, made))
                if isinstance(codec, Zstd):
                    least = made.size / 2 if values.size >= _FEW else 0
                    heapq.heappush(tries, (least, n + 1, Deflate(), None))
        return Raw(), Raw().encode(values, stream)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return Raw().max_bytes(r, dtype)

    def _candidates(self, values: Array, wide: Array, stream: int) -> Iterator[tuple[ValueCodec, float]]:
        """Codecs, and the least number of bytes that they may take; ``deflate`` follows ``zstd``."""
        r, width = values.size, values.dtype.itemsize
        sample = _Sample(values, wide, self.error) if r >= _MANY else None
        for kind in _KINDS:
            for codec in kind.codecs(self.error):
                if isinstance(codec, Deflate) or (width == 2 and isinstance(codec, RawFloat16 | RawBfloat16)):
                    continue
                least: float = kind.size(codec, r, width) if kind.size else 0
                if kind.sampled and sample is not None:
                    section = self._encoded(codec, sample.values, stream)
                    if section is None or sample.missed(codec, section):
                        continue
                    if not kind.size:
                        least = sample.least(codec, section)
                yield codec, least

    @staticmethod
    def _encoded(codec: ValueCodec, values: Array, stream: int) -> Bytes | None:
        """The section, or None where the codec does not take these values."""
        try:
            return as_bytes(codec.encode(values, stream))
        except EncodeError:
            return None

    def _kept(self, codec: ValueCodec, section: Bytes, dtype: np.dtype[Any], wide: Array) -> bool:
        """Whether what will be read is near enough."""
        from wirecodec.kernels.cpu.value import error_bounded

        read = read_only(widened(codec.decode(read_only(section), wide.size, dtype, UNLIMITED)))
        if np.array_equal(read, wide):
            return True
        whole = error_bounded.squares(wide)
        if not _LEAST < whole < np.inf:
            return False
        return bool(error_bounded.difference(wide, read) <= self.error * self.error * whole * _SLACK)


class _Sample:
    """Every so many values, and the greatest."""

    def __init__(self, values: Array, wide: Array, error: float) -> None:
        from wirecodec.kernels.cpu.value import error_bounded

        self.share = values.size // _SAMPLE
        picked = np.append(np.arange(0, values.size, self.share), [wide.argmax(), wide.argmin()])
        self.values = values[picked]
        self.wide = read_only(widened(self.values))
        self.allowed = error * error * error_bounded.squares(wide)

    def missed(self, codec: ValueCodec, section: Bytes) -> bool:
        """Whether the error of all values must be far too large."""
        from wirecodec.kernels.cpu.value import error_bounded

        read = codec.decode(read_only(section), self.values.size, self.values.dtype, UNLIMITED)
        off = error_bounded.difference(self.wide, read_only(widened(read)))
        return bool(off * self.share > _MARGIN * self.allowed > 0)

    def least(self, codec: ValueCodec, section: Bytes) -> float:
        """Half of what all values would take, without what does not grow with them."""
        fixed = 4 + 5 * codec.buckets if isinstance(codec, SketchML) else 4
        return max(section.size - fixed, 0) * self.share / 2

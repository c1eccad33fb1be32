"""``auto-value``: for each chunk, the smallest codec whose measured error is within a bound.

``polyfit`` and ``dexpfit`` are not candidates. The map of their order alone takes ⌈log2 r⌉ bits per value,
which exceeds all of ``error-bounded`` from a few dozen values on.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.tensors import as_bytes
from wirecodec.validation import as_real, set_fields
from wirecodec.value.base import ValueChoice, ValueCodec
from wirecodec.value.bit_packing import packed_size
from wirecodec.value.deflate import Deflate
from wirecodec.value.error_bounded import ErrorBounded
from wirecodec.value.mean import Mean
from wirecodec.value.offset_float import OffsetFloat
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16, widen
from wirecodec.value.sign_scale import SignScale
from wirecodec.value.sketchml import SketchML
from wirecodec.value.terngrad import TernGrad
from wirecodec.value.three_lc import ThreeLC
from wirecodec.value.zstd import Zstd

_ROUNDING_MARGIN = 1 - 2.0**-20
"""Factor on the allowed squared error that covers rounding of the sums."""
_MIN_ENERGY = 2.0**-900
"""Smallest sum of squares that underflow cannot have distorted."""
_MIN_VALUES_TO_SAMPLE, _SAMPLE_SIZE = 2**15, 2**12
"""Values from which a sample excludes candidates, and values in the sample."""
_SAMPLE_ERROR_FACTOR = 16.0
"""A candidate is excluded if its estimated squared error exceeds this multiple of the allowed one."""
_MIN_VALUES_TO_SKIP_DEFLATE = 2048
"""Values from which the result of ``zstd`` decides whether ``deflate`` is tried."""


@dataclass(frozen=True)
class _Family:
    """Candidates of one kind.

    Args:
        codecs: function that returns the candidates for an error bound.
        size: function that returns a candidate's section size in bytes, given r and the bytes per value; if
            None, the candidate is encoded to know it.
        sampled: True if one scale serves all values, so that a sample predicts the error.
    """

    codecs: Callable[[float], Sequence[ValueCodec]]
    size: Callable[[Any, int, int], int] | None = None
    sampled: bool = False


def _qsgd_size(codec: QSGD, r: int, width: int) -> int:
    """Compute the section size of ``qsgd`` in bytes."""
    return 8 + 4 * -(-r // codec.bucket) + packed_size(r, codec.bits)


_FAMILIES = (
    _Family(lambda error: [Raw()], lambda codec, r, width: r * width),
    _Family(lambda error: [RawFloat16(), RawBfloat16()], lambda codec, r, width: 2 * r),
    _Family(lambda error: [SignScale()], lambda codec, r, width: max(width, 4) + -(-r // 8)),
    _Family(lambda error: [Mean()], lambda codec, r, width: max(width, 4)),
    _Family(lambda error: [QSGD(bits) for bits in range(2, 9)], _qsgd_size),
    _Family(
        lambda error: [OffsetFloat(bits) for bits in range(2, 17)],
        lambda codec, r, width: 12 + packed_size(r, codec.bits),
        sampled=True,
    ),
    _Family(lambda error: [TernGrad()], lambda codec, r, width: 4 + -(-r // 5), sampled=True),
    _Family(lambda error: [ErrorBounded(error)]),
    _Family(lambda error: [Zstd()]),
    _Family(lambda error: [Deflate()]),
    _Family(lambda error: [ThreeLC()], sampled=True),
    _Family(lambda error: [SketchML(buckets) for buckets in (4, 16, 64, 256)], sampled=True),
)
"""All candidates: codecs that a scheme can name, and the 16-bit codecs of ``raw``."""


@dataclass(frozen=True)
class AutoValue(ValueChoice):
    """Value codec choice: for each chunk, the smallest codec within an error bound.

    The decoded values v̂ satisfy ‖v̂ - v‖₂ ≤ error · ‖v‖₂ in each chunk, so error feedback converges. A chunk
    stores the chosen codec's section and takes at most the bits per value of ``raw``. Chunks that contain NaN
    or Inf are stored raw. With few values, the result is the smallest of all candidates. With 2^15 values or
    more, a sample first excludes candidates whose error is far too large. The choice is part of the encoder;
    no section format belongs to it.

    Args:
        error: relative l2 error, above 0 and below 1.

    Raises:
        EncodeError: if ``error`` is out of range.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> codec, section = wc.codecs.AutoValue(error=0.01).choose(np.full(700, 0.1, np.float32), 0)
        >>> codec, section.size
        (Mean(), 4)
    """

    name: ClassVar[str] = "auto-value"
    error: float = 0.01

    def __post_init__(self) -> None:
        set_fields(self, error=as_real(self.error, "auto-value: error"))
        if not 0 < self.error < 1:
            raise EncodeError(f"auto-value: error is {self.error!r}; it must be above 0 and below 1")

    def choose(self, values: Array, stream: int) -> tuple[ValueCodec, Bytes]:
        """Choose a codec and encode values with it.

        Candidates are taken from a priority queue by size: the actual size if encoded, a lower bound
        otherwise.

        Args:
            values: (r,) array of an element type; it may be empty.
            stream: u64 seed of the random draws.

        Returns:
            The codec and its section.
        """
        with np.errstate(invalid="ignore"):  # a signalling bfloat16 NaN raises this warning
            finite = np.isfinite(values).all()
        if values.size == 0 or not finite:
            return Raw(), Raw().encode(values, stream)
        wide = read_only(widen(values))
        queue: list[tuple[float, int, ValueCodec, Bytes | None]] = [
            (min_size, 2 * n, codec, None)
            for n, (codec, min_size) in enumerate(self._list_candidates(values, wide, stream))
        ]
        heapq.heapify(queue)
        while queue:
            _, n, codec, section = heapq.heappop(queue)
            if section is not None:
                if self._is_within_error(codec, section, values.dtype, wide):
                    return codec, section
            elif (encoded := self._try_encode(codec, values, stream)) is not None:
                heapq.heappush(queue, (encoded.size, n, codec, encoded))
                if isinstance(codec, Zstd):
                    min_size = encoded.size / 2 if values.size >= _MIN_VALUES_TO_SKIP_DEFLATE else 0
                    heapq.heappush(queue, (min_size, n + 1, Deflate(), None))
        return Raw(), Raw().encode(values, stream)

    def candidates(self) -> list[ValueCodec]:
        """Return the codecs among which ``choose`` chooses."""
        return [codec for family in _FAMILIES for codec in family.codecs(self.error)]

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return Raw().max_bytes(r, dtype)

    def _list_candidates(self, values: Array, wide: Array, stream: int) -> Iterator[tuple[ValueCodec, float]]:
        """Yield candidates and lower bounds of their sizes; ``choose`` adds ``deflate`` after ``zstd``."""
        r, width = values.size, values.dtype.itemsize
        sample = _Sample(values, wide, self.error) if r >= _MIN_VALUES_TO_SAMPLE else None
        for family in _FAMILIES:
            for codec in family.codecs(self.error):
                if isinstance(codec, Deflate) or (width == 2 and isinstance(codec, RawFloat16 | RawBfloat16)):
                    continue
                min_size: float = family.size(codec, r, width) if family.size else 0
                if family.sampled and sample is not None:
                    section = self._try_encode(codec, sample.values, stream)
                    if section is None or sample.exceeds_error(codec, section):
                        continue
                    if not family.size:
                        min_size = sample.estimate_size(codec, section)
                yield codec, min_size

    @staticmethod
    def _try_encode(codec: ValueCodec, values: Array, stream: int) -> Bytes | None:
        """Encode values; return None if the codec raises EncodeError."""
        try:
            return as_bytes(codec.encode(values, stream))
        except EncodeError:
            return None

    def _is_within_error(self, codec: ValueCodec, section: Bytes, dtype: np.dtype[Any], wide: Array) -> bool:
        """Decode a section and check that its error is within the bound."""
        from wirecodec.kernels.cpu.value import error_bounded

        read = read_only(widen(codec.decode(read_only(section), wide.size, dtype, UNLIMITED)))
        if np.array_equal(read, wide):
            return True
        energy = error_bounded.sum_squares(wide)
        if not _MIN_ENERGY < energy < np.inf:
            return False
        return bool(
            error_bounded.sum_square_differences(wide, read)
            <= self.error * self.error * energy * _ROUNDING_MARGIN
        )


class _Sample:
    """Sample of equally spaced values, with the largest and the smallest one."""

    def __init__(self, values: Array, wide: Array, error: float) -> None:
        from wirecodec.kernels.cpu.value import error_bounded

        self.stride = values.size // _SAMPLE_SIZE
        positions = np.append(np.arange(0, values.size, self.stride), [wide.argmax(), wide.argmin()])
        self.values = values[positions]
        self.wide = read_only(widen(self.values))
        self.max_square_error = error * error * error_bounded.sum_squares(wide)

    def exceeds_error(self, codec: ValueCodec, section: Bytes) -> bool:
        """Check if a candidate's error on all values is certain to be far too large."""
        from wirecodec.kernels.cpu.value import error_bounded

        read = codec.decode(read_only(section), self.values.size, self.values.dtype, UNLIMITED)
        square_error = error_bounded.sum_square_differences(self.wide, read_only(widen(read)))
        return bool(square_error * self.stride > _SAMPLE_ERROR_FACTOR * self.max_square_error > 0)

    def estimate_size(self, codec: ValueCodec, section: Bytes) -> float:
        """Estimate a lower bound of a candidate's size: half of the variable part, scaled up."""
        fixed = 4 + 5 * codec.buckets if isinstance(codec, SketchML) else 4
        return max(section.size - fixed, 0) * self.stride / 2

"""``auto-value``: for each chunk the smallest codec whose error, as measured, is no more than promised."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, as_bytes, bits_of, read_only
from wirecodec.errors import EncodeError
from wirecodec.limits import UNLIMITED
from wirecodec.parameters import as_real, settle
from wirecodec.value.base import ValueCodec
from wirecodec.value.error_bounded import ErrorBounded
from wirecodec.value.qsgd import QSGD
from wirecodec.value.raw import Raw, RawBfloat16, RawFloat16, widened
from wirecodec.value.sign_scale import SignScale

__all__ = ["AutoValue"]

_SLACK = 1 - 2.0**-20
"""Sums that are rounded do not break a promise by less."""
_LEAST = 2.0**-900
"""A sum of squares of which some may have vanished."""


@dataclass(frozen=True)
class _Kind:
    """Codecs of one kind: those for an error, and their size of r elements of so many bytes.

    Without ``size`` they are encoded to know it.
    """

    codecs: Callable[[float], Sequence[ValueCodec]]
    size: Callable[[Any, int, int], int] | None = None


def _qsgd_bytes(codec: QSGD, r: int, width: int) -> int:
    return 8 + 4 * -(-r // codec.bucket) + 64 * codec.bits * (r // 512) + 4 * -(-(r % 512) * codec.bits // 32)


_KINDS = (
    _Kind(lambda error: [Raw()], lambda codec, r, width: r * width),
    _Kind(lambda error: [RawFloat16(), RawBfloat16()], lambda codec, r, width: 2 * r),
    _Kind(lambda error: [SignScale()], lambda codec, r, width: max(width, 4) + -(-r // 8)),
    _Kind(lambda error: [QSGD(bits) for bits in range(2, 9)], _qsgd_bytes),
    _Kind(lambda error: [ErrorBounded(error)]),
)
"""What is tried: every codec that a scheme can name, and what ``raw`` picks."""


@dataclass(frozen=True)
class AutoValue:
    """The smallest codec that keeps ‖v̂ - v‖₂ ≤ error · ‖v‖₂ in a chunk; raw where a value is not finite.

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
        """The codec and its section, from the smallest size on until one keeps the promise; raw for none."""
        if values.size == 0 or not np.isfinite(values).all():
            return Raw(), Raw().encode(values, stream)
        r, width = values.size, values.dtype.itemsize
        tries: list[tuple[int, int, ValueCodec, Bytes | None]] = []
        for codec, size in self._candidates(r, width):
            if size is not None:
                tries.append((size, len(tries), codec, None))
            elif (made := self._encoded(codec, values, stream)) is not None:
                tries.append((made.size, len(tries), codec, made))
        wide = _widened(values)
        for _, _, codec, made in sorted(tries, key=lambda one: one[:2]):
            section = self._encoded(codec, values, stream) if made is None else made
            if section is not None and self._kept(codec, section, values.dtype, wide):
                return codec, section
        return Raw(), Raw().encode(values, stream)

    def _candidates(self, r: int, width: int) -> Iterator[tuple[ValueCodec, int | None]]:
        for kind in _KINDS:
            for codec in kind.codecs(self.error):
                if width > 2 or not isinstance(codec, RawFloat16 | RawBfloat16):
                    yield codec, kind.size(codec, r, width) if kind.size else None

    @staticmethod
    def _encoded(codec: ValueCodec, values: Array, stream: int) -> Bytes | None:
        """The section, or None where the codec does not take these values."""
        try:
            return as_bytes(codec.encode(values, stream))
        except EncodeError:
            return None

    def _kept(self, codec: ValueCodec, section: Bytes, dtype: np.dtype[Any], wide: Array) -> bool:
        """Whether what will be read is near enough."""
        from wirecodec.kernels.cpu import bounded

        read = _widened(codec.decode(read_only(section), wide.size, dtype, UNLIMITED))
        if np.array_equal(read, wide):
            return True
        whole = bounded.squares(wide)
        if not _LEAST < whole < np.inf:
            return False
        return bool(bounded.difference(wide, read) <= self.error * self.error * whole * _SLACK)


def _widened(values: Array) -> Array:
    """The values, those of 16 bits as float32."""
    wide = widened(bits_of(values), values.dtype) if values.dtype.itemsize == 2 else values
    return read_only(wide)

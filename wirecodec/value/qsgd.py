"""``qsgd``: stochastic quantisation with one scale a bucket (formats/spec/value/qsgd.md).

After Alistarh et al., QSGD (2017). Unbiased up to 2^-16 of a step; the draws are counter hashes, so the same
seed gives the same bytes everywhere.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of, read_only
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, settle
from wirecodec.value.bit_packing import packed_size, stray_bits
from wirecodec.value.float32_convert import LARGEST, as_single, from_single, largest_single

__all__ = ["QSGD"]

_HEAD = struct.Struct("<BBHI")
_NORMS = ("max", "l2")
_MAX_BUCKET = 2**24
_SMALLEST_SCALE = np.float32(2.0**-100)


@dataclass(frozen=True)
class QSGD:
    """2s + 1 levels, s = 2^(bits-1) - 1, times the scale of the value's bucket.

    Args:
        bits: 2 to 8 a value.
        bucket: how many values share a scale, a multiple of 16.
        norm: whether that scale is their largest magnitude ("max") or their l2 norm ("l2").
    """

    name: ClassVar[str] = "qsgd"
    wire_id: ClassVar[int] = 4
    carries_nonfinite: ClassVar[bool] = False
    bits: int = 4
    bucket: int = 512
    norm: str = "max"

    def __post_init__(self) -> None:
        settle(self, bits=as_integer(self.bits, "qsgd: bits"), bucket=as_integer(self.bucket, "qsgd: bucket"))
        if not 2 <= self.bits <= 8:
            raise EncodeError(f"qsgd: bits is {self.bits}; it must be from 2 to 8")
        if self.bucket % 16 or not 16 <= self.bucket <= _MAX_BUCKET:
            raise EncodeError(
                f"qsgd: bucket is {self.bucket}; it must be a multiple of 16, at most {_MAX_BUCKET}"
            )
        if self.norm not in _NORMS:
            raise EncodeError(f"qsgd: norm is {self.norm!r}; it must be 'max' or 'l2'")

    @property
    def levels(self) -> int:
        """s, the number of levels above zero."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, values: Array, stream: int) -> Bytes:
        """Scales, codes and packing, in one pass where a bucket fits a thread's unit."""
        from wirecodec.kernels.cpu.threads import share
        from wirecodec.kernels.cpu.value import qsgd

        x = as_single(values, self.name)
        body = _HEAD.size + 4 * -(-x.size // self.bucket)
        section = np.empty(body + packed_size(x.size, self.bits), np.uint8)
        _HEAD.pack_into(section.data, 0, self.bits, _NORMS.index(self.norm), 0, self.bucket)
        scales, words = section[_HEAD.size : body].view(np.float32), section[body:].view(np.uint32)
        bits = bits_of(x)
        known = self.norm == "l2" or self.bucket > qsgd.UNIT
        if self.norm == "l2":
            qsgd.l2_scales(bits, self.bucket, LARGEST[values.dtype.name], scales)
        elif known:
            qsgd.max_scales(bits, self.bucket, scales)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        share(
            lambda turns: qsgd.quantise(bits, self.bucket, self.bits, low, high, known, scales, words, turns),
            -(-x.size // qsgd.UNIT),
            qsgd.LEAST_UNITS,
        )
        return section

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        return _HEAD.size + 4 * -(-r // self.bucket) + packed_size(r, self.bits)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Levels times steps, rounded to ``dtype``."""
        from wirecodec.kernels.cpu.threads import share
        from wirecodec.kernels.cpu.value import qsgd

        bits, bucket, scales = cls.opened(section, r, dtype)
        words = read_only(section)[_HEAD.size + scales.nbytes :].view("<u4")
        values, bad = np.empty(r, np.float32), np.zeros(1, np.bool_)
        share(
            lambda turns: qsgd.dequantise(words, bucket, bits, scales, bits_of(values), bad, turns),
            -(-r // qsgd.UNIT),
            qsgd.LEAST_UNITS,
        )
        if bad[0]:
            raise Invalid(
                "qsgd-code", f"a code is above {2**bits - 2}, or not the middle one in an empty bucket"
            )
        return from_single(values, dtype)

    @classmethod
    def opened(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[int, int, Array]:
        """The bits of a code, the bucket and the scales, after every check but that of the codes."""
        from wirecodec.kernels.cpu.value import qsgd

        if section.size < _HEAD.size:
            raise Malformed("qsgd-length", f"{section.size} bytes; the parameters take {_HEAD.size}")
        bits, norm, reserved, bucket = _HEAD.unpack(section[: _HEAD.size].tobytes())
        if (
            not 2 <= bits <= 8
            or norm >= len(_NORMS)
            or reserved
            or bucket % 16
            or not 16 <= bucket <= _MAX_BUCKET
        ):
            raise Malformed(
                "qsgd-parameter", f"bits {bits}, norm {norm}, reserved {reserved}, bucket {bucket}"
            )
        body = _HEAD.size + 4 * -(-r // bucket)
        if section.size != body + packed_size(r, bits):
            raise Malformed("qsgd-length", f"{section.size} bytes for {r} values of {bits} bits")
        scales = section[_HEAD.size : body].copy().view("<f4")
        if not qsgd.are_scales(bits_of(scales), _SMALLEST_SCALE, np.float32(largest_single(dtype))):
            raise Invalid(
                "qsgd-scale", "a scale is not a normal, positive, finite number of the element type, nor 0"
            )
        if stray_bits(section[body:], r, bits):
            raise Malformed("qsgd-padding", "a bit after the last code is set")
        return bits, bucket, scales

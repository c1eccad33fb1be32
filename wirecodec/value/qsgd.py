"""``qsgd``: stochastic quantisation with one scale per bucket (formats/spec/value/qsgd.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import WORD, Array, Bytes, bits_of, read_only
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.limits import DecodeLimits
from wirecodec.support import SectionBatch
from wirecodec.validation import as_integer, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.bit_packing import has_stray_bits, packed_size, packed_sizes
from wirecodec.value.float32_convert import MAX_FLOAT32, from_float32, max_float32, to_float32

_HEADER = struct.Struct("<BBHI")
_NORMS = ("max", "l2")
_MAX_BUCKET = 2**24
_MIN_SCALE = np.float32(2.0**-100)
MIN_BATCH_VALUES = 2**17
"""Values of a batch that justify another thread."""


_MAX_SMALL = 2**14
"""Values up to which one kernel call for the whole section is faster than several."""


@dataclass(frozen=True)
class QSGD(ValueCodec):
    """Quantized SGD (QSGD) value codec.

    A value is rounded at random to one of the 2s + 1 multiples of scale/s, where s = 2^(bits-1) - 1. It takes
    bits + 32/bucket bits per value and 8 bytes per chunk. Unbiased up to 2^-16 of a step. Draws are hashes of
    a counter, so the same seed gives the same bytes on every backend. With norm "l2" and few bits (4 or
    fewer), error feedback diverges.

    Source: Alistarh et al., *QSGD*, 2017; formats/spec/value/qsgd.md.

    Args:
        bits: bits per value, 2 to 8.
        bucket: values per scale, a multiple of 16, at most 2^24.
        norm: "max" if the scale is the bucket's largest magnitude, "l2" if it is its l2 norm.

    Raises:
        EncodeError: if a parameter is out of range; on encoding, if a float64 value is too large for float32.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | qsgd(bits=8)", seed=0)).values
        array([ 0.992126, -2.007874,  0.496063,  3.      ], dtype=float32)
    """

    name: ClassVar[str] = "qsgd"
    wire_id: ClassVar[int] = 4
    carries_nonfinite: ClassVar[bool] = False
    bits: int = 4
    bucket: int = 512
    norm: str = "max"

    def __post_init__(self) -> None:
        set_fields(
            self, bits=as_integer(self.bits, "qsgd: bits"), bucket=as_integer(self.bucket, "qsgd: bucket")
        )
        if not 2 <= self.bits <= 8:
            raise EncodeError(f"qsgd: bits is {self.bits}; it must be 2 to 8")
        if self.bucket % 16 or not 16 <= self.bucket <= _MAX_BUCKET:
            raise EncodeError(
                f"qsgd: bucket is {self.bucket}; it must be a multiple of 16, 16 to {_MAX_BUCKET}"
            )
        if self.norm not in _NORMS:
            raise EncodeError(f"qsgd: norm is {self.norm!r}; it must be 'max' or 'l2'")

    @property
    def levels(self) -> int:
        """Number of levels above zero (s)."""
        return (1 << (self.bits - 1)) - 1

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values in one pass, or two for norm "l2" or buckets above 16,384 values."""
        if values.size <= _MAX_SMALL and self.norm == "max" and self.bucket <= _MAX_SMALL:
            return self._encode_short(values, stream)
        from wirecodec.kernels.cpu.threads import run_parallel
        from wirecodec.kernels.cpu.value.qsgd import (
            MIN_UNITS_PER_THREAD,
            UNIT,
            l2_scales,
            max_scales,
            quantise,
        )

        x = to_float32(values, self.name)
        body = _HEADER.size + 4 * -(-x.size // self.bucket)
        section = np.empty(body + packed_size(x.size, self.bits), np.uint8)
        _HEADER.pack_into(section.data, 0, self.bits, _NORMS.index(self.norm), 0, self.bucket)
        scales, words = section[_HEADER.size : body].view(np.float32), section[body:].view(np.uint32)
        bits = bits_of(x)
        scales_given = self.norm == "l2" or self.bucket > UNIT
        if self.norm == "l2":
            l2_scales(bits, self.bucket, MAX_FLOAT32[values.dtype.name], scales)
        elif scales_given:
            max_scales(bits, self.bucket, scales)
        low, high = np.uint32(stream & 0xFFFFFFFF), np.uint32(stream >> 32)
        run_parallel(
            lambda turns: quantise(
                bits, self.bucket, self.bits, low, high, scales_given, scales, words, turns
            ),
            -(-x.size // UNIT),
            MIN_UNITS_PER_THREAD,
        )
        return section

    def _encode_short(self, values: Array, stream: int) -> Bytes:
        """Encode values with one kernel call, for norm "max"."""
        from wirecodec.kernels.cpu.value.qsgd_batch import write_short

        bits, low, high = bits_of(to_float32(values, self.name)), stream & 0xFFFFFFFF, stream >> 32
        body = _HEADER.size + 4 * -(-values.size // self.bucket)
        words = body + packed_size(values.size, self.bits) >> 2
        section: Bytes = write_short(
            bits, self.bucket, self.bits, np.uint32(low), np.uint32(high), words
        ).view(np.uint8)
        return section

    def encode_batch(self, values: Array, cuts: Array, streams: Array) -> SectionBatch | None:
        """Encode the values of many tensors, each as ``encode`` does; see ``ValueCodec``."""
        from wirecodec.kernels.cpu.threads import least_units, run_parallel
        from wirecodec.kernels.cpu.value import qsgd, qsgd_batch

        if self.norm != "max" or self.bucket > qsgd.UNIT or values.dtype == np.float64:
            return super().encode_batch(values, cuts, streams)
        bits, n = bits_of(to_float32(values, self.name)), cuts.size - 1
        counts = np.diff(cuts)
        lengths = _HEADER.size + 4 * -(-counts // self.bucket) + packed_sizes(counts, self.bits)
        halves = streams.astype("<u8").view("<u4").reshape(-1, 2)

        def write(words: Array, starts: Array) -> None:
            run_parallel(
                lambda turns: qsgd_batch.write(
                    bits, cuts, self.bucket, self.bits, halves, words, starts, lengths >> 2, turns
                ),
                n,
                least_units(MIN_BATCH_VALUES, n, bits.size),
            )

        return SectionBatch(self.wire_id, lengths, write)

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        return _HEADER.size + 4 * -(-r // self.bucket) + packed_size(r, self.bits)

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode codes to multiples of the steps, rounded to ``dtype``."""
        if r <= _MAX_SMALL and section.size % 4 == 0:
            from wirecodec.kernels.cpu.value.qsgd_batch import read_short

            floats, largest = np.empty(r, np.float32), np.float32(max_float32(dtype))
            if read_short(read_only(section).view(WORD), _MIN_SCALE, largest, floats.view(np.uint32)):
                return from_float32(floats, dtype)
        from wirecodec.kernels.cpu.threads import run_parallel
        from wirecodec.kernels.cpu.value import qsgd

        bits, bucket, scales = cls.read_header(section, r, dtype)
        words = read_only(section)[_HEADER.size + scales.nbytes :].view("<u4")
        values, bad = np.empty(r, np.float32), np.zeros(1, np.bool_)
        run_parallel(
            lambda turns: qsgd.dequantise(words, bucket, bits, scales, bits_of(values), bad, turns),
            -(-r // qsgd.UNIT),
            qsgd.MIN_UNITS_PER_THREAD,
        )
        if bad[0]:
            raise Invalid(
                "qsgd-code",
                f"a code is above {2**bits - 2}, or is not {2 ** (bits - 1) - 1} in a bucket of scale 0",
            )
        return from_float32(values, dtype)

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, cuts: Array, dtype: np.dtype[Any]
    ) -> tuple[Array, Array] | None:
        """Decode the sections of many tensors; see ``ValueCodec``."""
        from wirecodec.kernels.cpu.threads import least_units, run_parallel
        from wirecodec.kernels.cpu.value import qsgd_batch

        n, total = starts.size, int(cuts[-1])
        values, faults = np.empty(total, np.float32), np.empty(n, np.bool_)
        largest = np.float32(max_float32(dtype))
        run_parallel(
            lambda turns: qsgd_batch.read(
                words, starts, lengths, _MIN_SCALE, largest, cuts, bits_of(values), faults, turns
            ),
            n,
            least_units(MIN_BATCH_VALUES, n, total),
        )
        return None if faults.any() else (from_float32(values, dtype), cuts[:-1])

    @classmethod
    def read_header(cls, section: Bytes, r: int, dtype: np.dtype[Any]) -> tuple[int, int, Array]:
        """Validate everything but the codes of a section.

        Returns:
            Bits per code, values per bucket, and the scales.

        Raises:
            Malformed: if length, parameters or padding are wrong.
            Invalid: if a scale is not 0 and not in the range of the element type.
        """
        from wirecodec.kernels.cpu.value import qsgd

        if section.size < _HEADER.size:
            raise Malformed("qsgd-length", f"{section.size} bytes; the parameters take {_HEADER.size}")
        bits, norm, reserved, bucket = _HEADER.unpack(section[: _HEADER.size].tobytes())
        if (
            not 2 <= bits <= 8
            or norm >= len(_NORMS)
            or reserved
            or bucket % 16
            or not 16 <= bucket <= _MAX_BUCKET
        ):
            raise Malformed(
                "qsgd-parameter",
                f"bits is {bits}, norm is {norm}, reserved is {reserved}, bucket is {bucket}",
            )
        body = _HEADER.size + 4 * -(-r // bucket)
        if section.size != body + packed_size(r, bits):
            raise Malformed("qsgd-length", f"{section.size} bytes for {r} values of {bits} bits")
        scales = section[_HEADER.size : body].copy().view("<f4")
        if not qsgd.are_scales(bits_of(scales), _MIN_SCALE, np.float32(max_float32(dtype))):
            raise Invalid(
                "qsgd-scale", "a scale is neither 0 nor a finite number of the element type from 2^-100 on"
            )
        if has_stray_bits(section[body:], r, bits):
            raise Malformed("qsgd-padding", "a bit after the last code is set")
        return bits, bucket, scales

"""``sketchml``: the mean of each value's quantile bucket (formats/spec/value/sketchml.md)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.canonical_huffman import (
    build_table,
    check_spans,
    frame_spans,
    locate_spans,
    pack_lengths,
)
from wirecodec.kernels.layout import HUFFMAN_SPAN, SKETCH_CELLS, SKETCH_SUMS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, set_fields
from wirecodec.value.base import ValueCodec
from wirecodec.value.bit_packing import has_stray_bits, pack, packed_size, unpack
from wirecodec.value.float32_convert import from_float32, max_float32, to_float32

_HEADER = struct.Struct("<BBH")
_PACKED, _HUFFMAN = 0, 1
"""Forms of a section."""
_MAX_BUCKETS = 256
_WRITE_MARGIN = 8
"""Bytes beyond the result that the Huffman writer may overwrite."""
_NO_EXTRA_BITS, _BUCKET_NUMBERS = np.zeros(_MAX_BUCKETS, np.int64), np.arange(_MAX_BUCKETS)


@dataclass(frozen=True)
class SketchML(ValueCodec):
    """Quantile bucket (SketchML) value codec.

    Values are sorted into buckets of about equal counts, and a bucket contains values of one sign. A value is
    decoded as its bucket's mean. Bucket numbers are packed, or Huffman-coded if that is smaller. It takes at
    most ⌈log2 buckets⌉ bits per value, and 4 bytes per bucket and chunk. Contractive; not unbiased.

    Source: Jiang et al., *SketchML*, 2018, and *SKCompress*, 2020; formats/spec/value/sketchml.md. The
    quantiles are exact among cells of magnitudes instead of sketched, because all values of a chunk are
    available. The papers' MinMaxSketch, which merges keys, is not part of it.

    Args:
        buckets: maximum number of buckets, 2 to 256.

    Raises:
        EncodeError: if ``buckets`` is out of range; on encoding, if a float64 value is too large for float32.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> x = np.array([1.0, -2.0, 0.5, 3.0], np.float32)
        >>> wc.decode(wc.encode(x, "all | raw-index | sketchml(buckets=2)")).values
        array([ 1.5, -2. ,  1.5,  1.5], dtype=float32)
    """

    name: ClassVar[str] = "sketchml"
    wire_id: ClassVar[int] = 13
    carries_nonfinite: ClassVar[bool] = False
    buckets: int = 64

    def __post_init__(self) -> None:
        set_fields(self, buckets=as_integer(self.buckets, "sketchml: buckets"))
        if not 2 <= self.buckets <= _MAX_BUCKETS:
            raise EncodeError(f"sketchml: buckets is {self.buckets}; it must be 2 to {_MAX_BUCKETS}")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Encode values in four passes, the last one over bytes: extremes, counts, buckets, codes."""
        from wirecodec.kernels.cpu.coding import canonical_huffman

        means, sizes, codes = _assign_buckets(bits_of(to_float32(values, self.name)), self.buckets)
        width = (means.size - 1).bit_length()
        lengths = np.empty(means.size, np.uint8)
        canonical_huffman.build_lengths(sizes, lengths)
        inner = -(-codes.size // HUFFMAN_SPAN) - 1
        huffman_bits = 4 * lengths.size + 16 * inner + int(sizes @ lengths)
        if huffman_bits < 8 * packed_size(codes.size, width):
            return _join_section(_HUFFMAN, means, _write_huffman(codes, lengths, inner))
        return _join_section(_PACKED, means, pack(codes, width) if width else codes[:0])

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the maximum number of bytes of a section of at most r values of ``dtype``."""
        means = min(self.buckets, r)
        spans = -(-r // HUFFMAN_SPAN)  # each ends with a whole byte, which the choice of Huffman leaves out
        return _HEADER.size + 4 * means + packed_size(r, (means - 1).bit_length()) + spans + 1

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """Decode bucket numbers to means, rounded to ``dtype``."""
        from wirecodec.kernels.cpu.value import sketchml

        if section.size < _HEADER.size:
            raise Malformed("sketchml-length", f"{section.size} bytes; the header alone takes {_HEADER.size}")
        form, last, reserved = _HEADER.unpack(section[: _HEADER.size].tobytes())
        if form > _HUFFMAN or reserved or (form == _HUFFMAN and last == 0):
            raise Malformed(
                "sketchml-form", f"form is {form}, with {last + 1} buckets, reserved is {reserved}"
            )
        body = _HEADER.size + 4 * (last + 1)
        if section.size < body:
            raise Malformed("sketchml-length", f"{section.size} bytes; the means alone end at {body}")
        means = section[_HEADER.size : body].copy().view("<f4")
        if not sketchml.is_ascending(bits_of(means), np.float32(max_float32(dtype))):
            raise Invalid(
                "sketchml-mean", "a mean is not finite in the element type, or not above its predecessor"
            )
        words = np.zeros(_MAX_BUCKETS, np.dtype(f"u{dtype.itemsize}"))
        words[: last + 1] = bits_of(from_float32(means, dtype))
        read = _read_huffman if form == _HUFFMAN else _read_packed
        codes = read(section[body:], r, last + 1)
        out = np.empty(r, words.dtype)
        if sketchml.look_up(codes, words, out) > last:
            raise Invalid("sketchml-bucket", f"a bucket number is above {last}")
        return out.view(dtype)


def _assign_buckets(bits: Array, buckets: int) -> tuple[Array, Array, Array]:
    """Compute the mean and the size of each bucket, in ascending order, and the bucket of each value."""
    from wirecodec.kernels.cpu.value import sketchml

    least, top = sketchml.find_extremes(bits)
    shift = 0
    while top - max(least - (1 << shift), 0) >> shift >= SKETCH_CELLS:
        shift += 1
    cells = np.uint32(max(least - (1 << shift), 0)), np.uint32(shift)
    counts = np.empty((2, SKETCH_CELLS), np.uint32)
    sketchml.count_cells(bits, *cells, counts)
    numbers = np.zeros(counts.shape, np.uint8)
    sizes = np.empty(_MAX_BUCKETS, np.int64)
    negative, used = sketchml.number_cells(counts, buckets, numbers, sizes)
    codes = np.empty(bits.size, np.uint8)
    sums = np.zeros((SKETCH_SUMS, _MAX_BUCKETS))
    sketchml.assign(bits, *cells, numbers, codes, sums)
    means = ((sums[0] + sums[2]) + (sums[1] + sums[3]))[:used] / sizes[:used]
    means[:negative] *= -1
    return means.astype("<f4"), sizes[:used], codes


def _join_section(form: int, means: Array, body: Array) -> Bytes:
    """Join header, means and bucket numbers."""
    header = np.frombuffer(_HEADER.pack(form, means.size - 1, 0), np.uint8)
    return np.concatenate([header, means.view(np.uint8), body])


def _write_huffman(codes: Array, lengths: Array, inner: int) -> Bytes:
    """Write the lengths of the Huffman codes, the sizes of the spans, and the spans."""
    from wirecodec.kernels.cpu.coding import canonical_huffman
    from wirecodec.kernels.cpu.index import huffman

    words = np.empty(lengths.size, np.uint32)
    canonical_huffman.assign_codes(lengths, words)
    header = pack_lengths(lengths)
    at = len(header) + 2 * inner
    body = np.empty(at + codes.size * int(lengths.max()) // 8 + inner + 1 + _WRITE_MARGIN, np.uint8)
    ends = np.empty(inner + 1, np.int64)
    huffman.write_keys(codes, 1, words, body, at, ends)
    sizes = np.diff(ends[:-1], prepend=at).astype("<u2").tobytes()
    body[:at] = np.frombuffer(header + sizes, np.uint8)
    return body[: ends[-1]]


def _read_packed(body: Bytes, r: int, buckets: int) -> Array:
    """Read packed bucket numbers."""
    width = (buckets - 1).bit_length()
    if body.size != packed_size(r, width):
        raise Malformed("sketchml-length", f"{body.size} bytes for {r} codes of {width} bits")
    if width == 0:
        return np.zeros(r, np.uint8)
    if has_stray_bits(body, r, width):
        raise Malformed("sketchml-padding", "a bit after the last code is set")
    return unpack(body, r, width, np.uint8)


def _read_huffman(body: Bytes, r: int, buckets: int) -> Array:
    """Read Huffman-coded bucket numbers."""
    from wirecodec.kernels.cpu.coding import canonical_huffman_read

    inner = -(-r // HUFFMAN_SPAN) - 1
    at_sizes = -(-buckets // 2)
    at_spans = at_sizes + 2 * inner
    if body.size < at_spans:
        raise Malformed("sketchml-length", f"{body.size} bytes; lengths and sizes take {at_spans}")
    table, _ = build_table(body[:at_sizes], buckets, 0, _NO_EXTRA_BITS, _BUCKET_NUMBERS, "sketchml")
    starts = locate_spans(body[at_sizes:at_spans], body.size - at_spans, "sketchml")
    framed = frame_spans(body[at_spans:], 2 * min(r, HUFFMAN_SPAN))
    codes = np.empty(r, np.uint8)
    ends = starts[:-1].view(np.uint64) * np.uint64(8)
    canonical_huffman_read.read_bytes(framed, table, ends, codes)
    check_spans(framed, starts, ends, "sketchml")
    return codes

"""``sketchml``: the mean of the value's quantile bucket (formats/spec/value/sketchml.md).

After Jiang et al., SketchML (2018), with the Huffman-coded bucket numbers of SKCompress (2020). The quantiles
are exact among cells of magnitudes, no sketch of them: all values of a chunk are at hand.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, bits_of
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.kernels.canonical_huffman import (
    check_spans,
    framed_spans,
    packed_lengths,
    reader_table,
    span_starts,
)
from wirecodec.kernels.layout import HUFFMAN_SPAN, SKETCH_CELLS, SKETCH_SUMS
from wirecodec.limits import DecodeLimits
from wirecodec.validation import as_integer, settle
from wirecodec.value.bit_packing import packed, packed_size, stray_bits, unpacked
from wirecodec.value.float32_convert import as_single, from_single, largest_single

__all__ = ["SketchML"]

_HEAD = struct.Struct("<BBH")
_PACKED, _HUFFMAN = 0, 1
_MOST = 256
_SLACK = 8
_NO_EXTRAS, _VALUES = np.zeros(_MOST, np.int64), np.arange(_MOST)


@dataclass(frozen=True)
class SketchML:
    """Buckets of about equally many values, none of both signs; a value comes back as its bucket's mean.

    Args:
        buckets: 2 to 256.
    """

    name: ClassVar[str] = "sketchml"
    wire_id: ClassVar[int] = 13
    carries_nonfinite: ClassVar[bool] = False
    buckets: int = 64

    def __post_init__(self) -> None:
        settle(self, buckets=as_integer(self.buckets, "sketchml: buckets"))
        if not 2 <= self.buckets <= _MOST:
            raise EncodeError(f"sketchml: buckets is {self.buckets}; it must be from 2 to {_MOST}")

    def encode(self, values: Array, stream: int) -> Bytes:
        """Extremes, counts, buckets, codes: four passes, the last over bytes."""
        from wirecodec.kernels.cpu.coding import canonical_huffman

        means, sizes, codes = _bucketed(bits_of(as_single(values, self.name)), self.buckets)
        width = (means.size - 1).bit_length()
        lengths = np.empty(means.size, np.uint8)
        canonical_huffman.lengths(sizes, lengths)
        inner = -(-codes.size // HUFFMAN_SPAN) - 1
        coded = 4 * lengths.size + 16 * inner + int(sizes @ lengths)
        if coded < 8 * packed_size(codes.size, width):
            return _section(_HUFFMAN, means, _coded(codes, lengths, inner))
        return _section(_PACKED, means, packed(codes, width) if width else codes[:0])

    def max_bytes(self, r: int, dtype: np.dtype[Any]) -> int:
        """Return the most bytes of a section of at most r values of ``dtype``."""
        means = min(self.buckets, r)
        spans = -(-r // HUFFMAN_SPAN)  # each ends with a whole byte, which the choice of Huffman leaves out
        return _HEAD.size + 4 * means + packed_size(r, (means - 1).bit_length()) + spans + 1

    @classmethod
    def decode(cls, section: Bytes, r: int, dtype: np.dtype[Any], limits: DecodeLimits) -> Array:
        """The means, rounded to ``dtype``, by bucket numbers."""
        from wirecodec.kernels.cpu.value import sketchml

        if section.size < _HEAD.size:
            raise Malformed("sketchml-length", f"{section.size} bytes; the head alone takes {_HEAD.size}")
        form, more, reserved = _HEAD.unpack(section[: _HEAD.size].tobytes())
        if form > _HUFFMAN or reserved or (form == _HUFFMAN and more == 0):
            raise Malformed("sketchml-form", f"form {form}, {more + 1} buckets, reserved {reserved}")
        body = _HEAD.size + 4 * (more + 1)
        if section.size < body:
            raise Malformed("sketchml-length", f"{section.size} bytes; the means alone end at {body}")
        means = section[_HEAD.size : body].copy().view("<f4")
        if not sketchml.ascend(bits_of(means), np.float32(largest_single(dtype))):
            raise Invalid("sketchml-mean", "a mean is not finite in the element type, or not above the last")
        words = np.zeros(_MOST, np.dtype(f"u{dtype.itemsize}"))
        words[: more + 1] = bits_of(from_single(means, dtype))
        read = _read_huffman if form == _HUFFMAN else _read_packed
        codes = read(section[body:], r, more + 1)
        out = np.empty(r, words.dtype)
        if sketchml.look_up(codes, words, out) > more:
            raise Invalid("sketchml-bucket", f"a bucket beyond the {more + 1} that there are")
        return out.view(dtype)


def _bucketed(bits: Array, buckets: int) -> tuple[Array, Array, Array]:
    """The mean and the size of each bucket, in the order of values, and the bucket of each value."""
    from wirecodec.kernels.cpu.value import sketchml

    least, top = sketchml.extremes(bits)
    shift = 0
    while top - max(least - (1 << shift), 0) >> shift >= SKETCH_CELLS:
        shift += 1
    where = np.uint32(max(least - (1 << shift), 0)), np.uint32(shift)
    counts = np.empty((2, SKETCH_CELLS), np.uint32)
    sketchml.count_cells(bits, *where, counts)
    numbers = np.zeros(counts.shape, np.uint8)
    sizes = np.empty(_MOST, np.int64)
    negative, used = sketchml.number_cells(counts, buckets, numbers, sizes)
    codes = np.empty(bits.size, np.uint8)
    sums = np.zeros((SKETCH_SUMS, _MOST))
    sketchml.assign(bits, *where, numbers, codes, sums)
    means = ((sums[0] + sums[2]) + (sums[1] + sums[3]))[:used] / sizes[:used]
    means[:negative] *= -1
    return means.astype("<f4"), sizes[:used], codes


def _section(form: int, means: Array, body: Array) -> Bytes:
    head = np.frombuffer(_HEAD.pack(form, means.size - 1, 0), np.uint8)
    return np.concatenate([head, means.view(np.uint8), body])


def _coded(codes: Array, lengths: Array, inner: int) -> Bytes:
    """The lengths of the Huffman codes, those of the spans, the spans."""
    from wirecodec.kernels.cpu.coding import canonical_huffman
    from wirecodec.kernels.cpu.index import huffman

    words = np.empty(lengths.size, np.uint32)
    canonical_huffman.codes(lengths, words)
    head = packed_lengths(lengths)
    at = len(head) + 2 * inner
    body = np.empty(at + codes.size * int(lengths.max()) // 8 + inner + 1 + _SLACK, np.uint8)
    ends = np.empty(inner + 1, np.int64)
    huffman.write_keys(codes, 1, words, body, at, ends)
    sizes = np.diff(ends[:-1], prepend=at).astype("<u2").tobytes()
    body[:at] = np.frombuffer(head + sizes, np.uint8)
    return body[: ends[-1]]


def _read_packed(body: Bytes, r: int, buckets: int) -> Array:
    """Bucket numbers of as many bits as the last one has."""
    width = (buckets - 1).bit_length()
    if body.size != packed_size(r, width):
        raise Malformed("sketchml-length", f"{body.size} bytes for {r} codes of {width} bits")
    if width == 0:
        return np.zeros(r, np.uint8)
    if stray_bits(body, r, width):
        raise Malformed("sketchml-padding", "a bit after the last code is set")
    return unpacked(body, r, width, np.uint8)


def _read_huffman(body: Bytes, r: int, buckets: int) -> Array:
    """Bucket numbers in Huffman code."""
    from wirecodec.kernels.cpu.coding import canonical_huffman_read

    inner = -(-r // HUFFMAN_SPAN) - 1
    at_sizes = -(-buckets // 2)
    at_spans = at_sizes + 2 * inner
    if body.size < at_spans:
        raise Malformed("sketchml-length", f"{body.size} bytes; lengths and sizes take {at_spans}")
    table, _ = reader_table(body[:at_sizes], buckets, 0, _NO_EXTRAS, _VALUES, "sketchml")
    starts = span_starts(body[at_sizes:at_spans], body.size - at_spans, "sketchml")
    framed = framed_spans(body[at_spans:], 2 * min(r, HUFFMAN_SPAN))
    codes = np.empty(r, np.uint8)
    ends = starts[:-1].view(np.uint64) * np.uint64(8)
    canonical_huffman_read.read_bytes(framed, table, ends, codes)
    check_spans(framed, starts, ends, "sketchml")
    return codes

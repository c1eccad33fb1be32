"""Value codec 13, sketchml: writing (spec/value/sketchml.md, Writing); sums are in binary64."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.bits import pack_stream
from formats.reference.floats import (
    FLOAT32,
    Format,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_as_float32,
)
from formats.reference.index.huffman import SPAN, assign_codes
from formats.reference.packed_codes import pack_codes, packed_size
from formats.reference.value.sketchml import SIGN
from formats.reference.writing.index.huffman import compute_code_lengths

CELLS = 2**15
SUMS = 4


def write_sketchml(values: bytes, dtype: Format, buckets: int) -> bytes:
    """Write quantile buckets of cells: their means, and bucket numbers in the smaller form.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        buckets: maximum number of buckets, 2 … 256.

    Raises:
        ValueError: if an element is not finite in binary32.
    """
    words = unpack_as_float32(values, dtype)
    keys = [word & SIGN - 1 for word in words]
    least, greatest = min((key for key in keys if key), default=0), max(keys)
    shift = 0
    while (greatest - max(least - 2**shift, 0)) >> shift >= CELLS:
        shift += 1
    base = max(least - 2**shift, 0)
    cells = [(max(word % SIGN - base, 0) >> shift, word >= SIGN) for word in words]
    negative = sum(sign for _, sign in cells)
    share = (2 * buckets * negative + len(cells)) // (2 * len(cells))
    if 0 < negative < len(cells):
        share = min(max(share, 1), buckets - 1)
    counts = Counter(cells)
    positive_ones = _assign_quantiles({c: n for (c, sign), n in counts.items() if not sign}, buckets - share)
    negative_ones = _assign_quantiles({c: n for (c, sign), n in counts.items() if sign}, share)
    keys_of = [(0, -negative_ones[c]) if sign else (1, positive_ones[c]) for c, sign in cells]
    numbers = {key: n for n, key in enumerate(sorted(set(keys_of)))}
    codes = [numbers[key] for key in keys_of]
    return write_sketchml_section(_compute_means(words, codes, len(numbers)), codes)


def _assign_quantiles(counts: dict[int, int], share: int) -> dict[int, int]:
    """Return the quantile of each cell of one sign."""
    total, before, result = sum(counts.values()), 0, {}
    for cell in sorted(counts):
        result[cell] = share * (2 * before + counts[cell]) // (2 * total)
        before += counts[cell]
    return result


def _compute_means(words: Sequence[int], codes: Sequence[int], buckets: int) -> list[float]:
    sums = [[0.0] * SUMS for _ in range(buckets)]
    counts, signs = [0] * buckets, [1.0] * buckets
    for i, (word, code) in enumerate(zip(words, codes, strict=True)):
        sums[code][i % SUMS] += to_float(word % SIGN, FLOAT32)
        counts[code] += 1
        signs[code] = -1.0 if word >= SIGN else 1.0
    return [
        sign * round_to_float32(((s[0] + s[2]) + (s[1] + s[3])) / count)
        for s, count, sign in zip(sums, counts, signs, strict=True)
    ]


def write_sketchml_section(
    means: Sequence[float], codes: Sequence[int], huffman: bool | None = None
) -> bytes:
    """Write a section from means and bucket numbers.

    Args:
        means: means of the buckets.
        codes: the bucket of each value.
        huffman: whether codes are Huffman-coded; None for the smaller form.
    """
    width = (len(means) - 1).bit_length()
    lengths = compute_code_lengths({n: codes.count(n) for n in range(len(means)) if n in codes})
    inner = -(-len(codes) // SPAN) - 1
    huffman_bits = 4 * len(means) + 16 * inner + sum(lengths[code] for code in codes)
    if huffman is None:
        huffman = huffman_bits < 8 * packed_size(len(codes), width)
    head = struct.pack("<BBH", huffman, len(means) - 1, 0) + b"".join(
        to_float32_bits(mean).to_bytes(4, "little") for mean in means
    )
    if not huffman:
        return head + (pack_codes(codes, width) if width else b"")
    words = assign_codes(lengths)
    spans = []
    for start in range(0, len(codes), SPAN):
        pairs = [words[code] for code in codes[start : start + SPAN]]
        bits = [number >> length - 1 - n & 1 for length, number in pairs for n in range(length)]
        spans.append(pack_stream(bits, 1, 1))
    head += pack_stream([lengths.get(n, 0) for n in range(len(means))], 4, 1)
    return head + struct.pack(f"<{inner}H", *(len(span) for span in spans[:-1])) + b"".join(spans)


@dataclass(frozen=True)
class SketchML:
    """Value codec 13."""

    id: ClassVar[int] = 13
    buckets: int = 64

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"sketchml(buckets={self.buckets})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write means of quantile buckets."""
        return write_sketchml(values, dtype, self.buckets)

"""Value codec 13, sketchml: means of buckets, and bucket numbers (spec/value/sketchml.md).

Reading works on integers. Writing sums in Python floats, which are binary64. Huffman codes are those of
``huffman`` and ``huffman_writer``.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from .bits import any_bit_from, pack_stream, unpack_stream
from .errors import Invalid, Malformed
from .floats import FLOAT32, Format, bits32, convert, element_bytes, elements, float_of, round32, singles
from .huffman import MOST_BITS, SPAN, canonical
from .huffman_writer import code_lengths
from .packing import pack_codes, packed_size, stray_bits, unpack_codes
from .qsgd import largest_finite

CELLS = 2**15
SUMS = 4
SIGN = FLOAT32.sign


def decode_sketchml(section: bytes, r: int, dtype: Format) -> bytes:
    """Codec 13: means, and the bucket of each value.

    Args:
        section: the bytes of the value section.
        r: the number of values, not 0.
        dtype: the element type.

    Returns the elements' little-endian bytes.

    Raises Malformed, Invalid.
    """
    if len(section) < 4:
        raise Malformed("sketchml-length", f"{len(section)} bytes")
    form, more, reserved = struct.unpack_from("<BBH", section)
    if form > 1 or reserved or (form == 1 and more == 0):
        raise Malformed("sketchml-form", f"form {form}, {more + 1} buckets, reserved {reserved}")
    start = 4 + 4 * (more + 1)
    if len(section) < start:
        raise Malformed("sketchml-length", f"{len(section)} bytes of {more + 1} means")
    means = elements(section[4:start], 4)
    for n, mean in enumerate(means):
        if mean & SIGN - 1 > largest_finite(dtype):
            raise Invalid("sketchml-mean", f"mean {n} is not finite")
        if n > 0 and _rank(mean) <= _rank(means[n - 1]):
            raise Invalid("sketchml-mean", f"mean {n} is not above the one before it")
    codes = (_coded if form else _packed)(section[start:], r, more + 1)
    words = [convert(mean, FLOAT32, dtype) for mean in means]
    return element_bytes([words[code] for code in codes], dtype.itemsize)


def _rank(bits: int) -> int:
    """Numbers in their order, -0 below +0."""
    return -1 - (bits - SIGN) if bits >= SIGN else bits


def _packed(body: bytes, r: int, buckets: int) -> list[int]:
    width = (buckets - 1).bit_length()
    if len(body) != packed_size(r, width):
        raise Malformed("sketchml-length", f"{len(body)} bytes of {r} codes of {width} bits")
    if width == 0:
        return [0] * r
    if stray_bits(body, r, width):
        raise Malformed("sketchml-padding", "a bit after the last code is set")
    codes = unpack_codes(body, r, width)
    if max(codes) >= buckets:
        raise Invalid("sketchml-bucket", f"bucket {max(codes)} of {buckets}")
    return codes


def _coded(body: bytes, r: int, buckets: int) -> list[int]:
    inner = -(-r // SPAN) - 1
    sizes_at = -(-buckets // 2)
    at = sizes_at + 2 * inner
    if len(body) < at:
        raise Malformed("sketchml-length", f"{len(body)} bytes")
    if any_bit_from(body[:sizes_at], 4 * buckets):
        raise Malformed("sketchml-padding", "a bit after the lengths is set")
    lengths = unpack_stream(body[:sizes_at], buckets, 4)
    if max(lengths) > MOST_BITS:
        raise Malformed("sketchml-code-length", f"a code of {max(lengths)} bits")
    if lengths[0] == 0 or lengths[-1] == 0:
        raise Malformed("sketchml-window", "the first or the last bucket has no code")
    if sum(1 << MOST_BITS - length for length in lengths if length) != 1 << MOST_BITS:
        raise Malformed("sketchml-code", "the lengths are not those of a complete code")
    sizes = list(struct.unpack_from(f"<{inner}H", body, sizes_at))
    if sum(sizes) > len(body) - at:
        raise Malformed("sketchml-length", "the spans are longer than the section")
    sizes.append(len(body) - at - sum(sizes))
    words = canonical({n: length for n, length in enumerate(lengths) if length})
    symbols = {word: n for n, word in words.items()}
    codes: list[int] = []
    for n, size in enumerate(sizes):
        codes += _span(body[at : at + size], min(SPAN, r - n * SPAN), symbols)
        at += size
    return codes


def _span(data: bytes, count: int, symbols: dict[tuple[int, int], int]) -> list[int]:
    codes = []
    at = 0
    for _ in range(count):
        length = number = 0
        while (length, number) not in symbols:
            if at >= 8 * len(data):
                raise Malformed("sketchml-span", "a code runs past the end of its span")
            number = number << 1 | data[at // 8] >> at % 8 & 1
            length += 1
            at += 1
        codes.append(symbols[length, number])
    if (at + 7) // 8 != len(data):
        raise Malformed("sketchml-span", "bytes are left after the codes of a span")
    if any_bit_from(data, at):
        raise Malformed("sketchml-padding", "a bit after the codes of a span is set")
    return codes


def write_sketchml(values: bytes, dtype: Format, buckets: int) -> bytes:
    """Quantile buckets of cells, their means, and bucket numbers in the smaller form.

    Args:
        values: the elements' little-endian bytes, at least one element.
        dtype: their format.
        buckets: how many there may be, 2 … 256.

    Raises ValueError where an element is not finite in binary32.
    """
    words = singles(values, dtype)
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
    positive_ones = _quantiles({c: n for (c, sign), n in counts.items() if not sign}, buckets - share)
    negative_ones = _quantiles({c: n for (c, sign), n in counts.items() if sign}, share)
    keys_of = [(0, -negative_ones[c]) if sign else (1, positive_ones[c]) for c, sign in cells]
    numbers = {key: n for n, key in enumerate(sorted(set(keys_of)))}
    codes = [numbers[key] for key in keys_of]
    return sketchml_section(_means(words, codes, len(numbers)), codes)


def _quantiles(counts: dict[int, int], share: int) -> dict[int, int]:
    """The quantile of each cell of one sign."""
    total, before, found = sum(counts.values()), 0, {}
    for cell in sorted(counts):
        found[cell] = share * (2 * before + counts[cell]) // (2 * total)
        before += counts[cell]
    return found


def _means(words: Sequence[int], codes: Sequence[int], buckets: int) -> list[float]:
    sums = [[0.0] * SUMS for _ in range(buckets)]
    counts, signs = [0] * buckets, [1.0] * buckets
    for i, (word, code) in enumerate(zip(words, codes, strict=True)):
        sums[code][i % SUMS] += float_of(word % SIGN, FLOAT32)
        counts[code] += 1
        signs[code] = -1.0 if word >= SIGN else 1.0
    return [
        sign * round32(((s[0] + s[2]) + (s[1] + s[3])) / count)
        for s, count, sign in zip(sums, counts, signs, strict=True)
    ]


def sketchml_section(means: Sequence[float], codes: Sequence[int], huffman: bool | None = None) -> bytes:
    """A section from means and bucket numbers.

    Args:
        means: of the buckets.
        codes: the bucket of each value.
        huffman: whether they are in Huffman code; None for where that is smaller.
    """
    width = (len(means) - 1).bit_length()
    lengths = code_lengths({n: codes.count(n) for n in range(len(means)) if n in codes})
    inner = -(-len(codes) // SPAN) - 1
    coded = 4 * len(means) + 16 * inner + sum(lengths[code] for code in codes)
    if huffman is None:
        huffman = coded < 8 * packed_size(len(codes), width)
    head = struct.pack("<BBH", huffman, len(means) - 1, 0) + b"".join(
        bits32(mean).to_bytes(4, "little") for mean in means
    )
    if not huffman:
        return head + (pack_codes(codes, width) if width else b"")
    words = canonical(lengths)
    spans = []
    for start in range(0, len(codes), SPAN):
        pairs = [words[code] for code in codes[start : start + SPAN]]
        bits = [number >> length - 1 - n & 1 for length, number in pairs for n in range(length)]
        spans.append(pack_stream(bits, 1, 1))
    head += pack_stream([lengths.get(n, 0) for n in range(len(means))], 4, 1)
    return head + struct.pack(f"<{inner}H", *(len(span) for span in spans[:-1])) + b"".join(spans)


@dataclass(frozen=True)
class SketchML:
    """Value codec 13, as the writer takes it."""

    id: ClassVar[int] = 13
    buckets: int = 64

    @property
    def scheme(self) -> str:
        """The codec as schemes spell it."""
        return f"sketchml(buckets={self.buckets})"

    def section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Means of quantile buckets."""
        return write_sketchml(values, dtype, self.buckets)

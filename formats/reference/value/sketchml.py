"""Value codec 13, sketchml: decoding (spec/value/sketchml.md), on integers only.

Huffman codes are those of the index codec ``huffman``.
"""

from __future__ import annotations

import struct

from formats.reference.bits import has_bit_from, unpack_stream
from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import FLOAT32, Format, convert, largest_finite, pack_elements, unpack_elements
from formats.reference.index.huffman import MAX_CODE_BITS, SPAN, assign_codes
from formats.reference.packed_codes import has_trailing_bit, packed_size, unpack_codes

SIGN = FLOAT32.sign


def decode_sketchml(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode means and the bucket of each value.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 4:
        raise Malformed("sketchml-length", f"{len(section)} bytes")
    form, more, reserved = struct.unpack_from("<BBH", section)
    if form > 1 or reserved or (form == 1 and more == 0):
        raise Malformed("sketchml-form", f"form is {form} with {more + 1} buckets; reserved is {reserved}")
    start = 4 + 4 * (more + 1)
    if len(section) < start:
        raise Malformed("sketchml-length", f"{len(section)} bytes for {more + 1} means")
    means = unpack_elements(section[4:start], 4)
    for n, mean in enumerate(means):
        if mean & SIGN - 1 > largest_finite(dtype):
            raise Invalid("sketchml-mean", f"mean {n} is not finite")
        if n > 0 and _sort_key(mean) <= _sort_key(means[n - 1]):
            raise Invalid("sketchml-mean", f"mean {n} is not above the one before it")
    codes = (_read_huffman if form else _read_packed)(section[start:], r, more + 1)
    words = [convert(mean, FLOAT32, dtype) for mean in means]
    return pack_elements([words[code] for code in codes], dtype.itemsize)


def _sort_key(bits: int) -> int:
    """Return a key with the order of binary32 numbers, -0 below +0."""
    return -1 - (bits - SIGN) if bits >= SIGN else bits


def _read_packed(body: bytes, r: int, buckets: int) -> list[int]:
    width = (buckets - 1).bit_length()
    if len(body) != packed_size(r, width):
        raise Malformed("sketchml-length", f"{len(body)} bytes for {r} codes of {width} bits")
    if width == 0:
        return [0] * r
    if has_trailing_bit(body, r, width):
        raise Malformed("sketchml-padding", "a bit after the last code is set")
    codes = unpack_codes(body, r, width)
    if max(codes) >= buckets:
        raise Invalid("sketchml-bucket", f"bucket {max(codes)} is not below {buckets}")
    return codes


def _read_huffman(body: bytes, r: int, buckets: int) -> list[int]:
    inner = -(-r // SPAN) - 1
    sizes_at = -(-buckets // 2)
    at = sizes_at + 2 * inner
    if len(body) < at:
        raise Malformed("sketchml-length", f"{len(body)} bytes")
    if has_bit_from(body[:sizes_at], 4 * buckets):
        raise Malformed("sketchml-padding", "a bit after the lengths is set")
    lengths = unpack_stream(body[:sizes_at], buckets, 4)
    if max(lengths) > MAX_CODE_BITS:
        raise Malformed("sketchml-code-length", f"a code has {max(lengths)} bits")
    if lengths[0] == 0 or lengths[-1] == 0:
        raise Malformed("sketchml-window", "the first or the last bucket has no code")
    if sum(1 << MAX_CODE_BITS - length for length in lengths if length) != 1 << MAX_CODE_BITS:
        raise Malformed("sketchml-code", "the lengths are not those of a complete code")
    sizes = list(struct.unpack_from(f"<{inner}H", body, sizes_at))
    if sum(sizes) > len(body) - at:
        raise Malformed("sketchml-length", "the spans are longer than the section")
    sizes.append(len(body) - at - sum(sizes))
    words = assign_codes({n: length for n, length in enumerate(lengths) if length})
    symbols = {word: n for n, word in words.items()}
    codes: list[int] = []
    for n, size in enumerate(sizes):
        codes += _read_span(body[at : at + size], min(SPAN, r - n * SPAN), symbols)
        at += size
    return codes


def _read_span(data: bytes, count: int, symbols: dict[tuple[int, int], int]) -> list[int]:
    codes = []
    at = 0
    for _ in range(count):
        length = number = 0
        while (length, number) not in symbols:
            if at >= 8 * len(data):
                raise Malformed("sketchml-span", "a code extends past the end of its span")
            number = number << 1 | data[at // 8] >> at % 8 & 1
            length += 1
            at += 1
        codes.append(symbols[length, number])
    if (at + 7) // 8 != len(data):
        raise Malformed("sketchml-span", "bytes remain after the codes of a span")
    if has_bit_from(data, at):
        raise Malformed("sketchml-padding", "a bit after the codes of a span is set")
    return codes

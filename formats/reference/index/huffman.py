"""Index codec 6, huffman: decoding (spec/index/huffman.md).

Canonical codes of gap classes or of index bytes, in spans of 4096 indices. The checks have the page's order:
the header first, then span after span, then those that need all spans.
"""

from __future__ import annotations

import itertools
import struct
from dataclasses import dataclass

from formats.reference.bits import has_bit_from, unpack_stream
from formats.reference.errors import Invalid, Malformed

SPAN = 4096
MAX_CODE_BITS = 12
KEYS = 4
SYMBOLS = (25, 48, 92, 176, 256)
"""Number of symbols of each form: m = 0 … 3, and the bytes of keys."""
Code = dict[tuple[int, int], int]
"""Symbol by (length, number) of its code."""


def decode_huffman(section: bytes, r: int, d: int) -> list[int]:
    """Decode gaps or keys in Huffman code.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    if len(section) < 3:
        raise Malformed("huffman-length", f"{len(section)} bytes")
    form, first, more = section[:3]
    if form > KEYS:
        raise Malformed("huffman-form", f"form is {form}; it must be 0 to 4")
    if first + more >= SYMBOLS[form]:
        raise Malformed("huffman-symbols", f"symbol {first + more} is not below {SYMBOLS[form]}")
    inner = -(-r // SPAN) - 1
    bases_at = 3 + (more // 2 + 1 if more else 0)
    sizes_at = bases_at + (0 if form == KEYS else 4 * inner)
    at = sizes_at + 2 * inner
    if len(section) < at:
        raise Malformed("huffman-length", f"{len(section)} bytes for {r} indices")
    code = _read_code(section[3:bases_at], first, more + 1) if more else {(0, 0): first}
    sizes = list(struct.unpack_from(f"<{inner}H", section, sizes_at))
    if sum(sizes) > len(section) - at:
        raise Malformed("huffman-length", "the spans are longer than the section")
    sizes.append(len(section) - at - sum(sizes))
    bases = [0] * (inner + 1)
    if form != KEYS:
        bases[1:] = struct.unpack_from(f"<{inner}I", section, bases_at)
    indices: list[int] = []
    follows = [0]  # the required bases
    for c, (base, size) in enumerate(zip(bases, sizes, strict=True)):
        stream = _BitReader(section[at : at + size])
        count = min(SPAN, r - SPAN * c)
        if form == KEYS:
            indices += [_read_key(stream, code, key_width(d)) for _ in range(count)]
        else:
            index = base
            for _ in range(count):
                index += _read_gap(stream, code, form)
                indices.append(index)
                index += 1
            follows.append(index)
        stream.check_end()
        if form != KEYS and indices[-1] >= d:
            raise Invalid("index-range", f"index {indices[-1]} is not below {d}")
        at += size
    if form != KEYS:
        if bases != follows[:-1]:
            raise Invalid("huffman-base", "a base is not the last index of the span before it, plus 1")
        return indices
    for last, index in itertools.pairwise(indices):
        if index <= last:
            raise Invalid("index-order", f"index {index} follows {last}")
    if indices[-1] >= d:
        raise Invalid("index-range", f"index {indices[-1]} is not below {d}")
    return indices


def key_width(d: int) -> int:
    """Return the bytes per key: as many as the greatest index, d - 1, needs."""
    return max(1, -(-(d - 1).bit_length() // 8))


def assign_codes(lengths: dict[int, int]) -> dict[int, tuple[int, int]]:
    """Return (length, number) of each symbol's code: ascending by length and, within a length, by symbol."""
    codes = {}
    number = 0
    for length in range(1, MAX_CODE_BITS + 1):
        number <<= 1
        for symbol in sorted(lengths):
            if lengths[symbol] == length:
                codes[symbol] = (length, number)
                number += 1
    return codes


def _read_code(packed: bytes, first: int, count: int) -> Code:
    if has_bit_from(packed, 4 * count):
        raise Malformed("huffman-padding", "a bit after the lengths is set")
    lengths = unpack_stream(packed, count, 4)
    if max(lengths) > MAX_CODE_BITS:
        raise Malformed("huffman-code-length", f"a code has {max(lengths)} bits")
    if lengths[0] == 0 or lengths[-1] == 0:
        raise Malformed("huffman-window", "the first or the last symbol has no code")
    if sum(1 << MAX_CODE_BITS - length for length in lengths if length) != 1 << MAX_CODE_BITS:
        raise Malformed("huffman-code", "the lengths are not those of a complete code")
    codes = assign_codes({first + n: length for n, length in enumerate(lengths) if length})
    return {code: symbol for symbol, code in codes.items()}


@dataclass
class _BitReader:
    """The bits of a span, each byte from its lowest bit on."""

    data: bytes
    at: int = 0

    def read_bit(self) -> int:
        if self.at >= 8 * len(self.data):
            raise Malformed("huffman-span", "a code extends past the end of its span")
        bit = self.data[self.at // 8] >> self.at % 8 & 1
        self.at += 1
        return bit

    def read_number(self, width: int) -> int:
        """Read a number, lowest bit first."""
        return sum(self.read_bit() << n for n in range(width))

    def read_symbol(self, code: Code) -> int:
        """Read a symbol; its code has the highest bit first."""
        length = number = 0
        while (length, number) not in code:
            number = number << 1 | self.read_bit()
            length += 1
        return code[length, number]

    def check_end(self) -> None:
        if (self.at + 7) // 8 != len(self.data):
            raise Malformed("huffman-span", "bytes remain after the codes of a span")
        if has_bit_from(self.data, self.at):
            raise Malformed("huffman-padding", "a bit after the codes of a span is set")


def _read_key(stream: _BitReader, code: Code, width: int) -> int:
    return sum(stream.read_symbol(code) << 8 * n for n in range(width))


def _read_gap(stream: _BitReader, code: Code, m: int) -> int:
    symbol = stream.read_symbol(code)
    if symbol < 1 << m + 1:
        return symbol
    extra = (symbol >> m) - 1
    return (symbol - (extra << m) << extra) + stream.read_number(extra)

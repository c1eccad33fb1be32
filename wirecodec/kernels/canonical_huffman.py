"""Shared parts of the codecs with canonical Huffman codes: packed code lengths, and independent spans.

The codes are those of formats/spec/index/huffman.md. Error codes begin with the name of the calling codec.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Malformed
from wirecodec.kernels.layout import HUFFMAN_BITS

_LOAD_BYTES = 8


def pack_lengths(lengths: Array) -> bytes:
    """Pack code lengths (u8) as 4 bits each, low half of a byte first, padded with zero bits."""
    padded = np.append(lengths, np.zeros(lengths.size % 2, np.uint8))
    packed: bytes = (padded[::2] | padded[1::2] << 4).tobytes()
    return packed


def build_table(
    packed: Bytes, n: int, first: int, extras: Array, values: Array, codec: str
) -> tuple[Array, int]:
    """Build the decoding table of a code from its packed lengths.

    Args:
        packed: (⌈n/2⌉,) u8, 4 bits per length; empty for a single symbol.
        n: number of symbols, 1 to 256.
        first: symbol of the first length.
        extras: (symbols,) i64, the number of extra bits after each symbol's code.
        values: (symbols,) i64, each symbol's value above its extra bits.
        codec: name of the codec, for the error codes.

    Returns:
        (the table of ``canonical_huffman.fill_table``, the greatest number of bits of a symbol).

    Raises:
        Malformed: the lengths are not those of a complete code.
    """
    from wirecodec.kernels.cpu.coding import canonical_huffman

    table = np.empty(1 << HUFFMAN_BITS, np.uint32)
    fault, number, max_bits = canonical_huffman.read_table(packed, n, first, extras, values, table)
    if fault == canonical_huffman.BAD_PADDING:
        raise Malformed(f"{codec}-padding", "a bit after the lengths is set")
    if fault == canonical_huffman.BAD_LENGTH:
        raise Malformed(f"{codec}-code-length", f"a code has {number} bits; the maximum is {HUFFMAN_BITS}")
    if fault == canonical_huffman.BAD_WINDOW:
        raise Malformed(f"{codec}-window", "the first or the last symbol has no code")
    if fault == canonical_huffman.BAD_CODE:
        raise Malformed(f"{codec}-code", f"{number} of {1 << HUFFMAN_BITS} code words are used; all must be")
    return table[: 1 << number], max_bits


def locate_spans(sizes: Bytes, total: int, codec: str) -> Array:
    """Compute the first byte of each span, and the byte after the last one.

    Args:
        sizes: (2 (n - 1),) u8, the u16 lengths of all spans but the last.
        total: bytes of all spans.
        codec: name of the codec, for the error codes.

    Returns:
        (n + 1,) i64.

    Raises:
        Malformed: the lengths add up to more than ``total``.
    """
    starts = np.zeros(sizes.size // 2 + 2, np.int64)
    starts[-1] = total
    if sizes.size == 0:
        return starts
    np.cumsum(np.frombuffer(sizes.tobytes(), "<u2"), out=starts[1:-1])
    if starts[-2] > total:
        raise Malformed(f"{codec}-length", f"the spans take {starts[-2]} bytes; the section has {total}")
    return starts


def frame_spans(spans: Bytes, margin: int) -> Array:
    """Copy the spans, followed by ``margin`` zero bytes and those of one load."""
    framed = np.zeros(spans.size + margin + _LOAD_BYTES, np.uint8)
    framed[: spans.size] = spans
    return framed


def check_spans(framed: Array, starts: Array, ends: Array, codec: str, first: int = 0) -> None:
    """Check that each span ends in its last byte, with zero bits after its last code.

    Args:
        framed: from ``frame_spans``.
        starts: (n + 1,) i64, the first byte of each span, and the byte after the last one.
        ends: (n,) u64, the bit after each span's last code.
        codec: name of the codec, for the error codes.
        first: number of the first span.

    Raises:
        Malformed: a span fails a check.
    """
    from wirecodec.kernels.cpu.coding import canonical_huffman_read

    span, fault = canonical_huffman_read.first_fault(framed, starts, ends)
    if fault == canonical_huffman_read.BAD_END:
        raise Malformed(f"{codec}-span", f"the codes of span {first + span} do not end in its last byte")
    if fault == canonical_huffman_read.BAD_PADDING:
        raise Malformed(f"{codec}-padding", f"span {first + span}: a bit after its codes is set")

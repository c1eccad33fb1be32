"""What codecs of Huffman codes share around their kernels: lengths in half bytes, spans that decode alone.

The codes are those of formats/spec/index/huffman.md. Errors carry the name of the codec that asks.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Malformed
from wirecodec.kernels.layout import HUFFMAN_BITS

__all__ = ["check_spans", "framed_spans", "packed_lengths", "reader_table", "span_starts"]

_SLACK = 8


def packed_lengths(lengths: Array) -> bytes:
    """Code lengths as half bytes, the lower half of a byte first, filled up with zero bits."""
    padded = np.append(lengths, np.zeros(lengths.size % 2, np.uint8))
    packed: bytes = (padded[::2] | padded[1::2] << 4).tobytes()
    return packed


def reader_table(
    packed: Bytes, n: int, first: int, extras: Array, values: Array, codec: str
) -> tuple[Array, int]:
    """Make the table of a code from its packed lengths, which must be those of a complete code.

    Args:
        packed: (⌈n/2⌉,) u8, a half byte per length; of a single symbol nothing.
        n: symbols, 1 to 256.
        first: the symbol of the first of them.
        extras: (symbols,) i64, the raw bits that follow each symbol's code.
        values: (symbols,) i64, what each symbol means above those bits.
        codec: named in the errors.

    Returns the table for ``prefix_read`` and ``huffman_read``, and the most bits that a symbol takes. Raises
    Malformed.
    """
    from wirecodec.kernels.cpu.coding import canonical_huffman

    room = np.empty(1 << HUFFMAN_BITS, np.uint32)
    fault, number, most = canonical_huffman.read_table(packed, n, first, extras, values, room)
    if fault == canonical_huffman.BAD_PADDING:
        raise Malformed(f"{codec}-padding", "a bit after the lengths is set")
    if fault == canonical_huffman.BAD_LENGTH:
        raise Malformed(f"{codec}-code-length", f"a code of {number} bits; at most {HUFFMAN_BITS}")
    if fault == canonical_huffman.BAD_WINDOW:
        raise Malformed(f"{codec}-window", "the first or the last symbol has no code")
    if fault == canonical_huffman.BAD_CODE:
        raise Malformed(f"{codec}-code", f"{number} of {1 << HUFFMAN_BITS} code words are taken")
    return room[: 1 << number], most


def span_starts(sizes: Bytes, total: int, codec: str) -> Array:
    """Where each span begins and the last one ends, from the u16 lengths of all but the last."""
    starts = np.zeros(sizes.size // 2 + 2, np.int64)
    starts[-1] = total
    if sizes.size == 0:
        return starts
    np.cumsum(np.frombuffer(sizes.tobytes(), "<u2"), out=starts[1:-1])
    if starts[-2] > total:
        raise Malformed(f"{codec}-length", f"the spans take {starts[-2]} bytes; {total} are there")
    return starts


def framed_spans(spans: Bytes, room: int) -> Array:
    """A copy with ``room`` bytes and a load's width behind, so that no load leaves it."""
    framed = np.zeros(spans.size + room + _SLACK, np.uint8)
    framed[: spans.size] = spans
    return framed


def check_spans(framed: Array, starts: Array, ends: Array, codec: str, first: int = 0) -> None:
    """Raise Malformed if a span does not end in its last byte, or a bit after its last code is set.

    Args:
        framed: of ``framed_spans``.
        starts: (n + 1,) i64, the byte at which each span begins and the last one ends.
        ends: (n,) u64, the bit at which the last code of each ends.
        codec: named in the errors.
        first: number of the first span.
    """
    from wirecodec.kernels.cpu.coding import canonical_huffman_read

    span, fault = canonical_huffman_read.first_fault(framed, starts, ends)
    if fault == canonical_huffman_read.BAD_END:
        raise Malformed(f"{codec}-span", f"the codes of span {first + span} do not end in its last byte")
    if fault == canonical_huffman_read.BAD_PADDING:
        raise Malformed(f"{codec}-padding", f"span {first + span}: a bit after its codes is set")

"""What codecs of Huffman codes share around their kernels: lengths in half bytes, spans that decode alone.

The codes are those of formats/spec/index/huffman.md. Errors carry the name of the codec that asks.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Malformed
from wirecodec.kernels.layout import HUFFMAN_BITS

__all__ = ["code_lengths", "framed_spans", "packed_lengths", "span_faults", "span_starts"]

_SLACK = 8


def packed_lengths(lengths: Array) -> bytes:
    """Code lengths as half bytes, the lower half of a byte first, filled up with zero bits."""
    padded = np.append(lengths, np.zeros(lengths.size % 2, np.uint8))
    packed: bytes = (padded[::2] | padded[1::2] << 4).tobytes()
    return packed


def code_lengths(packed: Bytes, n: int, codec: str) -> Array:
    """The lengths of a code of ``n`` > 1 symbols, checked to be a complete code."""
    nibbles = np.stack([packed & 15, packed >> 4], axis=1).reshape(-1)
    if nibbles[n:].any():
        raise Malformed(f"{codec}-padding", "a bit after the lengths is set")
    lengths: Array = nibbles[:n]
    if lengths.max() > HUFFMAN_BITS:
        raise Malformed(f"{codec}-code-length", f"a code of {lengths.max()} bits; at most {HUFFMAN_BITS}")
    if lengths[0] == 0 or lengths[-1] == 0:
        raise Malformed(f"{codec}-window", "the first or the last symbol has no code")
    taken = int(((1 << HUFFMAN_BITS) >> lengths[lengths > 0].astype(np.int64)).sum())
    if taken != 1 << HUFFMAN_BITS:
        raise Malformed(f"{codec}-code", f"{taken} of {1 << HUFFMAN_BITS} code words are taken")
    return lengths


def span_starts(sizes: Bytes, total: int, codec: str) -> Array:
    """Where each span begins and the last one ends, from the u16 lengths of all but the last."""
    starts = np.zeros(sizes.size // 2 + 2, np.int64)
    np.cumsum(np.frombuffer(sizes.tobytes(), "<u2"), out=starts[1:-1])
    starts[-1] = total
    if starts[-2] > total:
        raise Malformed(f"{codec}-length", f"the spans take {starts[-2]} bytes; {total} are there")
    return starts


def framed_spans(spans: Bytes, room: int) -> Array:
    """A copy with ``room`` bytes and a load's width behind, so that no load leaves it."""
    framed = np.zeros(spans.size + room + _SLACK, np.uint8)
    framed[: spans.size] = spans
    return framed


def span_faults(framed: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """Which spans do not end in their last byte, and which have a bit set behind their last.

    Args:
        framed: of ``framed_spans``.
        starts: (n + 1,), where each span begins and the last one ends.
        ends: (n,) i64, the bit at which the last code of each ends.
    """
    at, bit = np.divmod(ends, 8)
    return at + (bit > 0) != starts[1:], (bit > 0) & (framed[at] >> bit > 0)

"""Index codec 3, rice: writing (spec/index/rice.md), exact by default.

With given parameters, ``write_rice`` makes sections that are valid and that an exact writer would not write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.bits import pack_lanes, pack_stream
from formats.reference.index.rice import BLOCK, LANES, MAX_PARAMETER, SPAN


@dataclass(frozen=True)
class Rice:
    """Index codec 3.

    ``parameters``: parameters of the blocks, the last one repeated, instead of the optimal ones.
    """

    id: ClassVar[int] = 3
    parameters: tuple[int, ...] | None = None

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write gaps in Rice code."""
        return write_rice(indices, self.parameters)


def choose_parameter(gaps: Sequence[int]) -> int:
    """Return the b in 0 … 24 that makes the block smallest, and the lowest such b."""
    return min(range(MAX_PARAMETER + 1), key=lambda b: len(gaps) * b + sum(g >> b for g in gaps))


def write_rice(indices: Sequence[int], parameters: Sequence[int] | None = None) -> bytes:
    """Write a section.

    Args:
        indices: the support.
        parameters: parameters of the blocks, the last one repeated; None for the optimal ones.

    Raises:
        struct.error: if given parameters make a span before the last longer than its u16 can hold.
    """
    gaps = [i - last - 1 for last, i in zip([-1, *indices], indices, strict=False)]
    blocks = [gaps[i : i + BLOCK] for i in range(0, len(gaps), BLOCK)]
    if parameters is None:
        bs = [choose_parameter(block) for block in blocks]
    else:
        bs = [parameters[min(n, len(parameters) - 1)] for n in range(len(blocks))]
    per_span = SPAN // BLOCK
    spans = []
    for c in range(0, len(blocks), per_span):
        spans.append(_write_span(blocks[c : c + per_span], bs[c : c + per_span]))
    head = b"".join(struct.pack("<I", indices[SPAN * c - 1] + 1) for c in range(1, len(spans)))
    head += b"".join(struct.pack("<H", len(span) // 4) for span in spans[:-1])
    head += pack_stream(bs, 5, 1)
    head += bytes(-len(head) % 4)
    return head + b"".join(spans)


def _write_span(blocks: Sequence[Sequence[int]], bs: Sequence[int]) -> bytes:
    out = b""
    ones = 0  # the unary part, as a number
    position = -1
    for gaps, b in zip(blocks, bs, strict=True):
        lows = [g & ((1 << b) - 1) for g in gaps]
        out += pack_lanes(lows, LANES, b) if len(gaps) == BLOCK else pack_stream(lows, b, 4)
        for g in gaps:
            position += (g >> b) + 1
            ones |= 1 << position
    words = -(-(position + 1) // 32)
    return out + ones.to_bytes(4 * words, "little")

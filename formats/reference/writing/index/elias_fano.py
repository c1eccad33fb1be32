"""Index codec 7, elias-fano: writing (spec/index/elias-fano.md)."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.bits import pack_lanes, pack_stream
from formats.reference.index.elias_fano import choose_parameter
from formats.reference.index.rice import BLOCK, LANES, SPAN


@dataclass(frozen=True)
class EliasFano:
    """Index codec 7; the indices determine the section."""

    id: ClassVar[int] = 7
    scheme: ClassVar[str] = "elias-fano"

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the bases, then span after span."""
        spans = [indices[start : start + SPAN] for start in range(0, len(indices), SPAN)]
        bases = [0, *(span[-1] + 1 for span in spans[:-1]), d]
        out = struct.pack(f"<{len(spans) - 1}I", *bases[1:-1])
        for span, base, end in zip(spans, bases, bases[1:], strict=False):
            out += write_span(span, base, choose_parameter(len(span), end - base - len(span)))
        return out


def write_span(span: Sequence[int], base: int, b: int) -> bytes:
    """Write one span as low bits and high bits."""
    numbers = [index - base - i for i, index in enumerate(span)]
    lows = [v & ((1 << b) - 1) for v in numbers]
    out = b""
    for at in range(0, len(lows), BLOCK):
        block = lows[at : at + BLOCK]
        out += pack_lanes(block, LANES, b) if len(block) == BLOCK else pack_stream(block, b, 4)
    high = sum(1 << (v >> b) + i for i, v in enumerate(numbers))
    return out + high.to_bytes(4 * -(-high.bit_length() // 32), "little")

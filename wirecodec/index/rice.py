"""``rice``: gaps, their low bits in vertical lanes and the rest unary (formats/spec/index/rice.md).

Spans of 4096 indices decode alone; each block of 256 has the parameter that makes it smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.bounds import max_span_words
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN
from wirecodec.limits import DecodeLimits

__all__ = ["Rice", "planned_bytes"]

_PARAMETER_BITS, _MAX_PARAMETER = 5, 24


@dataclass(frozen=True)
class Rice:
    """Within 1-2.5 % of the entropy bound of a uniform support."""

    name: ClassVar[str] = "rice"
    wire_id: ClassVar[int] = 3

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Two passes over the indices: plan, then write in place."""
        from wirecodec.kernels.cpu.index import rice_write

        parameters, lengths, size = _planned(indices)
        section = np.empty(size, np.uint8)
        rice_write.write(indices, parameters, lengths, section.view("<u4"))
        return section

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return _head_bytes(r) + 4 * max_span_words(r, d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Every span, in order, then the joints between them."""
        directory = _Directory.of(section, r)
        indices = np.empty(r, np.uint32)
        directory.read(0, -(-r // RICE_SPAN), d, indices)
        return indices

    @classmethod
    def decode_span(cls, section: Bytes, d: int, r: int, span: int) -> Array:
        """The indices of span ``span`` alone: 4096, fewer in the last.

        No other span is read, so its stored base is trusted.
        """
        indices = np.empty(min(RICE_SPAN, r - span * RICE_SPAN), np.uint32)
        _Directory.of(section, r).read(span, span + 1, d, indices)
        return indices


@dataclass(frozen=True, eq=False)
class _Directory:
    """The checked directory of a section, copied.

    Attributes:
        words: the section (u32).
        bases: of each span but the first (u32).
        parameters: of each block (u8).
        starts: the first word of each span, and where the last ends (i64).
    """

    words: Array
    bases: Array
    parameters: Array
    starts: Array

    @classmethod
    def of(cls, section: Bytes, r: int) -> _Directory:
        from wirecodec.kernels.cpu.index import rice_read

        if section.size % 4 or section.size < (head := _head_bytes(r)):
            raise Malformed(
                "rice-length", f"{section.size} bytes; the directory alone takes {_head_bytes(r)}"
            )
        words = read_only(section.view("<u4"))
        parameters = np.empty(-(-r // RICE_BLOCK), np.uint8)
        starts = np.empty(-(-r // RICE_SPAN) + 1, np.int64)
        code = rice_read.directory(words, r, parameters, starts)
        if code == rice_read.BAD_PADDING:
            raise Malformed("rice-padding", "a bit between the parameters and the spans is set")
        if code == rice_read.BAD_PARAMETER:
            found = np.max(parameters)
            raise Malformed("rice-parameter", f"a block's parameter is {found}; at most {_MAX_PARAMETER}")
        if code:
            raise Malformed("rice-length", f"{section.size - head} bytes do not hold the spans")
        bases = words[: starts.size - 2]
        return cls(words, read_only(bases.copy()) if bases.size else bases, parameters, starts)

    def read(self, first: int, last: int, d: int, out: Array) -> None:
        """The indices of spans first … last - 1 into ``out``; a WireError where a check fails."""
        from wirecodec.kernels.cpu.index import rice_read

        span, code = rice_read.read(self.words, self.bases, self.starts, self.parameters, d, first, last, out)
        if code == rice_read.BAD_RANGE:
            raise Invalid("index-range", f"span {span} runs past the chunk")
        if code == rice_read.BAD_BASE:
            raise Invalid("rice-base", f"span {span} does not begin where span {span - 1} ends")
        if code == rice_read.BAD_PADDING:
            raise Malformed("rice-padding", f"span {span}: a bit after its low bits is set")
        if code:
            raise Malformed("rice-unary", f"span {span}: its unary part does not hold one code a gap")


def planned_bytes(indices: Array) -> int:
    """The length of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    return _planned(indices)[2]


def _planned(indices: Array) -> tuple[Array, Array, int]:
    """The best parameter of each block (u8), each span's length in words (i64), the section's in bytes."""
    from wirecodec.kernels.cpu.index import rice

    parameters = np.empty(-(-indices.size // RICE_BLOCK), np.uint8)
    lengths = np.empty(-(-indices.size // RICE_SPAN), np.int64)
    rice.plan(indices, parameters, lengths)
    words = int(lengths[0] if lengths.size == 1 else lengths.sum())
    return parameters, lengths, _head_bytes(indices.size) + 4 * words


def _head_bytes(r: int) -> int:
    inner, blocks = -(-r // RICE_SPAN) - 1, -(-r // RICE_BLOCK)
    return -(-(6 * inner + -(-_PARAMETER_BITS * blocks // 8)) // 4) * 4

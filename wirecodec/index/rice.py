"""``rice``: gaps, their low bits in vertical lanes and the rest unary (formats/spec/index/rice.md).

Spans of 4096 indices decode alone; each block of 256 has the parameter that makes it smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import Invalid, Malformed
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
        from wirecodec.kernels.cpu import rice

        parameters, lengths = _planned(indices)
        inner, head = lengths.size - 1, _head_bytes(indices.size)
        starts = np.concatenate(([0], np.cumsum(lengths)))
        section = np.zeros(head + 4 * int(starts[-1]), np.uint8)
        section[: 4 * inner].view("<u4")[:] = indices[RICE_SPAN - 1 :: RICE_SPAN][:inner] + 1
        section[4 * inner : 6 * inner].view("<u2")[:] = lengths[:inner]
        bits = np.unpackbits(parameters[:, None], axis=1, count=_PARAMETER_BITS, bitorder="little")
        packed = np.packbits(bits, bitorder="little")
        section[6 * inner : 6 * inner + packed.size] = packed
        rice.write(indices, parameters, starts[:-1], section[head:].view("<u4"))
        return section

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Every span, in order, then the joints between them."""
        plan = _Plan.of(section, r)
        indices = np.empty(r, np.uint32)
        for span in range(plan.bases.size):
            plan.read(span, d, indices[span * RICE_SPAN : (span + 1) * RICE_SPAN])
        joints = indices[RICE_SPAN - 1 : r - 1 : RICE_SPAN].astype(np.int64) + 1
        if (wrong := np.flatnonzero(plan.bases[1:] != joints)).size:
            raise Invalid("rice-base", f"span {wrong[0] + 1} does not begin where span {wrong[0]} ends")
        return indices

    @classmethod
    def decode_span(cls, section: Bytes, d: int, r: int, span: int) -> Array:
        """The indices of span ``span`` alone: 4096, fewer in the last.

        No other span is read, so its stored base is trusted.
        """
        indices = np.empty(min(RICE_SPAN, r - span * RICE_SPAN), np.uint32)
        _Plan.of(section, r).read(span, d, indices)
        return indices


@dataclass(frozen=True, eq=False)
class _Plan:
    """A section's directory, checked: where each span lies and counts from, each block's parameter."""

    words: Array
    starts: Array
    bases: Array
    parameters: Array

    @classmethod
    def of(cls, section: Bytes, r: int) -> _Plan:
        from wirecodec.kernels.cpu import rice

        spans, blocks = -(-r // RICE_SPAN), -(-r // RICE_BLOCK)
        inner, head = spans - 1, _head_bytes(r)
        if section.size % 4 or section.size < head:
            raise Malformed("rice-length", f"{section.size} bytes; the directory alone takes {head}")
        bits = np.unpackbits(section[6 * inner : head], bitorder="little")
        if bits[_PARAMETER_BITS * blocks :].any():
            raise Malformed("rice-padding", "a bit between the parameters and the spans is set")
        fields = bits[: _PARAMETER_BITS * blocks].reshape(blocks, _PARAMETER_BITS)
        parameters = np.packbits(fields, axis=1, bitorder="little").reshape(-1)
        if (parameters > _MAX_PARAMETER).any():
            raise Malformed(
                "rice-parameter", f"a block's parameter is {np.max(parameters)}; at most {_MAX_PARAMETER}"
            )
        words = np.ascontiguousarray(section[head:]).view("<u4")
        starts = np.zeros(spans + 1, np.int64)
        np.cumsum(section[4 * inner : 6 * inner].view("<u2"), out=starts[1:-1])
        starts[-1] = words.size
        if starts[-2] > starts[-1]:
            raise Malformed("rice-length", f"the spans take {starts[-2]} words; {words.size} are there")
        for span in range(spans):
            if starts[span + 1] - starts[span] < rice.low_words(parameters, r, span) + 1:
                raise Malformed("rice-length", f"span {span} is shorter than its low bits")
        bases = np.zeros(spans, np.int64)
        bases[1:] = section[: 4 * inner].view("<u4")
        return cls(words, starts, bases, parameters)

    def read(self, span: int, d: int, out: Array) -> None:
        """The indices of one span into ``out``, which has their number; a WireError where a check fails."""
        from wirecodec.kernels.cpu import rice

        code = rice.read(self.words, self.starts, self.bases, self.parameters, d, span, out)
        if code == rice.BAD_RANGE:
            raise Invalid("index-range", f"span {span} runs past the chunk")
        if code == rice.BAD_PADDING:
            raise Malformed("rice-padding", f"span {span}: a bit after its low bits is set")
        if code:
            raise Malformed("rice-unary", f"span {span}: its unary part does not hold one code a gap")


def planned_bytes(indices: Array) -> int:
    """The length of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    return _head_bytes(indices.size) + 4 * int(_planned(indices)[1].sum())


def _planned(indices: Array) -> tuple[Array, Array]:
    """The best parameter of each block (u8), and each span's length in words (i64)."""
    from wirecodec.kernels.cpu import rice

    parameters = np.empty(-(-indices.size // RICE_BLOCK), np.uint8)
    lengths = np.empty(-(-indices.size // RICE_SPAN), np.int64)
    rice.plan(indices, parameters, lengths)
    return parameters, lengths


def _head_bytes(r: int) -> int:
    inner, blocks = -(-r // RICE_SPAN) - 1, -(-r // RICE_BLOCK)
    return -(-(6 * inner + -(-_PARAMETER_BITS * blocks // 8)) // 4) * 4

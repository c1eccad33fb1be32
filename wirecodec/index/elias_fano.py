"""``elias-fano``: high bits as a bitmap, low bits packed (formats/spec/index/elias-fano.md).

After Elias (1974) and Fano (1971). Spans of 4096 indices decode alone; no parameter is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.bounds import max_span_words
from wirecodec.kernels.layout import RICE_SPAN
from wirecodec.limits import DecodeLimits

__all__ = ["EliasFano"]

_LEAST = 32
"""Spans that are worth a thread."""


@dataclass(frozen=True)
class EliasFano:
    """2 + log2(d/r) bits an index or less; any index is found without those before it."""

    name: ClassVar[str] = "elias-fano"
    wire_id: ClassVar[int] = 7

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """One pass over the indices."""
        from wirecodec.kernels.cpu import threads
        from wirecodec.kernels.cpu.index import elias_fano

        r = indices.size
        inner = (r - 1) // RICE_SPAN
        bases = indices[RICE_SPAN - 1 :: RICE_SPAN][:inner].astype(np.int64) + 1
        layout = _Layout.of(bases, d, r)
        section = np.zeros(4 * (inner + int(layout.starts[-1])), np.uint8)
        words = section.view("<u4")
        words[:inner] = bases

        def write(first: int, last: int) -> int:
            return elias_fano.write(
                indices, layout.bases, layout.parameters, layout.starts, first, last, words[inner:]
            )

        taken = threads.in_ranges(write, inner + 1, _LEAST)[-1]
        return section[: 4 * (inner + int(layout.starts[inner]) + taken)]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        return 4 * ((r - 1) // RICE_SPAN + max_span_words(r, d))

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Every span, in order."""
        from wirecodec.kernels.cpu import threads

        words, layout = _opened(section, d, r)
        indices = np.empty(r, np.uint32)

        def read(first: int, last: int) -> tuple[int, int]:
            return layout.read(words, d, r, first, last, indices[first * RICE_SPAN : last * RICE_SPAN])

        for code, span in threads.in_ranges(read, layout.parameters.size, _LEAST):
            _check(code, span)
        return indices

    @classmethod
    def decode_span(cls, section: Bytes, d: int, r: int, span: int) -> Array:
        """The indices of span ``span`` alone: 4096, fewer in the last."""
        words, layout = _opened(section, d, r)
        indices = np.empty(min(RICE_SPAN, r - span * RICE_SPAN), np.uint32)
        _check(*layout.read(words, d, r, span, span + 1, indices))
        return indices


@dataclass(frozen=True, eq=False)
class _Layout:
    """What follows from the bases.

    Attributes:
        bases: of each span, and d (i64).
        parameters: of each span (u8).
        starts: each span's first word, counted from span 0, and the end of the last one (i64).
    """

    bases: Array
    parameters: Array
    starts: Array

    @classmethod
    def of(cls, bases: Array, d: int, r: int) -> _Layout:
        """The layout of spans with these bases, that of span 0 left out; Invalid where there is none."""
        from wirecodec.kernels.cpu.index import elias_fano

        bases = np.concatenate([np.zeros(1, np.int64), bases, np.array([d], np.int64)])
        parameters = np.empty(bases.size - 1, np.uint8)
        starts = np.empty(bases.size, np.int64)
        if elias_fano.layout(bases, r, parameters, starts):
            raise Invalid("elias-fano-base", "the bases leave a span less room than it has indices")
        return cls(bases, parameters, starts)

    def read(self, words: Array, d: int, r: int, first: int, last: int, out: Array) -> tuple[int, int]:
        """The spans first … last - 1 into ``out``; which check failed, and where."""
        from wirecodec.kernels.cpu.index import elias_fano

        return elias_fano.read(words, self.bases, self.parameters, self.starts, d, r, first, last, out)


def _opened(section: Bytes, d: int, r: int) -> tuple[Array, _Layout]:
    """The words of all spans, and where each lies, checked."""
    inner = (r - 1) // RICE_SPAN
    if section.size % 4 or section.size < 4 * inner:
        raise Malformed("elias-fano-length", f"{section.size} bytes; the bases alone take {4 * inner}")
    words = read_only(section.view("<u4"))
    layout = _Layout.of(words[:inner].astype(np.int64), d, r)
    last = r - inner * RICE_SPAN
    least = int(layout.starts[inner]) + (last * int(layout.parameters[inner]) + 31) // 32 + 1
    if not least <= words.size - inner <= layout.starts[-1]:
        raise Malformed(
            "elias-fano-length",
            f"the spans take {words.size - inner} words; from {least} to {layout.starts[-1]} are possible",
        )
    layout.starts[-1] = words.size - inner
    return words[inner:], layout


def _check(code: int, span: int) -> None:
    """The WireError of a kernel's answer."""
    from wirecodec.kernels.cpu.index import elias_fano

    if code == elias_fano.BAD_PADDING:
        raise Malformed("elias-fano-padding", f"span {span}: a bit after its low bits is set")
    if code == elias_fano.BAD_HIGH:
        raise Malformed("elias-fano-high", f"span {span}: its high bits do not hold a one for each index")
    if code == elias_fano.BAD_ORDER:
        raise Invalid("index-order", f"span {span}: its indices do not ascend")
    if code == elias_fano.BAD_RANGE:
        raise Invalid("index-range", f"span {span} runs past the chunk")
    if code:
        raise Invalid("elias-fano-base", f"span {span + 1} does not begin where span {span} ends")

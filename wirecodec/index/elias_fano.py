"""``elias-fano``: high bits as a bitmap, low bits packed (formats/spec/index/elias-fano.md).

After Elias (1974) and Fano (1971). Spans of 4096 indices decode independently, and no parameter is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_span_words
from wirecodec.kernels.layout import RICE_SPAN
from wirecodec.limits import DecodeLimits

_MIN_SPANS_PER_THREAD = 32
"""Spans per thread below which no thread is started."""


@dataclass(frozen=True)
class EliasFano(IndexCodec):
    """Elias-Fano index codec: low bits packed, high bits as a bitmap.

    It has no parameters. A span of n indices among n + z elements, with b = ⌊log2(z/n)⌋ or 0, takes n·b bits
    of low bits and n + ⌊z / 2^b⌋ of high bits. On a uniform support that is at most 2 + log2(d/r) bits per
    index: about 8.6 at 1 % density. A reader can find an index without reading those before it.

    Source: formats/spec/index/elias-fano.md; Elias (1974), Fano (1971).

    Raises:
        Malformed: in decoding, the length, the padding or the high bits are wrong.
        Invalid: in decoding, the indices do not ascend, one is not below d, or the spans do not join.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> indices = np.arange(0, 100_000, 100, dtype=np.uint32)
        >>> wc.codecs.EliasFano().encode(indices, 100_000, 0).size
        1072
    """

    name: ClassVar[str] = "elias-fano"
    wire_id: ClassVar[int] = 7

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in one pass; see ``IndexCodec.encode``."""
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

        last_words = threads.map_ranges(write, inner + 1, _MIN_SPANS_PER_THREAD)[-1]
        return section[: 4 * (inner + int(layout.starts[inner]) + last_words)]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return 4 * ((r - 1) // RICE_SPAN + max_span_words(r, d))

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section span by span; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu import threads

        words, layout = _open_section(section, d, r)
        indices = np.empty(r, np.uint32)

        def read(first: int, last: int) -> tuple[int, int]:
            return layout.read(words, d, r, first, last, indices[first * RICE_SPAN : last * RICE_SPAN])

        for code, span in threads.map_ranges(read, layout.parameters.size, _MIN_SPANS_PER_THREAD):
            _raise_if_bad(code, span)
        return indices


@dataclass(frozen=True, eq=False)
class _Layout:
    """Layout of a section, which the bases determine.

    Attributes:
        bases: (n_spans + 1,) i64, the base of each span, and d.
        parameters: (n_spans,) u8, the low bits per index of each span.
        starts: (n_spans + 1,) i64, the first word of each span, counted from span 0, and the word after the
            last.
    """

    bases: Array
    parameters: Array
    starts: Array

    @classmethod
    def of(cls, bases: Array, d: int, r: int) -> _Layout:
        """Compute the layout from the bases of all spans but the first.

        Raises:
            Invalid: a span has fewer elements than indices.
        """
        from wirecodec.kernels.cpu.index import elias_fano

        bases = np.concatenate([np.zeros(1, np.int64), bases, np.array([d], np.int64)])
        parameters = np.empty(bases.size - 1, np.uint8)
        starts = np.empty(bases.size, np.int64)
        if elias_fano.compute_layout(bases, r, parameters, starts):
            raise Invalid("elias-fano-base", "the bases give a span fewer elements than indices")
        return cls(bases, parameters, starts)

    def read(self, words: Array, d: int, r: int, first: int, last: int, out: Array) -> tuple[int, int]:
        """Read the spans first … last - 1 into ``out``; return a kernel's error code and the span."""
        from wirecodec.kernels.cpu.index import elias_fano

        return elias_fano.read(words, self.bases, self.parameters, self.starts, d, r, first, last, out)


def _open_section(section: Bytes, d: int, r: int) -> tuple[Array, _Layout]:
    """Check a section's length and bases; return the words of all spans and their layout."""
    inner = (r - 1) // RICE_SPAN
    if section.size % 4 or section.size < 4 * inner:
        raise Malformed("elias-fano-length", f"{section.size} bytes; the bases alone take {4 * inner}")
    words = read_only(section.view("<u4"))
    layout = _Layout.of(words[:inner].astype(np.int64), d, r)
    last = r - inner * RICE_SPAN
    min_words = int(layout.starts[inner]) + (last * int(layout.parameters[inner]) + 31) // 32 + 1
    if not min_words <= words.size - inner <= layout.starts[-1]:
        raise Malformed(
            "elias-fano-length",
            f"the spans take {words.size - inner} words; they must take {min_words} to {layout.starts[-1]}",
        )
    layout.starts[-1] = words.size - inner
    return words[inner:], layout


def _raise_if_bad(code: int, span: int) -> None:
    """Raise the WireError of a kernel's error code, unless it is 0."""
    from wirecodec.kernels.cpu.index import elias_fano

    if code == elias_fano.BAD_PADDING:
        raise Malformed("elias-fano-padding", f"span {span}: a bit after the low bits is set")
    if code == elias_fano.BAD_HIGH:
        raise Malformed("elias-fano-high", f"span {span}: the high bits do not hold a one per index")
    if code == elias_fano.BAD_ORDER:
        raise Invalid("index-order", f"span {span}: the indices do not ascend")
    if code == elias_fano.BAD_RANGE:
        raise Invalid("index-range", f"span {span} exceeds the chunk")
    if code:
        raise Invalid("elias-fano-base", f"the base of span {span + 1} does not follow span {span}")

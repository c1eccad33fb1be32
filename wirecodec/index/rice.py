"""``rice``: gaps, their low bits in vertical lanes and the rest in unary (formats/spec/index/rice.md).

Spans of 4096 indices decode independently. Each block of 256 has the parameter that makes it smallest.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from wirecodec.arrays import WORD, Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_span_words
from wirecodec.kernels.layout import RICE_BLOCK, RICE_SPAN
from wirecodec.limits import DecodeLimits
from wirecodec.support import SectionBatch

_PARAMETER_BITS, _MAX_PARAMETER = 5, 24
MIN_BATCH_INDICES = 2**16
"""Indices of a batch that justify another thread."""


@dataclass(frozen=True)
class Rice(IndexCodec):
    """Rice (Golomb) index codec: gaps between indices, with an optimal parameter per block of 256.

    It has no parameters. A gap g with parameter b takes b + 1 + ⌊g / 2^b⌋ bits. The parameters add 5 bits per
    256 indices, and the directory 48 bits per 4096. On a uniform support the total is within 1 to 2.5 % of
    the entropy bound log2 C(d, r) / r bits per index: about 8.2 at 1 % density.

    Source: formats/spec/index/rice.md; Rice and Plaunt (1971), Golomb (1966).

    Raises:
        Malformed: in decoding, the directory or a span is inconsistent.
        Invalid: in decoding, an index is not below d, or the spans do not join.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> indices = np.arange(0, 100_000, 100, dtype=np.uint32)
        >>> wc.codecs.Rice().encode(indices, 100_000, 0).size
        1008
    """

    name: ClassVar[str] = "rice"
    wire_id: ClassVar[int] = 3

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in two passes, plan and write; see ``IndexCodec.encode``."""
        if indices.size <= RICE_SPAN:  # one kernel call is faster than several
            from wirecodec.kernels.cpu.index.rice_batch import write_short

            short: Bytes = write_short(indices).view(np.uint8)
            return short
        from wirecodec.kernels.cpu.index import rice_write

        parameters, lengths, size = _plan(indices)
        section = np.empty(size, np.uint8)
        rice_write.write(indices, parameters, lengths, section.view("<u4"))
        return section

    def encode_batch(self, indices: Array, cuts: Array, sizes: Array, streams: Array) -> SectionBatch:
        """Encode the indices of many tensors, each as ``encode`` does; see ``IndexCodec``."""
        from wirecodec.kernels.cpu.index import rice_batch
        from wirecodec.kernels.cpu.threads import least_units, run_parallel

        n = cuts.size - 1
        units = least_units(MIN_BATCH_INDICES, n, indices.size)
        parameters = np.empty(indices.size // RICE_BLOCK + n, np.uint8)
        span_words = np.empty(indices.size // RICE_SPAN + n, np.int64)
        lengths = np.empty(n, np.int64)
        plan = indices, cuts, parameters, span_words
        run_parallel(partial(rice_batch.plan, *plan, lengths), n, units)

        def write(words: Array, starts: Array) -> None:
            run_parallel(partial(rice_batch.write, *plan, words, starts), n, units)

        return SectionBatch(self.wire_id, lengths, write)

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        return _directory_bytes(r) + 4 * max_span_words(r, d)

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section: each span, then the joints between spans; see ``IndexCodec.decode``."""
        if r <= RICE_SPAN and section.size % 4 == 0:  # one kernel call is faster than several
            from wirecodec.kernels.cpu.index.rice_batch import read_short

            indices = np.empty(r, np.uint32)
            if read_short(read_only(section).view(WORD), d, indices):
                return indices
        directory = _Directory.of(section, r)
        indices = np.empty(r, np.uint32)
        directory.read(0, -(-r // RICE_SPAN), d, indices)
        return indices

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
    ) -> Array | None:
        """Decode the sections of many tensors; see ``IndexCodec``."""
        from wirecodec.kernels.cpu.index import rice_batch
        from wirecodec.kernels.cpu.threads import least_units, run_parallel

        n, total = starts.size, int(cuts[-1])
        indices, faults = np.empty(total, np.uint32), np.empty(n, np.bool_)
        read = partial(rice_batch.read, words, starts, lengths, sizes, cuts, indices, faults)
        run_parallel(read, n, least_units(MIN_BATCH_INDICES, n, total))
        return None if faults.any() else indices


@dataclass(frozen=True, eq=False)
class _Directory:
    """Directory of a section, checked and copied.

    Attributes:
        words: u32, the section.
        bases: (n_spans - 1,) u32, the base of each span but the first.
        parameters: (n_blocks,) u8, the parameter of each block.
        starts: (n_spans + 1,) i64, the first word of each span, and the word after the last.
    """

    words: Array
    bases: Array
    parameters: Array
    starts: Array

    @classmethod
    def of(cls, section: Bytes, r: int) -> _Directory:
        """Read and check the directory of a section of ``r`` indices.

        Raises:
            Malformed: a check fails.
        """
        from wirecodec.kernels.cpu.index import rice_read

        size = _directory_bytes(r)
        if section.size % 4 or section.size < size:
            raise Malformed("rice-length", f"{section.size} bytes; the directory alone takes {size}")
        words = read_only(section.view("<u4"))
        parameters = np.empty(-(-r // RICE_BLOCK), np.uint8)
        starts = np.empty(-(-r // RICE_SPAN) + 1, np.int64)
        code = rice_read.read_directory(words, r, parameters, starts)
        if code == rice_read.BAD_PADDING:
            raise Malformed("rice-padding", "a bit between the parameters and the spans is set")
        if code == rice_read.BAD_PARAMETER:
            raise Malformed(
                "rice-parameter", f"a parameter is {np.max(parameters)}; it must be at most {_MAX_PARAMETER}"
            )
        if code:
            raise Malformed("rice-length", f"{section.size - size} bytes do not hold the spans")
        bases = words[: starts.size - 2]
        return cls(words, read_only(bases.copy()) if bases.size else bases, parameters, starts)

    def read(self, first: int, last: int, d: int, out: Array) -> None:
        """Read the indices of the spans first … last - 1 into ``out``.

        Raises:
            WireError: a span fails a check.
        """
        from wirecodec.kernels.cpu.index import rice_read

        span, code = rice_read.read(self.words, self.bases, self.starts, self.parameters, d, first, last, out)
        if code == rice_read.BAD_RANGE:
            raise Invalid("index-range", f"span {span} exceeds the chunk")
        if code == rice_read.BAD_BASE:
            raise Invalid("rice-base", f"the base of span {span} does not follow span {span - 1}")
        if code == rice_read.BAD_PADDING:
            raise Malformed("rice-padding", f"span {span}: a bit after the low bits is set")
        if code:
            raise Malformed("rice-unary", f"span {span}: the unary part does not hold one code per gap")


def measure_section(indices: Array) -> int:
    """Return the length in bytes of the section of (r,) u32 ``indices``, r > 0, without writing it."""
    return _plan(indices)[2]


def _plan(indices: Array) -> tuple[Array, Array, int]:
    """Return each block's parameter (u8), each span's length in words (i64), and the section's in bytes."""
    from wirecodec.kernels.cpu.index import rice

    parameters = np.empty(-(-indices.size // RICE_BLOCK), np.uint8)
    lengths = np.empty(-(-indices.size // RICE_SPAN), np.int64)
    rice.plan(indices, parameters, lengths)
    words = int(lengths[0] if lengths.size == 1 else lengths.sum())
    return parameters, lengths, _directory_bytes(indices.size) + 4 * words


def _directory_bytes(r: int) -> int:
    """Return the length in bytes of the directory of ``r`` indices."""
    inner, blocks = -(-r // RICE_SPAN) - 1, -(-r // RICE_BLOCK)
    return -(-(6 * inner + -(-_PARAMETER_BITS * blocks // 8)) // 4) * 4

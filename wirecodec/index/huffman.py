"""``huffman``: canonical Huffman codes of gap classes or of index bytes (formats/spec/index/huffman.md).

Spans of 4096 indices decode independently. The form ``keys`` codes the bytes of indices, as DeepReduce does
(Xu et al. 2021, section 2 and the appendix). The paper's code is fixed, built from 0 ... d-1, and has four
bytes per index. Here it is built from the indices that are sent, and leading bytes that are always 0 are left
out.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.base import IndexCodec
from wirecodec.index.bounds import max_gap_bits
from wirecodec.index.raw import ascending_below
from wirecodec.index.short_sections import decode_short
from wirecodec.kernels.canonical_huffman import (
    build_table,
    check_spans,
    frame_spans,
    locate_spans,
    pack_lengths,
)
from wirecodec.kernels.layout import HUFFMAN_KEYS, HUFFMAN_SPAN, HUFFMAN_SYMBOLS
from wirecodec.limits import DecodeLimits

_HEADER = struct.Struct("<BBB")
_STORE_MARGIN = 8
_BITS_PER_BYTE = np.uint64(8)


@dataclass(frozen=True)
class Huffman(IndexCodec):
    """Huffman index codec: canonical codes of at most 12 bits, fitted to the support.

    With ``gaps`` a gap takes the code of its class and extra bits. The total is the entropy of the classes
    plus at most 1 bit per index, in practice within 1 % of the bound log2 C(d, r) / r on a uniform support:
    8.1 bits per index at 1 % density. With ``keys`` an index takes the codes of its ⌈log2(d) / 8⌉ bytes. The
    header takes 3 bytes and 4 bits per symbol, each span of 4096 indices after the first 6 bytes more.

    Source: formats/spec/index/huffman.md; after DeepReduce (Xu et al. 2021), section 2, for ``keys``.

    Args:
        symbols: ``"gaps"`` to code classes of gaps, ``"keys"`` to code bytes of indices.

    Raises:
        EncodeError: ``symbols`` is neither.
        Malformed: in decoding, the code is not complete, or the length of a span is wrong.
        Invalid: in decoding, the indices do not ascend, one is not below d, or the spans do not join.

    Examples:
        >>> import numpy as np, wirecodec as wc
        >>> indices = np.arange(0, 100_000, 100, dtype=np.uint32)
        >>> wc.codecs.Huffman().encode(indices, 100_000, 0).size
        522
    """

    name: ClassVar[str] = "huffman"
    wire_id: ClassVar[int] = 6
    symbols: str = "gaps"

    def __post_init__(self) -> None:
        if self.symbols not in ("gaps", "keys"):
            raise EncodeError(f"huffman: symbols is {self.symbols!r}; it must be 'gaps' or 'keys'")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Encode indices as a section in two passes, count and write; see ``IndexCodec.encode``."""
        from wirecodec.kernels.cpu.coding import canonical_huffman
        from wirecodec.kernels.cpu.index import huffman

        keys, width = self.symbols == "keys", _width(d)
        form, lengths, bits = _build_key_code(indices, width) if keys else _build_gap_code(indices)
        codes = np.empty(lengths.size, np.uint32)
        canonical_huffman.assign_codes(lengths, codes)
        inner = -(-indices.size // HUFFMAN_SPAN) - 1
        joints = indices[HUFFMAN_SPAN - 1 :: HUFFMAN_SPAN][:inner] + np.uint32(1)
        header = _encode_header(form, lengths, int(indices[0]))
        header += b"" if keys else joints.astype("<u4").tobytes()
        at_spans = len(header) + 2 * inner
        section = np.empty(at_spans + bits // 8 + inner + 1 + _STORE_MARGIN, np.uint8)
        ends = np.empty(inner + 1, np.int64)
        if keys:
            huffman.write_keys(indices, width, codes, section, at_spans, ends)
        else:
            max_bits = int(np.where(lengths, lengths + _count_extra_bits(form), 0).max())
            huffman.write_gaps(indices, form, max_bits, codes, section, at_spans, ends)
        sizes = np.diff(ends[:-1], prepend=at_spans).astype("<u2").tobytes()
        section[:at_spans] = np.frombuffer(header + sizes, np.uint8)
        return section[: ends[-1]]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the maximum number of bytes of a section of at most r indices below d."""
        inner = -(-r // HUFFMAN_SPAN) - 1
        if self.symbols == "keys":
            return _HEADER.size + 128 + 2 * inner + r * _width(d) + inner + 1
        # One raw bit fewer than the class, and a code of fixed length or, for classes below 7, a unary one.
        raw_bits = min(r * (b - 1) + (d >> b) for b in range(1, 25))
        fixed = r * d.bit_length().bit_length()
        unary = max_gap_bits(r, d) + 4 * min(r, d >> 6)
        bits = raw_bits + min(fixed, unary) + 4 * HUFFMAN_SYMBOLS[0]
        return _HEADER.size + 1 + 6 * inner + -(-bits // 8) + inner + 1

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Decode a section: a short one in one call, others span by span; see ``IndexCodec.decode``."""
        from wirecodec.kernels.cpu.index import huffman_read

        indices = np.empty(r, np.uint32)
        if r <= HUFFMAN_SPAN and huffman_read.read_short(section, d, indices):
            return indices
        layout = _Layout.of(section, r)
        layout.read(0, d, indices)
        if layout.form == HUFFMAN_KEYS:
            return ascending_below(indices, d)
        joints = indices[HUFFMAN_SPAN - 1 : r - 1 : HUFFMAN_SPAN].astype(np.int64) + 1
        if (bad := np.flatnonzero(layout.bases[1:] != joints)).size:
            raise Invalid("huffman-base", f"the base of span {bad[0] + 1} does not follow span {bad[0]}")
        return indices

    @classmethod
    def decode_batch(
        cls, words: Array, starts: Array, lengths: Array, sizes: Array, cuts: Array
    ) -> Array | None:
        """Decode the sections of many tensors; see ``IndexCodec``."""
        from wirecodec.kernels.cpu.index import short_sections

        return decode_short(cls, short_sections.read_huffman, words, starts, lengths, sizes, cuts)


@dataclass(frozen=True, eq=False)
class _Layout:
    """Header of a section, checked, and the positions of its spans.

    Attributes:
        form: 0 to 3 for gap classes, 4 for keys.
        table: (2**depth,) u32, the decoding table.
        max_bits: greatest number of bits of a symbol.
        framed: u8, a padded copy of the spans.
        starts: (n_spans + 1,) i64, the first byte of each span, and the byte after the last.
        bases: (n_spans,) i64, the base of each span; 0 for keys.
    """

    form: int
    table: Array
    max_bits: int
    framed: Array
    starts: Array
    bases: Array

    @classmethod
    def of(cls, section: Bytes, r: int) -> _Layout:
        """Read and check the header of a section of ``r`` indices.

        Raises:
            Malformed: a check fails.
        """
        if section.size < _HEADER.size:
            raise Malformed("huffman-length", f"{section.size} bytes; the header alone takes {_HEADER.size}")
        form, first, more = _HEADER.unpack(section[: _HEADER.size].tobytes())
        if form > HUFFMAN_KEYS:
            raise Malformed("huffman-form", f"the form is {form}; it must be 0 to {HUFFMAN_KEYS}")
        if first + more >= HUFFMAN_SYMBOLS[form]:
            raise Malformed("huffman-symbols", f"symbol {first + more} of {HUFFMAN_SYMBOLS[form]}")
        inner = -(-r // HUFFMAN_SPAN) - 1
        at_bases = _HEADER.size + ((more + 2) // 2 if more else 0)
        at_sizes = at_bases + (0 if form == HUFFMAN_KEYS else 4 * inner)
        at_spans = at_sizes + 2 * inner
        if section.size < at_spans:
            raise Malformed("huffman-length", f"{section.size} bytes; the header alone takes {at_spans}")
        extras, values = _symbol_meanings(form)
        packed = section[_HEADER.size : at_bases]
        table, max_bits = build_table(packed, more + 1, first, extras, values, "huffman")
        starts = locate_spans(section[at_sizes:at_spans], section.size - at_spans, "huffman")
        bases = np.zeros(inner + 1, np.int64)
        if form != HUFFMAN_KEYS:
            bases[1:] = np.frombuffer(section[at_bases:at_sizes].tobytes(), "<u4")
        framed = frame_spans(section[at_spans:], 5 * min(r, HUFFMAN_SPAN))
        return cls(form, table, max_bits, framed, starts, bases)

    def read(self, span: int, d: int, out: Array) -> None:
        """Read the indices of whole spans, from ``span`` on, into ``out``.

        Raises:
            WireError: a span fails a check.
        """
        from wirecodec.kernels.cpu.index import huffman_read

        stop = span + -(-out.size // HUFFMAN_SPAN)
        ends = self.starts[span:stop].view(np.uint64) * _BITS_PER_BYTE
        lasts = (self.bases[span:stop] - 1).view(np.uint64)
        if self.form == HUFFMAN_KEYS:
            huffman_read.read_keys(self.framed, self.table, _width(d), ends, out)
        else:
            huffman_read.read_gaps(self.framed, self.table, self.max_bits, ends, lasts, out)
        whole = stop - span
        beyond = self.form != HUFFMAN_KEYS and int(lasts.max()) >= d
        if beyond:
            whole = 1 + int(np.argmax(lasts >= d))
        check_spans(self.framed, self.starts[span : span + whole + 1], ends[:whole], "huffman", span)
        if beyond:
            raise Invalid("index-range", f"span {span + whole - 1} exceeds the chunk")


@cache
def _symbol_meanings(form: int) -> tuple[Array, Array]:
    """Return each symbol's number of extra bits and its value above them: (symbols,) i64 each."""
    if form == HUFFMAN_KEYS:
        return np.zeros(HUFFMAN_SYMBOLS[form], np.int64), np.arange(HUFFMAN_SYMBOLS[form])
    extras = _count_extra_bits(form)[: HUFFMAN_SYMBOLS[form]]
    return extras, np.arange(extras.size) - (extras << form)


def _count_extra_bits(m: int) -> Array:
    """Return the number of extra bits after the code of each class."""
    extras: Array = np.maximum((np.arange(HUFFMAN_SYMBOLS[HUFFMAN_KEYS - 1]) >> m) - 1, 0)
    return extras


def _build_gap_code(indices: Array) -> tuple[int, Array, int]:
    """Return the best form, its code lengths (u8), and the number of bits of all codes and extra bits."""
    from wirecodec.kernels.cpu.index import huffman

    counts = np.empty(HUFFMAN_SYMBOLS[HUFFMAN_KEYS - 1], np.int64)
    lengths = np.empty(counts.size, np.uint8)
    huffman.count_gaps(indices, counts)
    form, bits = huffman.choose(counts, lengths)
    return form, lengths, bits


def _build_key_code(indices: Array, width: int) -> tuple[int, Array, int]:
    """Return the form of keys, its code lengths (u8), and the number of bits of all codes."""
    from wirecodec.kernels.cpu.coding import canonical_huffman
    from wirecodec.kernels.cpu.index import huffman

    counts = np.empty(HUFFMAN_SYMBOLS[HUFFMAN_KEYS], np.int64)
    lengths = np.empty(counts.size, np.uint8)
    huffman.count_keys(indices, width, counts)
    canonical_huffman.build_lengths(counts, lengths)
    return HUFFMAN_KEYS, lengths, int(counts @ lengths)


def _encode_header(form: int, lengths: Array, first_index: int) -> bytes:
    """Encode the header: the form and the code lengths, or the only symbol, which the first index has."""
    symbols = np.flatnonzero(lengths)
    if symbols.size == 0:
        only = first_index & 255 if form == HUFFMAN_KEYS else _find_class(first_index, form)
        return _HEADER.pack(form, only, 0)
    first, last = int(symbols[0]), int(symbols[-1])
    return _HEADER.pack(form, first, last - first) + pack_lengths(lengths[first : last + 1])


def _find_class(gap: int, m: int) -> int:
    """Return the class of a gap: its first one bit and the m bits after it."""
    extra = max(0, gap.bit_length() - 1 - m)
    return (extra << m) + (gap >> extra)


def _width(d: int) -> int:
    """Return the bytes per index below ``d``, without leading zeros."""
    return max(1, -(-(d - 1).bit_length() // 8))

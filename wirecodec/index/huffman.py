"""``huffman``: canonical codes of gaps' classes, or of indices' bytes (formats/spec/index/huffman.md).

Spans of 4096 indices decode alone. After DeepReduce (2021), section 2.2, whose form is ``keys``.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.errors import EncodeError, Invalid, Malformed
from wirecodec.index.bounds import max_gap_bits
from wirecodec.index.raw import ascending_below
from wirecodec.kernels.canonical_huffman import (
    check_spans,
    framed_spans,
    packed_lengths,
    reader_table,
    span_starts,
)
from wirecodec.kernels.layout import HUFFMAN_SPAN
from wirecodec.limits import DecodeLimits

__all__ = ["Huffman"]

_HEAD = struct.Struct("<BBB")
_KEYS = 4  # the form; those below it are the bits of a gap's class after its first one bit
_SYMBOLS = (25, 48, 92, 176, 256)
_SLACK = 8
_BITS_PER_BYTE = np.uint64(8)


@dataclass(frozen=True)
class Huffman:
    """Within 1 % of the entropy bound of a uniform support, and of no parametric shape.

    Args:
        symbols: what has codes, "gaps" (classes of gaps, with raw bits below) or "keys" (bytes of indices).
    """

    name: ClassVar[str] = "huffman"
    wire_id: ClassVar[int] = 6
    symbols: str = "gaps"

    def __post_init__(self) -> None:
        if self.symbols not in ("gaps", "keys"):
            raise EncodeError(f"huffman: symbols is {self.symbols!r}; it must be 'gaps' or 'keys'")

    def encode(self, indices: Array, d: int, stream: int) -> Bytes:
        """Two passes over the indices: count, then write."""
        from wirecodec.kernels.cpu.coding import canonical_huffman
        from wirecodec.kernels.cpu.index import huffman

        keys, width = self.symbols == "keys", _width(d)
        form, lengths, bits = _keys_code(indices, width) if keys else _gaps_code(indices)
        codes = np.empty(lengths.size, np.uint32)
        canonical_huffman.codes(lengths, codes)
        inner = -(-indices.size // HUFFMAN_SPAN) - 1
        joints = indices[HUFFMAN_SPAN - 1 :: HUFFMAN_SPAN][:inner] + np.uint32(1)
        head = _head(form, lengths, int(indices[0])) + (b"" if keys else joints.astype("<u4").tobytes())
        at_spans = len(head) + 2 * inner
        section = np.empty(at_spans + bits // 8 + inner + 1 + _SLACK, np.uint8)
        ends = np.empty(inner + 1, np.int64)
        if keys:
            huffman.write_keys(indices, width, codes, section, at_spans, ends)
        else:
            most = int(np.where(lengths, lengths + _extras(form), 0).max())
            huffman.write_gaps(indices, form, most, codes, section, at_spans, ends)
        sizes = np.diff(ends[:-1], prepend=at_spans).astype("<u2").tobytes()
        section[:at_spans] = np.frombuffer(head + sizes, np.uint8)
        return section[: ends[-1]]

    def max_bytes(self, r: int, d: int) -> int:
        """Return the most bytes of a section of at most r indices below d."""
        inner = -(-r // HUFFMAN_SPAN) - 1
        if self.symbols == "keys":
            return _HEAD.size + 128 + 2 * inner + r * _width(d) + inner + 1
        # One raw bit fewer than the class, and a code of fixed length or, for classes below 7, a unary one.
        raw_bits = min(r * (b - 1) + (d >> b) for b in range(1, 25))
        fixed = r * d.bit_length().bit_length()
        unary = max_gap_bits(r, d) + 4 * min(r, d >> 6)
        bits = raw_bits + min(fixed, unary) + 4 * _SYMBOLS[0]
        return _HEAD.size + 1 + 6 * inner + -(-bits // 8) + inner + 1

    @classmethod
    def decode(cls, section: Bytes, d: int, r: int, limits: DecodeLimits) -> Array:
        """Every span, then what its end says of it, in order, then the joints between spans."""
        plan = _Plan.of(section, r)
        indices = np.empty(r, np.uint32)
        plan.read(0, d, indices)
        if plan.form == _KEYS:
            return ascending_below(indices, d)
        if r <= HUFFMAN_SPAN:
            return indices
        joints = indices[HUFFMAN_SPAN - 1 : r - 1 : HUFFMAN_SPAN].astype(np.int64) + 1
        if (wrong := np.flatnonzero(plan.bases[1:] != joints)).size:
            raise Invalid("huffman-base", f"span {wrong[0] + 1} does not begin where span {wrong[0]} ends")
        return indices

    @classmethod
    def decode_span(cls, section: Bytes, d: int, r: int, span: int) -> Array:
        """The indices of span ``span`` alone: 4096, fewer in the last.

        No other span is read, so its stored base is trusted, and keys are not compared.
        """
        indices = np.empty(min(HUFFMAN_SPAN, r - span * HUFFMAN_SPAN), np.uint32)
        _Plan.of(section, r).read(span, d, indices)
        return indices


@dataclass(frozen=True, eq=False)
class _Plan:
    """A section's head, checked: its form, what the next bits mean, where each span lies and counts from."""

    form: int
    table: Array
    most: int
    framed: Array
    starts: Array
    bases: Array

    @classmethod
    def of(cls, section: Bytes, r: int) -> _Plan:
        if section.size < _HEAD.size:
            raise Malformed("huffman-length", f"{section.size} bytes; the head alone takes {_HEAD.size}")
        form, first, more = _HEAD.unpack(section[: _HEAD.size].tobytes())
        if form > _KEYS:
            raise Malformed("huffman-form", f"form {form}; the last is {_KEYS}")
        if first + more >= _SYMBOLS[form]:
            raise Malformed("huffman-symbols", f"symbol {first + more} of {_SYMBOLS[form]}")
        inner = -(-r // HUFFMAN_SPAN) - 1
        at_bases = _HEAD.size + ((more + 2) // 2 if more else 0)
        at_sizes = at_bases + (0 if form == _KEYS else 4 * inner)
        at_spans = at_sizes + 2 * inner
        if section.size < at_spans:
            raise Malformed("huffman-length", f"{section.size} bytes; the head alone takes {at_spans}")
        extras, values = _meanings(form)
        table, most = reader_table(section[_HEAD.size : at_bases], more + 1, first, extras, values, "huffman")
        starts = span_starts(section[at_sizes:at_spans], section.size - at_spans, "huffman")
        bases = np.zeros(inner + 1, np.int64)
        if form != _KEYS:
            bases[1:] = np.frombuffer(section[at_bases:at_sizes].tobytes(), "<u4")
        framed = framed_spans(section[at_spans:], 5 * min(r, HUFFMAN_SPAN))
        return cls(form, table, most, framed, starts, bases)

    def read(self, span: int, d: int, out: Array) -> None:
        """The indices from ``span`` on into ``out``, whole spans of them; a WireError where a check fails."""
        from wirecodec.kernels.cpu.index import huffman_read

        stop = span + -(-out.size // HUFFMAN_SPAN)
        ends = self.starts[span:stop].view(np.uint64) * _BITS_PER_BYTE
        lasts = (self.bases[span:stop] - 1).view(np.uint64)
        if self.form == _KEYS:
            huffman_read.read_keys(self.framed, self.table, _width(d), ends, out)
        else:
            huffman_read.read_gaps(self.framed, self.table, self.most, ends, lasts, out)
        whole = stop - span
        beyond = self.form != _KEYS and int(lasts.max()) >= d
        if beyond:
            whole = 1 + int(np.argmax(lasts >= d))
        check_spans(self.framed, self.starts[span : span + whole + 1], ends[:whole], "huffman", span)
        if beyond:
            raise Invalid("index-range", f"span {span + whole - 1} runs past the chunk")


@cache
def _meanings(form: int) -> tuple[Array, Array]:
    """The raw bits after each symbol's code, and what the symbol means above them: (symbols,) i64 each."""
    if form == _KEYS:
        return np.zeros(_SYMBOLS[form], np.int64), np.arange(_SYMBOLS[form])
    extras = _extras(form)[: _SYMBOLS[form]]
    return extras, np.arange(extras.size) - (extras << form)


def _extras(m: int) -> Array:
    """The raw bits that follow the code of each class."""
    extras: Array = np.maximum((np.arange(_SYMBOLS[_KEYS - 1]) >> m) - 1, 0)
    return extras


def _gaps_code(indices: Array) -> tuple[int, Array, int]:
    """The best form, the lengths of its classes' codes, and the bits of all codes and extra bits."""
    from wirecodec.kernels.cpu.index import huffman

    counts = np.empty(_SYMBOLS[_KEYS - 1], np.int64)
    lengths = np.empty(counts.size, np.uint8)
    huffman.count_gaps(indices, counts)
    form, bits = huffman.choose(counts, lengths)
    return form, lengths, bits


def _keys_code(indices: Array, width: int) -> tuple[int, Array, int]:
    """The form of keys, the lengths of their bytes' codes, and the bits of all codes."""
    from wirecodec.kernels.cpu.coding import canonical_huffman
    from wirecodec.kernels.cpu.index import huffman

    counts = np.empty(_SYMBOLS[_KEYS], np.int64)
    lengths = np.empty(counts.size, np.uint8)
    huffman.count_keys(indices, width, counts)
    canonical_huffman.lengths(counts, lengths)
    return _KEYS, lengths, int(counts @ lengths)


def _head(form: int, lengths: Array, first_index: int) -> bytes:
    """What says which codes there are; a single symbol, which has no length, is that of the first index."""
    coded = np.flatnonzero(lengths)
    if coded.size == 0:
        return _HEAD.pack(form, first_index & 255 if form == _KEYS else _class(first_index, form), 0)
    first, last = int(coded[0]), int(coded[-1])
    return _HEAD.pack(form, first, last - first) + packed_lengths(lengths[first : last + 1])


def _class(gap: int, m: int) -> int:
    extra = max(0, gap.bit_length() - 1 - m)
    return (extra << m) + (gap >> extra)


def _width(d: int) -> int:
    """The bytes that indices below ``d`` have, zeros above them left out."""
    return max(1, -(-(d - 1).bit_length() // 8))

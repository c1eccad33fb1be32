"""Index codec 6, huffman: writing (spec/index/huffman.md, Writing), exact by default."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from formats.reference.bits import pack_stream
from formats.reference.index.huffman import KEYS, MAX_CODE_BITS, SPAN, assign_codes, key_width


def classify_gap(gap: int, m: int) -> tuple[int, int]:
    """Return the class of a gap, and the number of its extra bits."""
    extra = max(0, gap.bit_length() - 1 - m)
    return (extra << m) + (gap >> extra), extra


def compute_code_lengths(counts: dict[int, int]) -> dict[int, int]:
    """Return the code lengths of least total size by package-merge; 0 for a single symbol."""
    symbols = sorted(counts, key=lambda symbol: (counts[symbol], symbol))
    leaves = [(counts[symbol], [symbol]) for symbol in symbols]
    items: list[tuple[int, list[int]]] = []
    for _ in range(MAX_CODE_BITS):
        packages = [
            (a + b, of_a + of_b) for (a, of_a), (b, of_b) in zip(items[::2], items[1::2], strict=False)
        ]
        items = sorted(leaves + packages, key=lambda item: item[0])  # stable: leaves precede packages
    contained = Counter(symbol for _, item in items[: 2 * len(symbols) - 2] for symbol in item)
    return {symbol: contained[symbol] for symbol in symbols}


def write_huffman(
    indices: Sequence[int], d: int, *, keys: bool = False, m: int | None = None, spare: bool = False
) -> bytes:
    """Write a section.

    Args:
        indices: the support, 0 < r < d.
        d: number of elements.
        keys: whether the symbols are the bytes of indices.
        m: parameter of the classes; None for the one that makes the section smallest.
        spare: whether symbols between the least and the greatest that do not occur have codes, too.
    """
    gaps = [i - last - 1 for last, i in zip([-1, *indices], indices, strict=False)]
    if keys:
        pieces = [[(i >> 8 * n & 0xFF, 0, 0) for n in range(key_width(d))] for i in indices]
        lengths = _compute_lengths(pieces, spare)
        return _write_section(KEYS, lengths, pieces, [])
    plans = []
    for form in range(4) if m is None else (m,):
        pieces = [[(*classify_gap(gap, form), gap)] for gap in gaps]
        lengths = _compute_lengths(pieces, spare)
        bits = sum(lengths[symbol] + extra for piece in pieces for symbol, extra, _ in piece)
        window = max(lengths) - min(lengths) + 1
        plans.append((bits + (4 * window if window > 1 else 0), form, lengths, pieces))
    _, form, lengths, pieces = min(plans, key=lambda plan: plan[:2])
    return _write_section(form, lengths, pieces, [i + 1 for i in indices[SPAN - 1 : -1 : SPAN]])


Piece = list[tuple[int, int, int]]
"""The symbols of one index: (symbol, number of extra bits, number whose low bits they are)."""


def _compute_lengths(pieces: Sequence[Piece], spare: bool) -> dict[int, int]:
    counts = Counter(symbol for piece in pieces for symbol, _, _ in piece)
    if spare:
        counts.update(range(min(counts), max(counts) + 1))
    return compute_code_lengths(counts)


def _write_section(
    form: int, lengths: dict[int, int], pieces: Sequence[Piece], bases: Sequence[int]
) -> bytes:
    first, last = min(lengths), max(lengths)
    head = bytes([form, first, last - first])
    if last > first:
        head += pack_stream([lengths.get(symbol, 0) for symbol in range(first, last + 1)], 4, 1)
    codes = assign_codes(lengths)
    spans = []
    for c in range(0, len(pieces), SPAN):
        bits: list[int] = []
        for symbol, extra, number in (part for piece in pieces[c : c + SPAN] for part in piece):
            length, code = codes.get(symbol, (0, 0))
            bits += [code >> length - 1 - n & 1 for n in range(length)]
            bits += [number >> n & 1 for n in range(extra)]
        spans.append(pack_stream(bits, 1, 1))
    head += struct.pack(f"<{len(bases)}I", *bases)
    head += struct.pack(f"<{len(spans) - 1}H", *(len(span) for span in spans[:-1]))
    return head + b"".join(spans)


@dataclass(frozen=True)
class Huffman:
    """Index codec 6; ``write_huffman`` defines ``m`` and ``spare``."""

    id: ClassVar[int] = 6
    symbols: Literal["gaps", "keys"] = "gaps"
    m: int | None = None
    spare: bool = False

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return "huffman" if self.symbols == "gaps" else "huffman(symbols=keys)"

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write gaps or keys in Huffman code."""
        return write_huffman(indices, d, keys=self.symbols == "keys", m=self.m, spare=self.spare)

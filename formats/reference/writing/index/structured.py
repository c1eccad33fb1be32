"""Index codec 10, structured: writing (spec/index/structured.md, Writing), exact by default."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.index.structured import (
    BITMAP,
    BLOCK,
    COMPLEMENT,
    FIRST,
    GAPS,
    LAST,
    MAX_PARAMETER,
    PARAMETER_BITS,
    PHASED,
    RUNS,
)


def write_stream(numbers: Sequence[int], parameter: int | None = None) -> str:
    """Write a gap stream as a string of 0 and 1.

    Args:
        numbers: ascending numbers.
        parameter: parameter of every block; None for the optimal ones.
    """
    gaps = [n - last - 1 for last, n in zip([-1, *numbers], numbers, strict=False)]
    out = ""
    for start in range(0, len(gaps), BLOCK):
        block = gaps[start : start + BLOCK]
        b = parameter
        if b is None:
            b = min(range(MAX_PARAMETER + 1), key=lambda b: len(block) * b + sum(g >> b for g in block))
        out += to_bits(b, PARAMETER_BITS)
        out += "".join("0" * (g >> b) + "1" + to_bits(g & ((1 << b) - 1), b) for g in block)
    return out


def to_bits(number: int, width: int) -> str:
    """Return ``width`` bits of a number as 0 and 1, the lowest first."""
    return "".join(str(number >> i & 1) for i in range(width))


def pack_bits(bits: str) -> bytes:
    """Pack a string of bits into bytes, padded with zero bits."""
    return int(bits[::-1] or "0", 2).to_bytes(-(-len(bits) // 8), "little")


@dataclass(frozen=True)
class Structured:
    """Index codec 10; an argument that is None is chosen as an exact writer does.

    Args:
        form: 0 to 2.
        complement: whether absent elements are listed.
        grain: (g, p); the support must consist of such grains.
        parameter: parameter of all blocks.
    """

    id: ClassVar[int] = 10
    scheme: ClassVar[str] = "structured"
    form: int | None = None
    complement: bool | None = None
    grain: tuple[int, int] | None = None
    parameter: int | None = None

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the smallest of the allowed forms."""
        present = set(indices)
        g, p = self.grain or _find_grain(present, d)
        n, rest = divmod(d - p, g)
        grains = [i for i in range(n) if p + g * i in present]
        plain = self._write_header(g, p, bool(p) and 0 in present, bool(rest) and d - 1 in present)
        absent = self._write_header(g, p, bool(p) and 0 not in present, bool(rest) and d - 1 not in present)
        opposite = [i for i in range(n) if p + g * i not in present]
        sections = []
        for form in (GAPS, RUNS, BITMAP) if self.form is None else (self.form,):
            complement = self.complement
            if complement is None:
                complement = form == GAPS and n > len(grains) > n - len(grains)
            listed = opposite if complement else grains
            head = absent if complement else plain
            flags = head[0] | form | (COMPLEMENT if complement else 0)
            sections.append(bytes([flags]) + head[1:] + self._write_body(form, listed, n))
        return min(sections, key=len)

    @staticmethod
    def _write_header(g: int, p: int, first: bool, last: bool) -> bytes:
        width = -(-g.bit_length() // 8) if g > 1 else 0
        flags = FIRST * first | LAST * last | width << 5 | (PHASED if p else 0)
        fields = (g.to_bytes(width, "little") if width else b"") + (p.to_bytes(width, "little") if p else b"")
        return bytes([flags]) + fields

    def _write_body(self, form: int, grains: Sequence[int], n: int) -> bytes:
        m = len(grains)
        if m in (0, n):
            return b""
        if form == GAPS:
            return pack_bits(write_stream(grains, self.parameter))
        if form == BITMAP:
            return sum(1 << i for i in grains).to_bytes(-(-n // 8), "little")
        starts = [at for at, i in enumerate(grains) if at == 0 or grains[at - 1] < i - 1]
        before = [grains[at] - at for at in starts]
        ends = [at - 1 for at in starts[1:]]
        count = to_bits(len(starts) - 1, (min(m, n - m + 1) - 1).bit_length())
        return pack_bits(count + write_stream(before, self.parameter) + write_stream(ends, self.parameter))


def _find_grain(present: set[int], d: int) -> tuple[int, int]:
    """Return the grain and phase of an exact writer."""
    ends = [i for i in range(1, d) if (i in present) != (i - 1 in present)]
    g = math.gcd(*(b - a for a, b in itertools.pairwise(ends)))
    return (g, ends[0] % g) if g > 1 else (1, 0)

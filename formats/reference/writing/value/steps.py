"""Value codecs 16 and 17, steps and steps-zstd: writing (spec/patch.md)."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.element_types import RecordType
from formats.reference.floats import pack_elements
from formats.reference.rans import row_of
from formats.reference.value.steps import BITS, DIRECT, GROUP, order
from formats.reference.writing.rans import LaneWriter
from formats.reference.writing.value.zstd import Zstd

SHUFFLED = Zstd()


@dataclass(frozen=True)
class Steps:
    """Value codec 16.

    Attributes:
        signed: whether the highest bit is a sign beside a magnitude.
        shift, starts: of the contexts; without starts, there is one context.
        lanes: 1 or 4.
        table: frequencies of each context; empty for those of the steps.
        ends: as of ``LaneWriter``.
    """

    id: ClassVar[int] = 16
    signed: bool = True
    shift: int = 0
    starts: tuple[int, ...] = ()
    lanes: int = 1
    table: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()

    def write_section(self, new: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the steps from old words to new ones."""
        steps = [find_step(a, b, width, self.signed) for a, b in zip(old, new, strict=True)]
        rows = [0 if not self.starts else row_of(x, width, self.shift) for x in old]
        contexts = [bisect_right((0, *self.starts), row) - 1 for row in rows]
        tables: list[Sequence[int]] = []
        for context in range(len(self.starts) + 1):
            own = Counter(symbol_of(s) for s, c in zip(steps, contexts, strict=True) if c == context)
            tables.append(self.table or normalise(own))
        flags = self.signed | (self.lanes == 4) << 1
        head = struct.pack("<BBBB", 0, flags, self.shift, len(tables))
        head += struct.pack(f"<{len(self.starts)}H", *self.starts) + b"".join(map(write_table, tables))
        return head + bytes(-len(head) % 4) + self._write_stream(steps, contexts, tables)

    def _write_stream(
        self, steps: Sequence[int], contexts: Sequence[int], tables: Sequence[Sequence[int]]
    ) -> bytes:
        stream = LaneWriter(self.lanes, self.ends)
        for i in reversed(range(len(steps))):
            lane, table, symbol = i % self.lanes, tables[contexts[i]], symbol_of(steps[i])
            left = max(steps[i].bit_length() - 2, 0) if symbol >= DIRECT else 0
            raw = steps[i] % (1 << left)
            while left:
                bits = min(left, GROUP)
                stream.put(lane, raw % 2**bits, 1, bits)
                raw, left = raw >> bits, left - bits
            stream.put(lane, sum(table[:symbol]), table[symbol], BITS)
        return stream.finish()


@dataclass(frozen=True)
class StepsZstd:
    """Value codec 17, in frames without a compressor."""

    id: ClassVar[int] = 17
    signed: bool = True
    zstd: Zstd = SHUFFLED

    def write_section(self, new: Sequence[int], old: Sequence[int], width: int) -> bytes:
        """Write the steps from old words to new ones."""
        steps = [find_step(a, b, width, self.signed) for a, b in zip(old, new, strict=True)]
        data = pack_elements(steps, width // 8)
        return bytes([self.signed]) + self.zstd.write_section(data, RecordType(0, "", width // 8), 0)


def find_step(old: int, new: int, width: int, signed: bool) -> int:
    """Return the step from an old word to a new one."""
    modulus = 1 << width
    delta = (order(new, width, signed) - order(old, width, signed)) % modulus
    return 2 * delta if 2 * delta < modulus else 2 * (modulus - delta) - 1


def symbol_of(step: int) -> int:
    """Return the symbol of a step."""
    if step < DIRECT:
        return step
    octave = step.bit_length() - 1
    return 8 + 2 * octave + (step >> (octave - 1)) % 2


def normalise(counts: Counter[int]) -> Sequence[int]:
    """Return frequencies that add up to 4096: at least 1 for each symbol that occurs, in proportion."""
    total = sum(counts.values()) or 1
    table = [0] * (max(counts, default=0) + 1)
    for symbol, count in counts.items():
        table[symbol] = max(1, count * 2**BITS // total)
    table[max(range(len(table)), key=table.__getitem__)] += 2**BITS - sum(table)
    return table


def write_table(table: Sequence[int]) -> bytes:
    """Return the bytes of a table."""
    out = bytes([len(table)])
    for f in table:
        out += bytes([f]) if f < 128 else bytes([128 + f % 128, f >> 7])
    return out

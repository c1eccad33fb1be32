"""Index codec 11, context: writing (spec/index/context.md, Writing), exact by default."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.index.context import MAX_PERIOD, MIN_PERIOD, Key, _Coder, initial_density, walk

MAX_ANCHORS, NEIGHBOURS = 8192, 8


class _Writer(_Coder):
    """Coder that writes bits; the low end of the interval is ``out`` followed by the 32 bits of ``low``."""

    def __init__(self, indices: Sequence[int], density: int) -> None:
        super().__init__(density)
        self.indices, self.next = indices, 0
        self.low, self.out = 0, bytearray()

    def ask(self, context: Key, start: int, stop: int) -> int:
        """Write whether the next index is from ``start`` to ``stop``, and return that bit."""
        while self.next < len(self.indices) and self.indices[self.next] < start:
            self.next += 1
        bit = int(self.indices[self.next] < stop)
        bound = self.split(context)
        if bit:
            self.width = bound
        else:
            self.add(bound)
            self.width -= bound
        self.learn(context, bit)
        while self.width < 2**24:
            self.width <<= 8
            self.out.append(self.low >> 24)
            self.low = self.low << 8 & 0xFFFFFFFF
        return bit

    def add(self, number: int) -> None:
        """Raise the low end; a carry propagates to the bytes already written."""
        self.low += number
        if self.low >> 32:
            self.low &= 0xFFFFFFFF
            at = len(self.out) - 1
            while self.out[at] == 255:
                self.out[at] = 0
                at -= 1
            self.out[at] += 1

    def finish(self) -> bytes:
        """Return all bytes; the end is the least multiple of 2^24 that is not below the low end."""
        self.add(2**24 - 1)
        return bytes(self.out) + bytes([self.low >> 24])


def write_context(indices: Sequence[int], d: int, period: int) -> bytes:
    """Write the section with this period."""
    writer = _Writer(indices, initial_density(len(indices), d))
    walk(writer.ask, len(indices), period, d)
    return period.to_bytes(2, "little") + writer.finish()


def find_period(indices: Sequence[int]) -> int:
    """Return the candidate period of an exact writer, 0 for none."""
    r = len(indices)
    counts = [0] * (MAX_PERIOD + NEIGHBOURS + 1)
    anchors = min(r, MAX_ANCHORS)
    for anchor in range(anchors):
        at = anchor * r // anchors
        for other in range(at + 1, r):
            distance = indices[other] - indices[at]
            if distance >= len(counts):
                break
            counts[distance] += 1
    excess = {}
    for period in range(MIN_PERIOD, MAX_PERIOD + 1):
        beside = sum(counts[period - NEIGHBOURS : period + NEIGHBOURS + 1]) - counts[period]
        more = 2 * NEIGHBOURS * counts[period] - beside
        if more > 0 and more * more >= 600 * (beside + 4):
            excess[period] = more
    best = max(excess.values(), default=0)
    return next((period for period, more in excess.items() if 8 * more >= 7 * best), 0)


@dataclass(frozen=True)
class Context:
    """Index codec 11; ``period`` replaces the one that an exact writer chooses."""

    id: ClassVar[int] = 11
    scheme: ClassVar[str] = "context"
    period: int | None = None

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write the smaller of the sections without rows and with rows of the candidate period."""
        if self.period is not None:
            return write_context(indices, d, self.period)
        plain = write_context(indices, d, 0)
        period = find_period(indices)
        return min(plain, write_context(indices, d, period), key=len) if period else plain

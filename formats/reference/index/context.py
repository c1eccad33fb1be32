"""Index codec 11, context: decoding (spec/index/context.md).

``walk`` visits the elements and asks a coder for one bit after another. The reader's coder takes the bits
from a section; the writer's coder makes the section.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator

from formats.reference.errors import Invalid, Malformed

BLOCK, PART = 64, 8
ROWS, WINDOW = 2**16 - 1, 2**32 - 1
MIN_PERIOD, MAX_PERIOD = 64, 16_384
ONE = 1 << 22
BOUNDS = (1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 26)
Key = tuple[object, ...]
Ask = Callable[[Key, int, int], int]
"""Codes a bit; takes its context, and the first element and the end of the range that it describes."""


class _Coder:
    """Interval of an arithmetic coder, with the adaptive numbers q and n of each context."""

    def __init__(self, density: int) -> None:
        self.density = density
        self.learned: dict[Key, tuple[int, int]] = {}
        self.width = 2**32 - 1

    def split(self, context: Key) -> int:
        """Return the width of the part of the interval that codes a 1."""
        if context not in self.learned:
            self.learned[context] = first_probability(context, self.density), 1
        p, _ = self.learned[context]
        return (self.width >> 16) * min(max(p >> 6, 1), 65_535)

    def learn(self, context: Key, bit: int) -> None:
        """Move q towards the bit."""
        p, n = self.learned[context]
        p += ((ONE - 1 if bit else 0) - p) * (131_072 // (2 * n + 3)) >> 16
        self.learned[context] = p, min(n + 1, 255)


def first_probability(context: Key, density: int) -> int:
    """Return the initial q of a context."""
    kind, place = context[0], context[1]
    if kind == "block":
        return min(BLOCK * density, ONE // 2)
    if kind == "part":
        p = min(PART * density, ONE // 2)
        return max(p, ONE // 2 // (PART - place)) if isinstance(place, int) else p
    return max(density, ONE // (PART - place)) if isinstance(place, int) else density


class _Reader(_Coder):
    """Coder that reads bits from a section."""

    def __init__(self, data: bytes, density: int) -> None:
        super().__init__(density)
        self.data, self.consumed = data, 4
        self.code = int.from_bytes(data[:4].ljust(4, b"\0"), "big")

    def ask(self, context: Key, start: int, stop: int) -> int:
        """Read a bit."""
        bound = self.split(context)
        bit = int(self.code < bound)
        if bit:
            self.width = bound
        else:
            self.code -= bound
            self.width -= bound
        self.learn(context, bit)
        while self.width < 2**24:
            self.width <<= 8
            byte = self.data[self.consumed] if self.consumed < len(self.data) else 0
            self.code = self.code << 8 | byte
            self.consumed += 1
            if self.consumed > len(self.data) + 3:
                raise Malformed("context-length", "the code ends before the last index")
        return bit


def count_class(count: int) -> int:
    """Return the class of a number of present elements, 0 to 11."""
    return bisect_right(BOUNDS, count)


def walk(ask: Ask, r: int, period: int, d: int) -> list[int]:
    """Visit the elements and return those that are present.

    Args:
        ask: codes a bit.
        r: number of present elements.
        period: elements per row, 0 for no rows.
        d: number of elements.

    Raises:
        WireError: Invalid, if fewer than r elements are present.
    """
    indices: list[int] = []
    history = [0] * period  # of each column; the latest row is bit 0
    window = 0  # the preceding elements; the latest is bit 0
    activity = 0

    def quiet(start: int, stop: int) -> bool:
        return period == 0 or not any(history[start % period : start % period + stop - start])

    for start, stop in _iterate_blocks(d, period or d):
        whole = quiet(start, stop)
        if whole and not ask(("block", None, count_class(min(activity, 32))), start, stop):
            window = 0
            activity //= 2
            continue
        before = len(indices)
        for part in range(start, stop, PART):
            end = min(stop, part + PART)
            flagged = whole or quiet(part, end)
            promised = whole and len(indices) == before
            if flagged and not (promised and end == stop):
                place = (part - start) // PART if promised else None
                if not ask(("part", place, count_class(window.bit_count())), part, end):
                    window = window << (end - part) & WINDOW
                    continue
            first = len(indices)
            for i in range(part, end):
                promised = flagged and len(indices) == first
                bit = 1
                if not (promised and i + 1 == end):
                    past = history[i % period] if period else 0
                    ones = past.bit_count()
                    column = (min(ones, 3 + ones // 2), past & 1) if ones else None
                    place = i - part if promised else None
                    bit = ask(("bit", place, count_class(window.bit_count()), window & 1, column), i, i + 1)
                window = window << 1 & WINDOW | bit
                if period:
                    history[i % period] = history[i % period] << 1 & ROWS | bit
                if bit:
                    indices.append(i)
                    if len(indices) == r:
                        return indices
        activity = (activity + len(indices) - before + 1) // 2
    raise Invalid("context-count", f"{len(indices)} of {r} elements are present")


def _iterate_blocks(d: int, length: int) -> Iterator[tuple[int, int]]:
    """Yield the first element and the end of each block of all rows."""
    for row in range(0, d, length):
        for start in range(row, min(row + length, d), BLOCK):
            yield start, min(start + BLOCK, row + length, d)


def initial_density(r: int, d: int) -> int:
    """Return δ, the probability in units of 2^-22 with which contexts begin."""
    return min(max(r * ONE // d, 64), ONE - 64)


def read_header(section: bytes) -> int:
    """Read the period.

    Raises:
        WireError: Malformed.
    """
    if len(section) < 3:
        raise Malformed("context-length", f"{len(section)} bytes")
    period = int.from_bytes(section[:2], "little")
    if period and not MIN_PERIOD <= period <= MAX_PERIOD:
        raise Malformed("context-period", f"period is {period}")
    return period


def count_context_work(section: bytes, r: int, d: int) -> int:
    """Return the number of steps that the section takes, after the checks of the header."""
    read_header(section)
    return d


def decode_context(section: bytes, r: int, d: int) -> list[int]:
    """Decode adaptively coded bits.

    Args:
        section: bytes of the index section.
        r: number of indices, 0 < r < d.
        d: number of elements, present or not.

    Returns:
        r strictly ascending indices below d.

    Raises:
        WireError: Malformed or Invalid.
    """
    period = read_header(section)
    reader = _Reader(section[2:], initial_density(r, d))
    indices = walk(reader.ask, r, period, d)
    if reader.consumed != len(section) - 2 + 3:
        raise Malformed("context-length", "bytes after the last index")
    if reader.code >= 2**24:
        raise Malformed("context-end", "the last byte is not the least possible")
    return indices

"""Bitmaps over several threads: words of 64 bits, the ranges that were counted, the indices of the ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu import bitmap
from wirecodec.kernels.cpu.threads import in_ranges

__all__ = ["Counted", "counted", "nonzero"]

_LEAST_WORDS = 16384
"""Words that are worth a thread: it takes 10 to 80 µs to wake up."""


@dataclass(frozen=True, eq=False)
class Counted:
    """A bitmap whose ones are counted.

    Attributes:
        words: u64; bits beyond the last element are 0.
        ranges: (first word, last word + 1, ones) of ranges that make up all words.
    """

    words: Array
    ranges: list[tuple[int, int, int]]

    @property
    def ones(self) -> int:
        """Bits that are set."""
        return sum(count for _, _, count in self.ranges)

    def indices(self, dtype: np.dtype[Any]) -> Array:
        """(ones,) ascending numbers of the set bits; ``dtype`` is int32 or int64."""
        found = np.empty(self.ones, dtype)
        stops = list(itertools.accumulate(count for _, _, count in self.ranges))

        def fill(first: int, last: int) -> None:
            for (start, stop, count), end in zip(self.ranges[first:last], stops[first:last], strict=True):
                bitmap.positions(self.words[start:stop], 64 * start, found[end - count : end])

        in_ranges(fill, len(self.ranges), 2)
        return found


def counted(words: Array) -> Counted:
    """A bitmap of u64 words, counted."""

    def count(start: int, stop: int) -> tuple[int, int, int]:
        return start, stop, bitmap.count_ones(words[start:stop])

    return Counted(words, in_ranges(count, words.size, _LEAST_WORDS))


def nonzero(bits: Array) -> Counted:
    """Which elements of flat unsigned ``bits`` are not 0; one read of them."""
    words = np.empty(-(-bits.size // 64), np.uint64)

    def mark(start: int, stop: int) -> tuple[int, int, int]:
        return start, stop, bitmap.nonzero_bits(bits[64 * start : 64 * stop], words[start:stop])

    return Counted(words, in_ranges(mark, words.size, _LEAST_WORDS))

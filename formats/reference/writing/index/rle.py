"""Index codec 4, rle: writing (spec/index/rle.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.writing.index.varint import write_varints


def write_rle(indices: Sequence[int]) -> bytes:
    """Write the runs of the bitmap; the last absent run is omitted."""
    runs: list[list[int]] = []  # [begin, end) of each present run
    for i in indices:
        if runs and runs[-1][1] == i:
            runs[-1][1] += 1
        else:
            runs.append([i, i + 1])
    numbers = []
    follows = 0
    for n, (begin, end) in enumerate(runs):
        numbers += [begin - follows - (1 if n else 0), end - begin - 1]
        follows = end
    return write_varints(numbers)


@dataclass(frozen=True)
class Rle:
    """Index codec 4."""

    scheme: ClassVar[str] = "rle"
    id: ClassVar[int] = 4

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write run lengths."""
        return write_rle(indices)

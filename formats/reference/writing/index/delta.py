"""Index codec 5, delta: writing (spec/index/delta.md)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from formats.reference.writing.index.varint import write_varints


def write_delta(indices: Sequence[int]) -> bytes:
    """Write the gaps, each in the fewest bytes."""
    return write_varints([i - last - 1 for last, i in zip([-1, *indices], indices, strict=False)])


@dataclass(frozen=True)
class Delta:
    """Index codec 5."""

    scheme: ClassVar[str] = "delta"
    id: ClassVar[int] = 5

    def write_section(self, indices: Sequence[int], d: int) -> bytes:
        """Write gaps as varints."""
        return write_delta(indices)

"""Bits of a tensor where its memory is, and the operations on them there.

The host has one set of them, ``host.HOST``, and each GPU another one. ``states.find_forms`` chooses.
Positions and values of changed elements, digests and counts are on the host, whichever set it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.scale import Scale

Elements: TypeAlias = tuple[Array, Array]
"""Positions (r,) u32 and bits (r,) of elements."""
Changes: TypeAlias = tuple[Array, Array, Array]
"""Positions (r,) u32 of elements, and the old and the new bits there, (r,) unsigned each."""


class Forms(Protocol):
    """Protocol of the operations on (size,) unsigned elements in one memory."""

    def settle(self) -> None:
        """Wait for the caller's work on the memory, before threads read it; called in the caller's thread."""
        ...

    def read(self, tensor: Any) -> Bits:
        """Return the bits of a tensor. Raises EncodeError."""
        ...

    def view(self, tensor: Any, bits: Bits) -> Bits | None:
        """Return the bits of a contiguous tensor if they can be written; None for others."""
        ...

    def copy_to_host(self, bits: Any) -> Array:
        """Return the elements on the host; those that are there are not copied."""
        ...

    def join(self, parts: Sequence[Any]) -> AbstractContextManager[Any]:
        """Lend the elements of some arrays of one type as one array, which nobody may keep."""
        ...

    def sum_elements(self, bits: Any) -> int:
        """Add up the mixed words of the elements (formats/spec/patch.md, "Digests")."""
        ...

    def sum_arrays(self, parts: Sequence[Bits]) -> Array:
        """Add up the mixed words of the elements of each tensor: (n,) u64."""
        ...

    def join_summed(self, parts: Sequence[Bits]) -> AbstractContextManager[tuple[Any, Array]]:
        """Lend the elements as ``join`` does, and the sums of the mixed words of each part, (n,) u64."""
        ...

    def add_changes(self, sums: Array, joined: Any, starts: Array, cuts: Array, changes: Elements) -> None:
        """Add to sums by how much they change if elements are replaced.

        Args:
            sums: (n,) u64, as of ``join_summed``, changed.
            joined: the elements.
            starts: (n + 1,) i64, first element of each part, and the number of all.
            cuts: (n + 1,) i64, first change of each part, and r.
            changes: positions, ascending, and new bits.
        """
        ...

    def take_touched(
        self, parts: Sequence[Bits], starts: Array, cuts: Array, indices: Array
    ) -> tuple[Array, Array]:
        """Return some elements of tensors of one type, and the sum of those of each part.

        Args:
            parts: the tensors, as if they followed each other.
            starts, cuts, indices: as for ``add_changes``.

        Returns the elements (r,) unsigned, and (n,) u64, sums of mixed elements.
        """
        ...

    def find_changes(
        self, olds: Sequence[Bits], news: Sequence[Bits], *, digests: bool
    ) -> tuple[Changes, Array, Array]:
        """Find the elements that differ in pairs of tensors, and add up the mixed words of each.

        Args:
            olds, news: tensors of one width; those of a pair have one size.
            digests: whether to add up; the sums are 0 otherwise.

        Returns the changes of all pairs, with positions in their own tensor; (n + 1,) i64, the first change
        of each pair, and r; and (2, n) u64, the sums of the old and of the new tensors.
        """
        ...

    def take(self, bits: Any, indices: Array) -> Array:
        """Return the elements at (r,) u32 positions."""
        ...

    def exchange(
        self, parts: Sequence[Bits], indices: Sequence[Array], values: Sequence[Array], olds: Array
    ) -> None:
        """Replace elements of tensors, one after another; after an exception, all are as they were.

        Args:
            parts: the tensors, of one width, whose memory can be written.
            indices, values: positions and new bits, (r,) u32 and (r,) unsigned for each.
            olds: (all r,) unsigned, written: the elements before.
        """
        ...

    def count_rows(self, bits: Any, shift: int, step: int, rows: int) -> Array:
        """Count the rows, bits >> shift of ``rows``, of every ``step``-th run of 8 elements: (rows,) i64."""
        ...

    def measure_gaps(self, bits: Any, scale: Scale, indices: Array) -> tuple[Array, Array]:
        """Return the weights between the changes of each lane, and their own weights: (r,) u64 each."""
        ...

    def read_positions(
        self, bits: Any, scale: Scale, cuts: Array, tables: tuple[Array, Array], words: Array
    ) -> Elements | None:
        """Decode positions, (r,) u32, and read the elements there; None if the section is not valid.

        Args:
            bits: the elements.
            scale: of all of them.
            cuts: (lanes + 1,) i64, the first position of each lane, and r.
            tables: the cumulative frequencies, and the segment of each 2^20 of them.
            words: (n,) u32, the section's stream.
        """
        ...


@dataclass(frozen=True, eq=False)
class Bits:
    """Bits of a tensor.

    Attributes:
        bits: (size,) unsigned integers of the element's width, in row-major order. On the host, their memory
            begins at a multiple of 8 bytes. A complex number is two of them.
        dtype: the element type.
        shape: the tensor's.
        forms: the operations where the bits are.
        address: of the first element on the host; None if nobody has looked it up.
        is_own: whether the memory is the tensor's, and can be written: no copy, and not read-only.
    """

    bits: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    forms: Forms
    address: int | None = None
    is_own: bool = False

    def part(self, start: int, stop: int) -> Bits:
        """Return some elements, of the same memory."""
        bits = self.bits[start:stop]
        return Bits(bits, self.dtype, (int(bits.size),), self.forms)

    def take(self, indices: Array) -> Array:
        """Return the elements at (r,) u32 positions."""
        return self.forms.take(self.bits, indices)

    def copy_to_host(self) -> Array:
        """Return the elements on the host."""
        return self.forms.copy_to_host(self.bits)


def join_changes(parts: Sequence[Sequence[Array]]) -> Changes:
    """Join changes that follow each other."""
    indices, olds, news = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    return indices, olds, news

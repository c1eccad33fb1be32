"""Bits of a tensor where its memory is, and the operations on them there.

The host has one set of them, ``host.HOST``, and each GPU another one. ``states.find_forms`` chooses.
Positions and values of changed elements, digests and counts are on the host, whichever set it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.scale import Scale


class Forms(Protocol):
    """Protocol of the operations on (size,) unsigned elements in one memory."""

    def settle(self) -> None:
        """Wait for the caller's work on the memory, before threads read it; called in the caller's thread."""
        ...

    def read(self, tensor: Any) -> Bits:
        """Return the bits of a tensor. Raises EncodeError."""
        ...

    def view(self, tensor: Any, dtype: np.dtype[Any]) -> Any:
        """Return the elements of a contiguous tensor if they can be written; None for others."""
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

    def sum_change(self, bits: Any, indices: Array, values: Array) -> int:
        """Return by how much ``sum_elements`` changes if elements at ascending (r,) u32 become ``values``."""
        ...

    def find_changes(self, old: Any, new: Any, *, digests: bool) -> tuple[Array, tuple[int, int]]:
        """Return the positions (r,) u32 of elements that differ, and the sums of both; 0 if not wanted."""
        ...

    def take(self, bits: Any, indices: Array) -> Array:
        """Return the elements at (r,) u32 positions."""
        ...

    def scatter(self, bits: Any, indices: Array, values: Array) -> None:
        """Replace the elements at (r,) u32 positions."""
        ...

    def count_rows(self, bits: Any, shift: int, step: int, rows: int) -> Array:
        """Count the rows, bits >> shift of ``rows``, of every ``step``-th run of 8 elements: (rows,) i64."""
        ...

    def measure_gaps(self, bits: Any, scale: Scale, indices: Array) -> tuple[Array, Array]:
        """Return the weights between the changes of each lane, and their own weights: (r,) u64 each."""
        ...

    def read_positions(
        self, bits: Any, scale: Scale, cuts: Array, tables: tuple[Array, Array], words: Array
    ) -> Array | None:
        """Decode positions, (r,) u32; None if the section is not valid.

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
    """A tensor's bits.

    Attributes:
        bits: (size,) unsigned integers of the element's width, in row-major order. On the host, their memory
            begins at a multiple of 8 bytes. A complex number is two of them.
        dtype: the element type.
        shape: the tensor's.
        forms: the operations where the bits are.
    """

    bits: Any
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    forms: Forms

    def part(self, start: int, stop: int) -> Bits:
        """Return some elements, of the same memory."""
        bits = self.bits[start:stop]
        return Bits(bits, self.dtype, (int(bits.size),), self.forms)

    def take(self, indices: Array) -> Array:
        """Return the elements at (r,) u32 positions."""
        return self.forms.take(self.bits, indices)

    def scatter(self, indices: Array, values: Array) -> None:
        """Replace the elements at (r,) u32 positions, in memory that can be written."""
        self.forms.scatter(self.bits, indices, values)

    def copy_to_host(self) -> Array:
        """Return the elements on the host."""
        return self.forms.copy_to_host(self.bits)

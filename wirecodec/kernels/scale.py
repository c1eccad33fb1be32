"""Scale of weights of elements, of kernels on the host and on a GPU (formats/spec/patch.md, "The scale")."""

from __future__ import annotations

from dataclasses import dataclass

from wirecodec.arrays import Array


@dataclass(frozen=True, eq=False)
class Scale:
    """Weights of the elements of an array, all members on the host.

    Attributes:
        shift: low bits of an element that do not count for its row.
        first: row of the first class.
        table: (65,) u32, the weight of each class, and the mask of rows.
        starts: (lanes + 1,) i64, the first element of each lane, and the number of all.
    """

    shift: int
    first: int
    table: Array
    starts: Array

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return int(self.starts.size) - 1

    @property
    def each(self) -> int:
        """Elements of a lane, but for the last ones."""
        return int(self.starts[1])

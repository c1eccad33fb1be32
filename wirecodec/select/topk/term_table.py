"""Tables of the tensors of which the top k are selected: arrays, or sums of several terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only
from wirecodec.kernels.term_forms import AFTER, GRADIENT, IDENTITY, MOMENTUM, RESIDUAL, SUM, TOTAL

T = TypeVar("T")

MIN_ELEMENTS_PER_THREAD = 2**20
"""Elements below which another thread costs more than it saves."""
MIN_PIECE = 2**16
"""Elements of a piece, if a tensor has more; a multiple of 1024."""
MAX_PART_SIZE = 2**30
"""Elements whose positions are counted in 32 bits."""
_ONES = read_only(np.ones(3))


@dataclass(frozen=True, eq=False)
class TermTable:
    """Terms of n tensors of one type; see ``kernels.term_forms``.

    The caller keeps the arrays alive.

    Attributes:
        addresses: (n, 5) i64: of gradient, momentum, residual, next momentum and sum; 0 for one that the form
            does not use. The last two are aligned to 64 bytes, unless they are only for ``add``.
        sizes: (n,) i64, elements of each, above 0.
        factors: (3,) float64: of the momentum, the gradient and the residual.
        form: IDENTITY, SUM, PLAIN, HEAVY_BALL or NESTEROV.
        dtype: float32 or float64; any element type for IDENTITY.
    """

    addresses: Array
    sizes: Array
    factors: Array
    form: int
    dtype: np.dtype[Any]

    @classmethod
    def of_arrays(cls, addresses: Array, sizes: Array, dtype: np.dtype[Any]) -> TermTable:
        """Return a table of arrays; ``addresses`` is (n,) i64."""
        columns = np.zeros((sizes.size, 5), np.int64)
        columns[:, GRADIENT] = addresses
        return cls(columns, sizes, _ONES, IDENTITY, dtype)

    @classmethod
    def of_sums(cls, addresses: Array, sizes: Array, dtype: np.dtype[Any]) -> TermTable:
        """Return a table of sums; ``addresses`` is (n, 3) i64: of gradient, residual and sum."""
        columns = np.zeros((sizes.size, 5), np.int64)
        columns[:, GRADIENT], columns[:, RESIDUAL], columns[:, TOTAL] = addresses.T
        return cls(columns, sizes, _ONES, SUM, dtype)

    @classmethod
    def of_one(
        cls,
        form: int,
        factors: Array,
        gradient: Array,
        residual: Array,
        total: Array,
        momentum: Array | None = None,
        after: Array | None = None,
    ) -> TermTable:
        """Return a table of one tensor, given as its arrays."""
        columns = np.zeros((1, 5), np.int64)
        columns[0, GRADIENT], columns[0, RESIDUAL] = gradient.ctypes.data, residual.ctypes.data
        columns[0, TOTAL] = total.ctypes.data
        if momentum is not None and after is not None:
            columns[0, MOMENTUM], columns[0, AFTER] = momentum.ctypes.data, after.ctypes.data
        return cls(columns, np.array([gradient.size]), factors, form, gradient.dtype)

    @cached_property
    def starts(self) -> Array:
        """The place of each tensor in the vector of all, (n + 1,) i64."""
        return sum_before(self.sizes)

    @property
    def total(self) -> int:
        """Number of elements of all tensors."""
        return int(self.starts[-1])

    @property
    def samples(self) -> tuple[Array, Array]:
        """Two empty arrays of the type of the elements' bits, for the inputs and the outputs of kernels."""
        return _make_samples(self.dtype)

    def add(self) -> bool:
        """Write all sums and momenta; return whether all sums are finite."""
        from wirecodec.kernels.cpu.select import select_joint

        add, factors = select_joint.add[self.form], read_only(self.factors)
        return all(
            map_pieces(
                lambda pieces: bool(add(self.addresses, self.sizes, factors, pieces, *self.samples)),
                self.sizes,
            )
        )


def sum_before(counts: Array) -> Array:
    """Return the sum of the counts before each one, and of all, (n + 1,) i64."""
    sums = np.zeros(counts.size + 1, np.int64)
    np.cumsum(counts, out=sums[1:])
    return sums


@lru_cache(maxsize=8)
def _make_samples(dtype: np.dtype[Any]) -> tuple[Array, Array]:
    """Make the ``samples`` of an element type."""
    like = bits_of(np.empty(0, dtype))
    return read_only(like), like


def map_pieces(work: Callable[[Array], T], sizes: Array) -> list[T]:
    """Return [work(pieces), ...] over parts of the pieces of tensors, in order, on threads if that pays off.

    A piece is a row (tensor, start, stop) of elements. A part has at most ``MAX_PART_SIZE`` elements.
    """
    from wirecodec.kernels.cpu.threads import map_ranges, thread_count

    pieces, elements = _cut(sizes.tobytes()), int(sizes.sum())
    # No more parts than needed: each has buffers of its own.
    per_thread = max(MIN_ELEMENTS_PER_THREAD, elements // thread_count())
    least = max(1, per_thread * len(pieces) // max(1, elements))
    longest = max(1, MAX_PART_SIZE // MIN_PIECE)

    def run(first: int, last: int) -> list[T]:
        return [work(pieces[at : min(at + longest, last)]) for at in range(first, last, longest)]

    return [part for parts in map_ranges(run, len(pieces), least) for part in parts]


@lru_cache(maxsize=64)
def _cut(sizes: bytes) -> Array:
    """Return the pieces of tensors with these sizes, (m, 3) i64."""
    counts = np.frombuffer(sizes, np.int64)
    parts = -(-counts // MIN_PIECE)
    tensors = np.repeat(np.arange(counts.size), parts)
    first = np.cumsum(parts) - parts
    begins = (np.arange(tensors.size) - first[tensors]) * MIN_PIECE
    return np.stack([tensors, begins, np.minimum(begins + MIN_PIECE, counts[tensors])], axis=1)

"""Tables of the tensors of which the top k are selected: arrays, or sums of several terms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only

T = TypeVar("T")

MIN_ELEMENTS_PER_THREAD = 2**20
"""Elements below which another thread costs more than it saves."""
MIN_PIECE = 2**16
"""Elements of a piece, if a tensor has more; a multiple of 1024."""
MAX_PART_SIZE = 2**30
"""Elements whose positions are counted in 32 bits."""
SWEPT_SHARE, SWEPT_MORE = 1 / 12, 2**15
"""Memory of ``TermTable.add_and_sweep``: a share of all elements, and some."""


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

    @property
    def starts(self) -> Array:
        """The place of each tensor in the vector of all, (n + 1,) i64."""
        return _lay_out(self.sizes.tobytes()).starts

    @property
    def total(self) -> int:
        """Number of elements of all tensors."""
        return _lay_out(self.sizes.tobytes()).places[-1]

    @property
    def samples(self) -> tuple[Array, Array]:
        """Two empty arrays of the type of the elements' bits, for the inputs and the outputs of kernels."""
        return _make_samples(self.dtype)

    def map_parts(self, work: Callable[[Array, int, int], T]) -> list[T]:
        """Return [work(pieces, place, size), ...] over parts, in order, on threads if that pays off.

        A piece is a row (tensor, start, stop) of elements. A part has at most ``MAX_PART_SIZE`` elements;
        ``place`` is its first one's in the vector of all.
        """
        layout = _lay_out(self.sizes.tobytes())
        places, count = layout.places, len(layout.pieces)
        longest = max(1, MAX_PART_SIZE // MIN_PIECE)
        if places[-1] < 2 * MIN_ELEMENTS_PER_THREAD and count <= longest:
            return [work(layout.pieces, 0, places[-1])]
        from wirecodec.kernels.cpu.threads import map_ranges, thread_count

        def run(first: int, last: int) -> list[T]:
            cuts = [*range(first, last, longest), last]
            return [
                work(layout.pieces[start:stop], places[start], places[stop] - places[start])
                for start, stop in pairwise(cuts)
            ]

        # No more parts than needed: each has buffers of its own.
        per_thread = max(MIN_ELEMENTS_PER_THREAD, places[-1] // thread_count())
        parts = map_ranges(run, count, max(1, per_thread * count // places[-1]))
        return [result for part in parts for result in part]

    def add(self) -> bool:
        """Write all sums and momenta; return whether all sums are finite."""
        from wirecodec.kernels.cpu.select import select_joint

        add, factors = select_joint.add[self.form], read_only(self.factors)

        def run(pieces: Array, place: int, size: int) -> bool:
            return bool(add(self.addresses, self.sizes, factors, pieces, *self.samples))

        return all(self.map_parts(run))

    def add_and_sweep(self, low: int) -> tuple[Array, Array] | None:
        """Write all sums and momenta, and collect the sums whose key is ``low`` or more.

        The sums need no alignment.

        Returns the positions in the vector of all tensors, int32, and the bits there; or None, with undefined
        sums and momenta, if they are more than the memory holds.
        """
        from wirecodec.kernels.cpu.select import select_joint, terms

        like, like_out = self.samples
        given = self.addresses, self.sizes, self.starts, read_only(self.factors), low
        sweep = select_joint.add_and_sweep[self.form]

        def run(pieces: Array, place: int, size: int) -> tuple[Array, Array] | None:
            capacity = min(int(SWEPT_SHARE * size) + SWEPT_MORE, size) + terms.SWEEP_SLACK
            found, words = np.empty(capacity, np.int32), np.empty(capacity, like.dtype)
            n = sweep(*given, pieces, place, like, like_out, found, words)
            return None if n < 0 else (found[:n] + np.int32(place) if place else found[:n], words[:n])

        parts = self.map_parts(run)
        if len(parts) == 1:
            return parts[0]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts):
            return None
        return np.concatenate([where for where, _ in found]), np.concatenate([words for _, words in found])


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


@dataclass(frozen=True, eq=False)
class _Layout:
    """Places of tensors, end to end.

    Attributes:
        starts: (n + 1,) i64, of each tensor.
        pieces: (m, 3) i64.
        places: of each piece, and of the end.
    """

    starts: Array
    pieces: Array
    places: list[int]


@lru_cache(maxsize=64)
def _lay_out(sizes: bytes) -> _Layout:
    """Return the layout of tensors with these sizes."""
    counts = np.frombuffer(sizes, np.int64)
    starts, parts = sum_before(counts), -(-counts // MIN_PIECE)
    tensors = np.repeat(np.arange(counts.size), parts)
    begins = (np.arange(tensors.size) - sum_before(parts)[tensors]) * MIN_PIECE
    pieces = np.stack([tensors, begins, np.minimum(begins + MIN_PIECE, counts[tensors])], axis=1)
    return _Layout(starts, pieces, [*(starts[tensors] + begins).tolist(), int(starts[-1])])

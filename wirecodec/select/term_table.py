"""Terms of the sums of many tensors as a table of addresses, and the sums of all of them in one vector."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from wirecodec.arrays import Array, bits_of, read_only

MIN_ELEMENTS_PER_THREAD = 2**20
"""Elements below which another thread costs more than it saves."""
MIN_PIECE = 2**16
"""Elements of a piece, if a tensor has more; a multiple of 1024."""


@dataclass(frozen=True, eq=False)
class TermTable:
    """Terms of x = decay * residual + addend of n tensors of one type; see ``kernels.cpu.select.momentum``.

    The caller keeps the arrays alive.

    Attributes:
        addresses: (n, 5) i64: of gradient, momentum, residual, next momentum and sum; 0 for no momentum. The
            last two are aligned to 64 bytes, unless they are only for ``add``.
        sizes: (n,) i64, elements of each, above 0.
        factors: (3,) float64: of the momentum, the gradient and the residual.
        form: PLAIN, HEAVY_BALL or NESTEROV.
        dtype: float32 or float64.
    """

    addresses: Array
    sizes: Array
    factors: Array
    form: int
    dtype: np.dtype[Any]

    @cached_property
    def starts(self) -> Array:
        """The place of each tensor in the vector of all, (n + 1,) i64."""
        starts = np.zeros(self.sizes.size + 1, np.int64)
        np.cumsum(self.sizes, out=starts[1:])
        return starts

    @property
    def total(self) -> int:
        """Number of elements of all tensors."""
        return int(self.starts[-1])

    @cached_property
    def samples(self) -> tuple[Array, Array]:
        """Two empty arrays of the type of the elements' bits, for the inputs and the outputs of kernels."""
        like = bits_of(np.empty(0, self.dtype))
        return read_only(like), like

    def add(self) -> bool:
        """Write all sums and momenta; return whether all sums are finite."""
        from wirecodec.kernels.cpu.select import momentum_batch

        def run(pieces: Array) -> bool:
            given = self.addresses, self.sizes, read_only(self.factors), max(self.form - 2, 0)
            return bool(momentum_batch.add_group(*given, pieces, *self.samples))

        return all(map_pieces(run, self.sizes))


def map_pieces(work: Any, sizes: Array) -> list[Any]:
    """Return [work(pieces), ...] over parts of the pieces of tensors, in order, on threads if that pays off.

    A piece is a row (tensor, start, stop) of elements.
    """
    from wirecodec.kernels.cpu.threads import map_ranges

    pieces = _cut(sizes.tobytes())
    least = max(1, MIN_ELEMENTS_PER_THREAD * len(pieces) // max(1, int(sizes.sum())))
    found: list[Any] = map_ranges(lambda first, last: work(pieces[first:last]), len(pieces), least)
    return found


@lru_cache(maxsize=64)
def _cut(sizes: bytes) -> Array:
    """Return the pieces of tensors with these sizes, (m, 3) i64."""
    counts = np.frombuffer(sizes, np.int64)
    parts = -(-counts // MIN_PIECE)
    tensors = np.repeat(np.arange(counts.size), parts)
    first = np.cumsum(parts) - parts
    begins = (np.arange(tensors.size) - first[tensors]) * MIN_PIECE
    return np.stack([tensors, begins, np.minimum(begins + MIN_PIECE, counts[tensors])], axis=1)

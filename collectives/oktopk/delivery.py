"""What a rank sends in a step, and what of it reaches the sum: the rest is kept in its residuals.

The compressor has prepared a step that sends s and keeps the rest. The pieces encode v, which is what s was
before the compressor's own value codec, and receivers decode p. The owner of a range drops some elements. So

    residual = v - p    if the owner chose the element        v    if not

of each element that this rank has sent, and an owner also keeps the errors of the sums that it has encoded.
With a filter (beta below 1), v is s, and the same differences are multiplied by beta.

An interrupt may come after the last transfer, when the other ranks take the step. So the residuals are set
when the step is committed, from what has arrived by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from collectives.oktopk.layout import Layout, Sparse, Vector
from collectives.transport.reduce import Dense
from wirecodec.interop import find_members, make_sparse

_Writes = list[tuple[Dense, Dense, Dense]]


@dataclass(frozen=True, eq=False)
class Kept:
    """Elements of a vector that an owner has chosen, and what the encoded sums lack of them.

    Attributes:
        indices: (k,) ascending, in the whole vector.
        errors: (k,) in the unit of this rank's gradient.
    """

    indices: Dense
    errors: Dense


class Delivery:
    """One step of a rank: the values to send, and its residuals after them.

    Args:
        prepared: the step of a Compressor, not committed.
        sent: {name: tensor} that it would send, on the host.
        layout: of the tensors.

    Attributes:
        vectors: {name of a vector: elements to send}.
    """

    def __init__(self, prepared: wc.Prepared, sent: Sparse, layout: Layout) -> None:
        self._prepared, self._layout = prepared, layout
        self._sent = layout.join(sent)
        self._wide = {name: self._find_dtype(vector) for name, vector in layout.vectors.items()}
        self._left = {name: self._read_left(name, vector) for name, vector in layout.vectors.items()}
        self._pieces: Sparse = {}
        self._kept: Mapping[str, Kept] = {}
        self._find_delivered: Callable[[], Mapping[str, Dense]] = dict
        self._writes: _Writes | None = None
        self._remember: Callable[[], None] = lambda: None
        self.vectors = {name: self._restore(name, vector) for name, vector in layout.vectors.items()}

    def find_error(self) -> float | None:
        """Return the relative l2 error with which the compressor would send; None if it is not known."""
        known = [
            (left.astype(float), self.vectors[name].values.astype(float))
            for name, vector in self._layout.vectors.items()
            if (left := self._left[name]) is not None and _beta(vector) == 1
        ]
        largest = max((float(np.abs(x).max(initial=0)) for _, x in known), default=0)
        if not 0 < largest < np.inf:
            return None
        error, norm = (np.linalg.norm(np.concatenate(parts) / largest) for parts in zip(*known, strict=True))
        return float(error / norm)

    def send(self, pieces: Sparse | None) -> None:
        """Note the values that receivers decode; None if they are exact."""
        self._pieces = self.vectors if pieces is None else pieces

    def keep(self, kept: Mapping[str, Kept]) -> None:
        """Note the errors of the sums that this rank has encoded as an owner."""
        self._kept = kept

    def settle_at_commit(
        self, find_delivered: Callable[[], Mapping[str, Dense]], remember: Callable[[], None]
    ) -> None:
        """Let the commit of the step set the residuals.

        Args:
            find_delivered: returns the chosen indices of each vector, (k,) ascending.
            remember: is called afterwards.
        """
        self._find_delivered, self._remember = find_delivered, remember
        self._prepared.amend(self._settle)

    def _find_dtype(self, vector: Vector) -> np.dtype[Any]:
        """Return the widest type of the residuals."""
        residuals = [self._prepared.residuals.get(name) for name in vector.names]
        return np.result_type(vector.dtype, np.float32, *(x.dtype for x in residuals if x is not None))

    def _read_left(self, name: str, vector: Vector) -> Dense | None:
        """Return what the compressor keeps of the elements that it sends; None if that is nothing."""
        residuals, sent = self._prepared.residuals, self._sent[name]
        if vector.rule is None or all(residuals.get(one) is None for one in vector.names):
            return None
        if vector.is_exact and _beta(vector) == 1 and self._wide[name] == vector.dtype:
            return None  # x - x
        left = np.zeros(sent.nnz, self._wide[name])
        for one, part, start in vector.cut(sent.indices):
            residual = residuals.get(one)
            if residual is not None and part.start < part.stop:
                left[part] = residual[sent.indices[part] - start]
        return left if left.any() else None

    def _restore(self, name: str, vector: Vector) -> wc.SparseTensor:
        """Return a vector with the values before they were encoded, rounded to its type."""
        left, sent = self._left[name], self._sent[name]
        if left is None or _beta(vector) != 1:
            return sent
        largest = left.dtype.type(ml_dtypes.finfo(vector.dtype).max)
        values = sent.values.astype(left.dtype)
        values += left
        np.clip(values, -largest, largest, out=values)
        indices = None if sent.is_full else sent.indices
        return make_sparse(indices, values.astype(vector.dtype, copy=False), sent.shape)

    def _settle(self) -> None:
        if self._writes is None:
            delivered = self._find_delivered()
            self._writes = [
                write
                for name, vector in self._layout.vectors.items()
                if vector.rule is not None
                for write in self._list_writes(name, vector, delivered[name])
            ]
        for residual, indices, values in self._writes:  # again the same, if an interrupt comes between two
            residual[indices] = values
        self._remember()

    def _list_writes(self, name: str, vector: Vector, delivered: Dense) -> _Writes:
        """Return the elements of the residuals that change, with their values."""
        sent, left, kept = self._sent[name], self._left[name], self._kept.get(name)
        wide = self._wide[name]
        indices, beta, largest = sent.indices, wide.type(_beta(vector)), np.finfo(wide).max
        rest = sent.values.astype(wide)
        if beta == 1 and left is not None:
            rest += left
        arrived = find_members(delivered, indices)
        np.subtract(rest, self._pieces[name].values.astype(wide, copy=False), out=rest, where=arrived)
        if beta != 1:
            rest = rest * beta + (0 if left is None else left)
        writes = self._divide(vector, indices, np.clip(rest, -largest, largest, out=rest))
        if kept is not None and kept.errors.any():
            own = find_members(indices, kept.indices)
            before = np.empty(kept.indices.size, wide)
            for one, part, start in vector.cut(kept.indices):
                if part.start < part.stop:
                    before[part] = self._residual(vector, one)[kept.indices[part] - start]
            before[own] = rest[find_members(kept.indices, indices)]
            before += beta * kept.errors.astype(wide)
            writes += self._divide(vector, kept.indices, np.clip(before, -largest, largest, out=before))
        return writes

    def _divide(self, vector: Vector, indices: Dense, values: Dense) -> _Writes:
        return [
            (self._residual(vector, name), indices[part] - indices.dtype.type(start), values[part])
            for name, part, start in vector.cut(indices)
            if part.start < part.stop
        ]

    def _residual(self, vector: Vector, name: str) -> Dense:
        return self._prepared.own_residual(name, vector.sizes[name], vector.dtype)


def _beta(vector: Vector) -> float:
    return float(vector.rule.beta) if isinstance(vector.rule, wc.ErrorFeedback) else 1.0


def join_supports(
    decoded: Sequence[Sparse], ranges: Sequence[Mapping[str, tuple[int, int]]], layout: Layout
) -> dict[str, Dense]:
    """Return the indices of each vector that all owners have chosen, ascending."""
    parts: dict[str, list[Dense]] = {
        name: [np.empty(0, vector.index_dtype)] for name, vector in layout.vectors.items()
    }
    for tensors, own in zip(decoded, ranges, strict=True):
        for name, (start, _) in own.items():
            dtype = layout.vectors[name].index_dtype
            parts[name].append(tensors[name].indices.astype(dtype) + dtype.type(start))
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}

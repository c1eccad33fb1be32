"""What a rank sends in a step, and what of it reaches the sum: the rest is kept in its residuals.

The compressor has prepared a step that sends ``sent`` and keeps x - sent. The pieces encode other values p at
the same elements, and the owner of a range drops some of them. So of each element that this rank has sent,

    residual = x - p    if the owner chose it            x    if not

and an owner also keeps the errors of the sums that it has encoded. With a filter (beta below 1), the same
differences are multiplied by beta. An interrupt may come after the last transfer, when the other ranks take
the step: so the residuals are set when the step is committed, from what has arrived by then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

import wirecodec as wc
from collectives.exchange.specs import TensorSpec
from collectives.transport.reduce import Dense
from wirecodec.interop import make_sparse

Sparse = Mapping[str, wc.SparseTensor]
_Writes = list[tuple[Any, Dense, Dense]]


@dataclass(frozen=True, eq=False)
class Kept:
    """Elements of a tensor that an owner has chosen, and what the encoded sums lack of them.

    Attributes:
        indices: (k,) ascending, in the whole tensor.
        errors: (k,) in the unit of this rank's gradient.
    """

    indices: Dense
    errors: Dense


class Delivery:
    """One step of a rank: the values to send, and its residuals after them.

    Args:
        prepared: the step of a Compressor, not committed.
        sent: {name: tensor} that it would send, on the host.
        rules: {name: feedback}; None for a tensor of which no residual is kept.
        specs: {name: (shape, dtype)}.
    """

    def __init__(
        self,
        prepared: wc.Prepared,
        sent: Sparse,
        rules: Mapping[str, Any],
        specs: Mapping[str, TensorSpec],
    ) -> None:
        self._prepared, self._sent, self._rules, self._specs = prepared, sent, rules, specs
        self._left = {name: self._read_left(name, tensor.indices) for name, tensor in sent.items()}
        self._pieces: Sparse = {}
        self._kept: Mapping[str, Kept] = {}
        self._find_delivered: Callable[[], Mapping[str, Dense]] = dict
        self._writes: _Writes | None = None
        self._remember: Callable[[], None] = lambda: None
        self.tensors = {name: self._restore(name, tensor) for name, tensor in sent.items()}

    def find_error(self) -> float | None:
        """Return the relative l2 error with which the compressor would send; None if it is not known."""
        known = [
            (left.astype(float), x.values.astype(float))
            for name, x in self.tensors.items()
            if (left := self._left[name]) is not None and self._beta(name) == 1
        ]
        largest = max((float(np.abs(x).max(initial=0)) for _, x in known), default=0)
        if not 0 < largest < np.inf:
            return None
        error, norm = (np.linalg.norm(np.concatenate(parts) / largest) for parts in zip(*known, strict=True))
        return float(error / norm)

    def send(self, pieces: Sparse | None) -> None:
        """Note the values that receivers decode; None if they are exact."""
        self._pieces = self.tensors if pieces is None else pieces

    def keep(self, kept: Mapping[str, Kept]) -> None:
        """Note the errors of the sums that this rank has encoded as an owner."""
        self._kept = kept

    def settle_at_commit(
        self, find_delivered: Callable[[], Mapping[str, Dense]], remember: Callable[[], None]
    ) -> None:
        """Let the commit of the step set the residuals.

        Args:
            find_delivered: returns the chosen indices of each tensor, (k,) ascending.
            remember: is called afterwards.
        """
        self._find_delivered, self._remember = find_delivered, remember
        self._prepared.amend(self._settle)

    def _beta(self, name: str) -> float:
        rule = self._rules[name]
        return float(rule.beta) if isinstance(rule, wc.ErrorFeedback) else 1.0

    def _read_left(self, name: str, indices: Dense) -> Dense | None:
        """Return what the compressor keeps of the elements that it sends; None if it keeps no residual."""
        residual = self._prepared.residuals.get(name)
        return None if residual is None else residual[indices]

    def _restore(self, name: str, tensor: wc.SparseTensor) -> wc.SparseTensor:
        """Return a tensor with the values before they were encoded, rounded to its type."""
        left = self._left[name]
        if left is None or self._beta(name) != 1 or not left.any():
            return tensor
        largest = left.dtype.type(ml_dtypes.finfo(tensor.dtype).max)
        values = np.clip(tensor.values.astype(left.dtype) + left, -largest, largest).astype(tensor.dtype)
        return make_sparse(None if tensor.is_full else tensor.indices, values, tensor.shape)

    def _settle(self) -> None:
        if self._writes is None:
            delivered = self._find_delivered()
            self._writes = [
                write for name in self._sent for write in self._list_writes(name, delivered[name])
            ]
        for residual, indices, values in self._writes:  # again the same, if an interrupt comes between two
            residual[indices] = values
        self._remember()

    def _list_writes(self, name: str, delivered: Dense) -> _Writes:
        """Return the elements of a tensor's residual that change, with their values."""
        if self._rules[name] is None:
            return []
        tensor, kept = self._sent[name], self._kept.get(name)
        shape, gradient = self._specs[name]
        residual, left = self._prepared.own_residual(name, prod(shape), gradient), self._left[name]
        dtype, indices = residual.dtype, tensor.indices
        rest = tensor.values.astype(dtype)
        piece = self._pieces[name].values.astype(dtype)
        beta = dtype.type(self._beta(name))
        if beta == 1 and left is not None:
            rest += left
        arrived = contains(delivered, indices)
        rest -= np.where(arrived, piece, dtype.type(0))
        if beta != 1:
            rest = rest * beta + (0 if left is None else left)
        largest = np.finfo(dtype).max
        rest = np.clip(rest, -largest, largest)
        writes = [(residual, indices, rest)]
        if kept is not None and kept.indices.size:
            own = contains(indices, kept.indices)
            before = residual[kept.indices]
            before[own] = rest[np.searchsorted(indices, kept.indices[own])]
            sums = before + beta * kept.errors.astype(dtype)
            writes.append((residual, kept.indices, np.clip(sums, -largest, largest)))
        return writes


def contains(members: Dense, indices: Dense) -> Dense:
    """Return (k,) bool, which of ascending indices are among ascending members."""
    if not members.size:
        return np.zeros(indices.size, bool)
    at = np.searchsorted(members, indices.astype(members.dtype, copy=False))
    at[at == members.size] = 0
    found: Dense = members[at] == indices
    return found


def join_supports(
    decoded: Sequence[Sparse], ranges: Sequence[Mapping[str, tuple[int, int]]], names: Sequence[str]
) -> dict[str, Dense]:
    """Return the indices of each tensor that all owners have chosen, ascending."""
    parts: dict[str, list[Dense]] = {name: [np.empty(0, np.int64)] for name in names}
    for tensors, own in zip(decoded, ranges, strict=True):
        for name, (start, _) in own.items():
            parts[name].append(tensors[name].indices.astype(np.int64) + start)
    return {name: np.concatenate(arrays) for name, arrays in parts.items()}

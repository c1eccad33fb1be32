"""Layout: tensors of one type, value codec and feedback are one vector, so that a piece has few entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.exchange.specs import TensorSpec
from collectives.transport.reduce import Dense
from wirecodec.interop import index_dtype, make_sparse

Sparse = Mapping[str, wc.SparseTensor]


@dataclass(frozen=True, eq=False)
class Vector:
    """Tensors that are one vector, one after another.

    Attributes:
        dtype: of their elements.
        codec: of their values, in pieces and sums.
        is_exact: whether the compressor sends exact values.
        rule: their feedback, or None.
        names: of the tensors.
        starts: (n + 1,) int64, where the tensors begin and the last one ends.
    """

    dtype: np.dtype[Any]
    codec: Any
    is_exact: bool
    rule: Any
    names: tuple[str, ...]
    starts: Dense

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.starts[-1])

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of elements of each tensor."""
        return dict(zip(self.names, np.diff(self.starts).tolist(), strict=True))

    @property
    def index_dtype(self) -> np.dtype[Any]:
        """Type of indices, as in a SparseTensor."""
        return index_dtype(self.size)

    def join(self, tensors: Sparse) -> wc.SparseTensor:
        """Return the stored elements of all tensors as one flat tensor."""
        parts = [tensors[name] for name in self.names]
        values = [part.values for part in parts]
        joined = values[0] if len(values) == 1 else np.concatenate(values)
        if all(part.is_full for part in parts):
            return make_sparse(None, joined, (self.size,))
        if len(parts) == 1:
            return make_sparse(parts[0].indices, joined, (self.size,))
        indices, end = np.empty(joined.size, self.index_dtype), 0
        for part, start in zip(parts, self.starts.tolist(), strict=False):
            here = slice(end, end := end + part.nnz)
            np.add(part.indices, start, out=indices[here], casting="unsafe")
        return make_sparse(indices, joined, (self.size,))

    def cut(self, indices: Dense) -> Iterator[tuple[str, slice, int]]:
        """Cut ascending (k,) indices; yield each tensor's name, its part of them, and where it begins."""
        cuts = np.searchsorted(indices, self.starts.astype(indices.dtype)).tolist()
        if self.size > np.iinfo(indices.dtype).max:  # the end does not fit
            cuts[-1] = indices.size
        for name, begin, end, start in zip(self.names, cuts, cuts[1:], self.starts.tolist(), strict=False):
            yield name, slice(begin, end), start


@dataclass(frozen=True, eq=False)
class Layout:
    """Vectors by name, in the order of their first tensors."""

    vectors: Mapping[str, Vector]

    @classmethod
    def of(
        cls,
        specs: Mapping[str, TensorSpec],
        codecs: Mapping[str, Any],
        exact: Mapping[str, bool],
        rules: Mapping[str, Any],
    ) -> Layout:
        """Group tensors, in the order of their names' UTF-8 bytes.

        Args:
            specs: {name: (shape, dtype)}.
            codecs: {name: value codec}.
            exact: {name: whether the compressor sends exact values}.
            rules: {name: feedback or None}.
        """
        groups: dict[Any, list[str]] = {}
        for name in sorted(specs, key=str.encode):
            kind = specs[name][1], repr(codecs[name]), exact[name], repr(rules[name])
            groups.setdefault(kind, []).append(name)
        vectors = {}
        for number, names in enumerate(groups.values()):
            first = names[0]
            starts = np.cumsum([0] + [prod(specs[name][0]) for name in names], dtype=np.int64)
            vectors[f"{number:06}"] = Vector(
                specs[first][1], codecs[first], exact[first], rules[first], tuple(names), starts
            )
        return cls(vectors)

    @property
    def specs(self) -> dict[str, TensorSpec]:
        """{name: (shape, dtype)} of the vectors."""
        return {name: ((vector.size,), vector.dtype) for name, vector in self.vectors.items()}

    def join(self, tensors: Sparse) -> dict[str, wc.SparseTensor]:
        """Return the stored elements of all vectors."""
        return {name: vector.join(tensors) for name, vector in self.vectors.items()}

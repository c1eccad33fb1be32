"""Selected elements of a tensor, decoded chunks, planned sections of many tensors, and sizes of supports."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.tensors import as_bytes


@dataclass(frozen=True, eq=False)
class SharedEntries:
    """Entries that a selector has encoded for several tensors together.

    Attributes:
        entries: of key 0, for all tensors end to end.
        count: number of the tensors.
    """

    entries: Sequence[Any]
    count: int


@dataclass(frozen=True, eq=False)
class JoinedVector:
    """Several tensors that are transformed as one vector; an instance identifies it.

    Attributes:
        sizes: elements of each member.
    """

    sizes: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Support:
    """Selected elements of one tensor, or selected coefficients of its transform.

    Attributes:
        indices: (r,) ascending, or None for all of ``size``.
        values: (r,) at the indices.
        size: number of elements, or of coefficients.
        shape: the tensor's.
        source: function of ascending element numbers that returns their values; None if all elements that
            were not selected are 0.
        domain: the transform's domain; 0 without a transform.
        coefficients_of: the tensor's element type if there is a transform.
        step: width of the value codec's cells, if the selector chose it.
        entries: the entries of key 0, if the selector has encoded them.
        finite: whether the values are known to be finite.
        shared: the entries of a group of which this tensor is a part, if the selector has encoded them.
        vector: the vector that this tensor is a member of, if several are transformed as one. Each member has
            the coefficients of the whole vector.
    """

    indices: Array | None
    values: Array
    size: int
    shape: tuple[int, ...]
    source: Callable[[Array], Array] | None = None
    domain: int = 0
    coefficients_of: np.dtype[Any] | None = None
    step: float | None = None
    entries: Sequence[Any] | None = None
    finite: bool = False
    shared: SharedEntries | None = None
    vector: JoinedVector | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The tensor's element type."""
        return self.values.dtype if self.coefficients_of is None else self.coefficients_of

    @property
    def width(self) -> int:
        """Numbers per value: 2 for complex coefficients, else 1."""
        return 2 if self.domain and self.values.dtype.kind == "c" else 1

    def at(self, where: Array) -> Array:
        """Return the tensor's values at (n,) ascending element numbers, selected or not."""
        if self.source is not None:
            return self.source(where)
        if self.indices is None:
            return self.values[where]
        values: Array = np.zeros(where.size, self.values.dtype)
        if self.indices.size:
            slots = np.searchsorted(self.indices, where.astype(self.indices.dtype, copy=False))
            slots[slots == self.indices.size] = 0
            stored = self.indices[slots] == where
            values[stored] = self.values[slots[stored]]
        return values


@dataclass(frozen=True, eq=False)
class SectionBatch:
    """Sections of many tensors that one call writes, after their lengths are known.

    Attributes:
        wire_id: of the codec, or (n,) u8.
        lengths: (n,) i64 bytes per section.
        write: writes the sections into (m,) u32, a container; its argument ``starts`` is (n,) i64, the first
            word of each section.
    """

    wire_id: int | Array
    lengths: Array
    write: Callable[[Array, Array], None]

    @classmethod
    def join(cls, chosen: Sequence[tuple[Any, Bytes]]) -> SectionBatch:
        """Join sections, each given with its codec, to a batch."""
        wire_ids = np.array([codec.wire_id for codec, _ in chosen], np.uint8)
        sections = [as_bytes(section) for _, section in chosen]
        lengths = np.array([section.size for section in sections], np.int64)
        return cls.of_slices(wire_ids, np.concatenate(sections), np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def of_slices(cls, wire_id: int | Array, source: Bytes, places: Array, lengths: Array) -> SectionBatch:
        """Return the batch of sections that are parts of ``source``, at (n,) i64 places."""
        from wirecodec.kernels.cpu import support

        def write(words: Array, starts: Array) -> None:
            support.copy_slices(read_only(source), places, lengths, words.view(np.uint8), starts * 4)

        return cls(wire_id, lengths, write)


def slice_sections(words: Array, starts: Array, lengths: Array) -> list[Bytes]:
    """Return a read-only view of each section's bytes.

    Args:
        words: (m,) u32, the container.
        starts: (n,) i64, the first word of each section.
        lengths: (n,) i64, bytes of each section.
    """
    data = read_only(words).view(np.uint8)
    pairs = zip((starts * 4).tolist(), lengths.tolist(), strict=True)
    return [data[start : start + length] for start, length in pairs]


@dataclass(frozen=True, eq=False, slots=True)
class DecodedChunk:
    """Decoded chunk of a tensor.

    Attributes:
        base: number of its first element.
        d: number of elements.
        indices: (r,) u32, counted from ``base``, or None for all.
        values: (r,).
        work: steps of its index codec beyond its bytes and r.
    """

    base: int
    d: int
    indices: Array | None
    values: Array
    work: int = 0


def estimate_index_bytes(stored: float, elements: float) -> float:
    """Estimate the bytes per index: the entropy of uniformly random indices plus 2 %.

    Args:
        stored: number of indices.
        elements: number of elements that they are drawn from.
    """
    density = min(stored / elements, 1.0) if elements else 0.0
    if not 0 < density < 1:
        return 0.0
    entropy = -(density * math.log2(density) + (1 - density) * math.log2(1 - density))
    return 1.02 * entropy / density / 8


def estimate_union(elements: float, stored: Sequence[float]) -> float:
    """Estimate the size of the union of independent random sets.

    Args:
        elements: number of elements to draw from.
        stored: size of each set.
    """
    missed = 1.0  # probability that no set has an element
    for count in stored:
        missed *= 1 - count / elements if elements else 1.0
    return elements * (1 - missed)

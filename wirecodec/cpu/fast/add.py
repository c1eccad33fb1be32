"""Adding of decoded values of several containers into many arrays, by one kernel call (``cpu.add``)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from wirecodec.arrays import Array, Bytes
from wirecodec.container.reader import ContainerHeader
from wirecodec.container.schema import MAX_OBJECTS
from wirecodec.cpu.columns import ArrayColumns, DecodedBatch, Targets
from wirecodec.cpu.decode import decode_entries
from wirecodec.cpu.fast.headers import describe
from wirecodec.cpu.sent import SentTensors
from wirecodec.limits import DecodeLimits
from wirecodec.support import DecodedChunk

MIN_ADDED_PER_THREAD = 2**15
"""Values to add that justify another thread."""
RANGE = 2**18
"""Elements of an array that one thread adds to at a time."""


@dataclass(frozen=True, eq=False)
class Parts:
    """Decoded values of tensors as rows, each a part of one tensor.

    Attributes:
        rows: (p, 7) i64: key; first element; number of elements; number of values; address of the u32
            indices, or 0 if all elements are stored; the index of the first element; address of the values.
        arrays: the arrays with these addresses, which they keep alive.
    """

    rows: Array
    arrays: tuple[Any, ...]

    @classmethod
    def of_batch(
        cls, batch: DecodedBatch, keys: Array, bases: Any, sizes: Array, dtype: np.dtype[Any]
    ) -> Parts:
        """Describe a batch.

        Args:
            batch: decoded entries, n of them.
            keys, sizes: (n,) of their tensors, and their elements.
            bases: (n,) their first elements, or one number.
            dtype: in which the values are added.
        """
        values = _convert(batch.values, dtype)
        rows = np.zeros((batch.counts.size, 7), np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2], rows[:, 3] = keys, bases, sizes, batch.counts
        if batch.indices is not None:
            rows[:, 4] = _address(batch.indices) + 4 * batch.index_places
        rows[:, 6] = _address(values) + batch.value_places * values.itemsize
        return cls(rows, (batch.indices, values))

    @classmethod
    def of_chunk(
        cls, key: int, chunk: DecodedChunk, dtype: np.dtype[Any], members: Array | None = None
    ) -> Parts:
        """Describe a chunk of one tensor, or of several that share it: (n, 2) rows of key and size."""
        indices, values = chunk.indices, np.ascontiguousarray(_convert(chunk.values, dtype))
        first = 0 if indices is None else _address(indices)
        if members is None:
            row = key, chunk.base, chunk.d, values.size, first, 0, _address(values)
            return cls(np.array([row], np.int64), (indices, values))
        edges = np.cumsum([0, *members[:, 1]])
        cuts = edges if indices is None else np.searchsorted(indices, edges.astype(np.uint32))
        rows = np.zeros((members.shape[0], 7), np.int64)
        rows[:, 0], rows[:, 2], rows[:, 3] = members[:, 0], members[:, 1], np.diff(cuts)
        if indices is not None:
            rows[:, 4], rows[:, 5] = first + 4 * cuts[:-1], edges[:-1]
        rows[:, 6] = _address(values) + cuts[:-1] * values.itemsize
        return cls(rows, (indices, values))

    @classmethod
    def join(cls, parts: Iterable[Parts]) -> Parts:
        """Return the rows of several in one."""
        listed = list(parts)
        if len(listed) == 1:
            return listed[0]
        rows = np.concatenate([np.empty((0, 7), np.int64), *(part.rows for part in listed)])
        return cls(rows, tuple(array for part in listed for array in part.arrays))


@dataclass(frozen=True, eq=False)
class SumTargets:
    """Arrays to which one kernel call can add: of one type, and apart.

    Attributes:
        columns: their addresses and sizes, by key.
        dtype: float32 or float64.
        arrays: as given.
    """

    columns: ArrayColumns
    dtype: np.dtype[Any]
    arrays: Sequence[Array]

    @classmethod
    def of(cls, targets: Targets) -> SumTargets | None:
        """Describe arrays; return None if they have several types, or overlap."""
        if not targets.arrays:
            return None
        columns, dtype = targets.columns or describe(targets.arrays), targets.arrays[0].dtype
        kind = columns.kinds[0]
        order = np.argsort(columns.addresses, kind="stable")
        starts = columns.addresses[order]
        stops = starts + columns.sizes[order] * dtype.itemsize
        if kind < 0 or (columns.kinds != kind).any() or (starts[1:] < stops[:-1]).any():
            return None
        return cls(columns, dtype, targets.arrays)

    def decode(
        self, data: Bytes, header: ContainerHeader, limits: DecodeLimits, batches: Sequence[DecodedBatch]
    ) -> Parts | None:
        """Decode the entries that no batch has, and describe all.

        Returns None if they are too many for objects, and for a container with transforms.
        """
        table, done, parts = header.table, np.zeros(header.table.size, np.bool_), list[Parts]()
        for batch in batches:
            done[batch.entries] = True
        if header.extension.is_transformed or table.size - np.count_nonzero(done) > MAX_OBJECTS:
            return None
        groups = {int(group[0, 0]): group for group in header.extension.groups()}
        for batch in batches:
            keys = table["key"][batch.entries]
            shared = np.isin(keys, list(groups)) if groups else np.zeros(0, np.bool_)
            for slot in np.flatnonzero(shared).tolist():
                chunk = batch.get_chunk(slot, table[batch.entries[slot]])
                parts.append(Parts.of_chunk(int(keys[slot]), chunk, self.dtype, groups[int(keys[slot])]))
            own = batch.only(~shared) if shared.any() else batch
            rows = table[own.entries]
            parts.append(Parts.of_batch(own, rows["key"], rows["base"], rows["d"], self.dtype))
        for entry, chunk in decode_entries(data, header, limits, done=done):
            key = int(table["key"][entry])
            parts.append(Parts.of_chunk(key, chunk, self.dtype, groups.get(key)))
        return Parts.join(parts)

    def of_sent(self, sent: Any) -> Parts | None:
        """Describe the tensors of a container of this process.

        Returns None for anything else, and if receivers decode more than this process knows.
        """
        known = sent.known_values() if isinstance(sent, SentTensors) else None
        if known is None:
            return None
        chunks, batches = known
        return Parts.join(
            [
                *(Parts.of_chunk(key, chunk, self.dtype, members) for key, chunk, members in chunks),
                *(Parts.of_batch(batch, keys, 0, sizes, self.dtype) for batch, keys, sizes in batches),
            ]
        )

    def add(self, decoded: Sequence[Parts], scales: Sequence[float], divisor: float | None = None) -> bool:
        """Add scale * values, those of a tensor in the order of their rows; then divide the sums.

        Args:
            decoded: parts of one container after another.
            scales: the factor of each container.
            divisor: of the sums, or None. Elements that no part stores are +0 then, and are not divided.

        Returns:
            Whether all quotients are finite; True without a divisor.
        """
        from wirecodec.kernels.cpu import support
        from wirecodec.kernels.cpu.threads import least_units, run_parallel

        parts = Parts.join(decoded)
        rows = parts.rows
        factors = np.repeat(np.array(scales, self.dtype), [one.rows.shape[0] for one in decoded])
        stored = int(rows[:, 3].sum())
        if not stored:
            return True
        # The sort is stable, so the containers of a chunk stay in their order.
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        rows, factors = rows[order], factors[order]
        keys, bases = rows[:, 0], rows[:, 1]
        if (bases + rows[:, 2] > self.columns.sizes[keys]).any():
            raise ValueError("a part is longer than its array")
        begins = np.ones(keys.size, np.bool_)
        begins[1:] = (keys[1:] != keys[:-1]) | (bases[1:] != bases[:-1])
        firsts = np.flatnonzero(begins)
        arrays = np.zeros((firsts.size + 1, 3), np.int64)
        arrays[:-1, 0] = self.columns.addresses[keys[firsts]] + bases[firsts] * self.dtype.itemsize
        arrays[:-1, 1], arrays[:-1, 2], arrays[-1, 2] = rows[firsts, 2], firsts, keys.size
        ranges = _divide_into_ranges(arrays[:-1, 1])
        table = np.ascontiguousarray(rows[:, [4, 5, 6, 3]])
        finite, like = np.ones(firsts.size, np.bool_), np.empty(0, self.dtype)
        numbers = factors, self.dtype.type(divisor or 0), like, finite
        least = least_units(MIN_ADDED_PER_THREAD, ranges.shape[0], stored)
        run_parallel(partial(support.add_parts, ranges, arrays, table, *numbers), ranges.shape[0], least)
        return bool(finite.all())


def _divide_into_ranges(sizes: Array) -> Array:
    """Divide arrays into ranges of at most ``RANGE`` elements, (m, 3): number, first and end."""
    if sizes.max() <= RANGE:
        ranges = np.zeros((sizes.size, 3), np.int64)
        ranges[:, 0], ranges[:, 2] = np.arange(sizes.size), sizes
        return ranges
    counts = np.maximum(-(-sizes // RANGE), 1)
    numbers = np.repeat(np.arange(sizes.size), counts)
    places = np.arange(numbers.size) - np.repeat(np.cumsum(counts) - counts, counts)
    ranges = np.empty((numbers.size, 3), np.int64)
    ranges[:, 0], ranges[:, 1] = numbers, places * RANGE
    np.minimum(ranges[:, 1] + RANGE, sizes[numbers], out=ranges[:, 2])
    return ranges


def _convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """Round values to a type; overflow gives Inf, as IEEE 754 has it."""
    with np.errstate(all="ignore"):
        return values.astype(dtype, copy=False)


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address

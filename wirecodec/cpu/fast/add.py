"""Adding of many decoded entries, of one container or of several, by one kernel call (``cpu.decode.add``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cpu.fast.columns import Targets, describe
from wirecodec.cpu.fast.decode import DecodedBatch

MIN_ADDED_PER_THREAD = 2**15
"""Values to add that justify another thread."""


@dataclass(frozen=True, eq=False)
class DecodedContainer:
    """Decoded entries of a container without transforms and fused entries.

    Attributes:
        table: its table.
        batches: all its entries that store an element.
    """

    table: Array
    batches: Sequence[DecodedBatch]


def add_batches(containers: Sequence[DecodedContainer], targets: Targets, scale: float) -> bool:
    """Add scale * values of containers, in their order, into flat arrays.

    Args:
        containers: of the same tensors.
        targets: one array per tensor, in the order of the keys.
        scale: the factor.

    Returns False, with no change, if the arrays overlap or if their types differ from the values'.
    """
    from wirecodec.kernels.cpu import support
    from wirecodec.kernels.cpu.threads import least_units, run_parallel

    if not targets.arrays:
        return True
    dtype = targets.arrays[0].dtype
    batches = [batch for container in containers for batch in container.batches]
    arrays = targets.columns or describe(targets.arrays)
    if any(batch.values.dtype != dtype for batch in batches) or (arrays.kinds != arrays.kinds[0]).any():
        return False
    first, elements = arrays.addresses, arrays.sizes
    order = np.argsort(first, kind="stable")
    stops = first + elements * dtype.itemsize
    if arrays.kinds[0] < 0 or (first[order][1:] < stops[order][:-1]).any() or not batches:
        return False
    tables = [(container.table, batch.entries) for container in containers for batch in container.batches]
    keys, bases, sizes = (
        np.concatenate([table[name][entries] for table, entries in tables]).astype(np.int64)
        for name in ("key", "base", "d")
    )
    if (bases + sizes > elements[keys]).any():
        return False
    counts = np.concatenate([batch.counts for batch in batches])
    index_addresses = np.concatenate([_index_addresses(batch) for batch in batches])
    value_addresses = np.concatenate(
        [
            batch.values.__array_interface__["data"][0] + batch.value_places * dtype.itemsize
            for batch in batches
        ]
    )
    # The sort is stable, so the containers of a chunk stay in their order.
    chunks = np.lexsort((bases, keys))
    keys, bases = keys[chunks], bases[chunks]
    begins = np.flatnonzero(np.r_[True, (keys[1:] != keys[:-1]) | (bases[1:] != bases[:-1])])
    addresses = (first[keys] + bases * dtype.itemsize)[begins]
    sizes = sizes[chunks][begins]
    parts = np.r_[begins, keys.size]
    columns = (index_addresses[chunks], value_addresses[chunks], counts[chunks])
    like = np.empty(0, dtype)
    run_parallel(
        lambda turns: support.add_parts(addresses, sizes, parts, *columns, dtype.type(scale), like, turns),
        sizes.size,
        least_units(MIN_ADDED_PER_THREAD, sizes.size, int(counts.sum())),
    )
    return True


def _index_addresses(batch: DecodedBatch) -> Array:
    """Return the address of each entry's indices, (n,) i64; 0 if all elements are stored."""
    if batch.indices is None:
        return np.zeros(batch.counts.size, np.int64)
    addresses: Array = batch.indices.__array_interface__["data"][0] + 4 * batch.index_places
    return addresses

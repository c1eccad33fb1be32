"""A Compressor's step for many tensors: sums and selections, and the residuals that are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import DTYPES, Array, addresses_of, aligned, read_only
from wirecodec.cpu.batch.decode import DecodedBatch
from wirecodec.cpu.batch.selection import SelectedBatch, group_tensors
from wirecodec.cpu.columns import ArrayColumns, describe
from wirecodec.settings.scheme import Scheme
from wirecodec.support import Support

MIN_SELECTED_PER_THREAD = 2**14
"""Selected elements of a batch that justify another thread."""


@dataclass(frozen=True, eq=False)
class SumBatch:
    """Selected elements of many sums of gradient and residual.

    Attributes:
        selected: the elements.
        rests: the sums, in the order of the keys; the values at the selected elements do not matter.
        addresses: (n,) i64, of these arrays.
    """

    selected: SelectedBatch
    rests: Sequence[Array]
    addresses: Array

    @classmethod
    def of(
        cls, selected: SelectedBatch, rests: Sequence[Array], addresses: Array, members: Array
    ) -> SumBatch:
        """Build a batch from those of the sums and their addresses that a selector has taken."""
        return cls(selected, [rests[member] for member in members.tolist()], addresses[members])


def select_sums(
    gradients: ArrayColumns,
    residuals: Sequence[Array | None],
    spares: Sequence[Array | None],
    schemes: Sequence[Scheme],
    thresholds: Array,
) -> list[SumBatch]:
    """Add residuals and select, for the tensors that a batch can take.

    Args:
        gradients: columns of all tensors, by key.
        residuals: by key; None for a tensor that is left out. Their sizes and types may differ from the
            gradients', too.
        spares: by key, memory for the sums; None for new memory.
        schemes: by key.
        thresholds: (n,) u64 by key, from ``LastThresholds``; overwritten.
    """
    held = describe(residuals)
    alike = (held.kinds == gradients.kinds) & (held.sizes == gradients.sizes)
    batches = []
    for scheme, dtype, keys in group_tensors(schemes, np.where(alike, held.kinds, -1), "select_sum_batch"):
        if dtype.name not in ("float32", "float64"):
            continue
        sizes = gradients.sizes[keys]
        rests, addresses = take_memory([spares[key] for key in keys.tolist()], sizes, dtype)
        columns = np.stack([gradients.addresses[keys], held.addresses[keys], addresses], axis=1)
        selector: Any = scheme.select
        guesses = thresholds[keys]
        found = selector.select_sum_batch(columns, sizes, dtype, guesses)
        thresholds[keys] = guesses
        if found is not None:
            selected = SelectedBatch.of(scheme, keys, sizes, found)
            batches.append(SumBatch.of(selected, rests, addresses, found.members))
    return batches


def take_memory(spares: list[Array | None], sizes: Array, dtype: np.dtype[Any]) -> tuple[list[Array], Array]:
    """Return an array per size, aligned to 64 bytes, the spare one if it fits; and their addresses."""
    columns = describe(spares)
    fits = (columns.sizes == sizes) & (columns.addresses % 64 == 0) & columns.writeable
    fits &= columns.kinds == DTYPES.index(dtype)
    arrays: list[Any] = list(spares)
    if not fits.all():
        for i in np.flatnonzero(~fits).tolist():
            arrays[i] = aligned(int(sizes[i]), dtype)
        columns = describe(arrays)
    return arrays, columns.addresses


def find_received(table: Array, batches: Sequence[DecodedBatch], n: int) -> Array:
    """Return the address of the values that receivers decode for each of n tensors, (n,) i64 by key.

    It is 0 for a tensor of no batch.
    """
    received = np.zeros(n, np.int64)
    for batch in batches:
        first = batch.values.__array_interface__["data"][0]
        received[table["key"][batch.entries]] = first + batch.value_places * batch.values.itemsize
    return received


def subtract_sent_batch(batch: SumBatch, received: Array) -> None:
    """Complete the residuals of finite sums at their selected elements, in place.

    The bits are those of ``AccumulatedGradient.remainder`` with beta 1.

    Args:
        batch: the sums.
        received: (n,) i64, addresses of the values that receivers decode.
    """
    some = batch.selected
    store_differences(
        some.values, some.indices, some.cuts, received, batch.addresses, some.sizes, cleared=False
    )


def subtract_sent(rest: Array, support: Support, sent: Array) -> None:
    """Complete the residual of one finite sum, as ``subtract_sent_batch`` does.

    Args:
        rest: the sum, +0 at the selected elements.
        support: these elements.
        sent: (k,) the values that receivers decode.
    """
    assert support.indices is not None
    sent = np.ascontiguousarray(sent)
    parts = max(1, support.values.size // MIN_SELECTED_PER_THREAD)
    cuts = np.linspace(0, support.values.size, parts + 1).astype(np.int64)
    received = addresses_of([sent]) + cuts[:-1] * sent.itemsize
    sizes, addresses = np.full(parts, rest.size), np.full(parts, addresses_of([rest]))
    store_differences(support.values, support.indices, cuts, received, addresses, sizes, cleared=True)


def store_differences(
    values: Array,
    indices: Array,
    cuts: Array,
    received: Array,
    addresses: Array,
    sizes: Array,
    *,
    cleared: bool,
) -> None:
    """Run the kernel on threads."""
    from wirecodec.kernels.cpu.select import feedback_batch
    from wirecodec.kernels.cpu.threads import least_units, run_parallel

    given, n = read_only(values), sizes.size
    places = read_only(indices.view(np.dtype(f"u{indices.itemsize}")))
    like = np.empty(0, values.dtype)
    run_parallel(
        lambda turns: feedback_batch.store_differences(
            given, received, places, cuts, addresses, sizes, cleared, like, turns
        ),
        n,
        least_units(MIN_SELECTED_PER_THREAD, n, values.size),
    )

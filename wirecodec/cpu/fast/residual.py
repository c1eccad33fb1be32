"""Completion of the residuals of many tensors by one kernel call; ``cpu.residual`` has the plain form."""

from __future__ import annotations

import ctypes

import numpy as np

from wirecodec.arrays import Array, addresses_of, read_only
from wirecodec.cpu.fast.selected import MIN_SELECTED_PER_THREAD, Selected


def complete(selected: Selected, received: Array) -> None:
    """Subtract what receivers decode from the sums of tensors, in place.

    The bits are those of ``AccumulatedGradient.remainder`` with beta 1, for finite sums.

    Args:
        selected: the tensors; their sums become the next residuals.
        received: (n,) i64, addresses of the values that receivers decode at the selected elements.
    """
    if selected.indices is None:
        _subtract_all(selected, received)
        return
    from wirecodec.kernels.cpu.select import feedback
    from wirecodec.kernels.cpu.threads import least_units, run_parallel

    values = read_only(selected.values if selected.kept is None else selected.kept)
    indices = read_only(selected.indices.view(f"u{selected.indices.itemsize}"))
    cuts, starts, sizes = selected.cuts, selected.starts, selected.sizes
    sums = addresses_of(selected.sums)
    if sizes.size == 1:  # threads divide its elements
        parts = max(1, values.size // MIN_SELECTED_PER_THREAD)
        cuts = np.linspace(0, values.size, parts + 1).astype(np.int64)
        received = received[0] + cuts[:-1] * values.itemsize
        starts, sizes, sums = (np.repeat(x, parts) for x in (starts, sizes, sums))
    places, ends, like = sums - starts * values.itemsize, starts + sizes, np.empty(0, values.dtype)
    given = values, received, indices, cuts, places, ends, selected.cleared, like
    run_parallel(
        lambda turns: feedback.store_differences(*given, turns),
        sizes.size,
        least_units(MIN_SELECTED_PER_THREAD, sizes.size, values.size),
    )


def _subtract_all(selected: Selected, received: Array) -> None:
    """Subtract the values of all elements."""
    with np.errstate(over="ignore"):
        for rest, address in zip(selected.sums, received.tolist(), strict=True):
            sent: Array = np.ctypeslib.as_array((ctypes.c_uint8 * rest.nbytes).from_address(address))
            np.subtract(rest, sent.view(rest.dtype), out=rest)
            rest[~np.isfinite(rest)] = 0

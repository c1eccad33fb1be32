"""Error feedback beside selection: adding first, and what is left when the received values are known."""

from __future__ import annotations

import math

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.memory import prefetch, view_at
from wirecodec.kernels.cpu.threads import next_unit

BLOCK_SIZE = 1024
PREFETCH_INDICES = 24


@kernel
def add(a: Array, b: Array, out: Array) -> bool:
    """Compute out = a + b; return whether all of it is finite."""
    finite = True
    for start in range(0, a.size, BLOCK_SIZE):
        x, y, z = (
            a[start : start + BLOCK_SIZE],
            b[start : start + BLOCK_SIZE],
            out[start : start + BLOCK_SIZE],
        )
        for i in range(z.size):
            z[i] = x[i] + y[i]
        for i in range(z.size):
            finite &= z[i] - z[i] == 0
    return finite


@kernel
def accumulate(
    gradient: Array, momentum: Array, factors: Array, nesterov: bool, out: Array, addend: Array
) -> bool:
    """Compute the next momentum, and with Nesterov's form the addend of the velocity.

    Args:
        gradient: (n,).
        momentum: (n,), or (0,) in the first step.
        factors: (2,) of the momentum and of the gradient.
        nesterov: whether to compute ``addend``.
        out: (n,) receives factors[0] * momentum + factors[1] * gradient.
        addend: (n,) receives factors[0] * out + factors[1] * gradient; (0,) without ``nesterov``.

    Returns whether all results are finite.
    """
    finite = True
    for start in range(0, out.size, BLOCK_SIZE):
        block = slice(start, start + BLOCK_SIZE)
        g, u = gradient[block], out[block]
        if momentum.size > 0:
            before = momentum[block]
            for i in range(u.size):
                u[i] = factors[0] * before[i] + factors[1] * g[i]
        else:
            for i in range(u.size):
                u[i] = factors[1] * g[i]
        for i in range(u.size):
            finite &= u[i] - u[i] == 0
        if nesterov:
            ahead = addend[block]
            for i in range(u.size):
                ahead[i] = factors[0] * u[i] + factors[1] * g[i]
            for i in range(u.size):
                finite &= ahead[i] - ahead[i] == 0
    return finite


@kernel
def store_differences(
    values: Array,
    received: Array,
    indices: Array,
    cuts: Array,
    addresses: Array,
    sizes: Array,
    cleared: bool,
    like: Array,
    turns: Array,
) -> None:
    """Store rest[index] = value - received, or +0 if that is not finite, for the elements of many arrays.

    Args:
        values, indices: of all arrays, finite.
        received: (n,) i64, addresses of the values to subtract.
        cuts: (n + 1,) i64, the place of each array's elements.
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        cleared: whether the arrays have +0 at the indices.
        like: an array of their type.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = slice(cuts[unit], cuts[unit + 1])
        sent = view_at(received[unit], cuts[unit + 1] - cuts[unit], like)
        rest = view_at(addresses[unit], sizes[unit], like)
        _store_differences(values[here], sent, indices[here], rest, cleared)
        unit = next_unit(turns, unit)


@inline
def _store_differences(values: Array, sent: Array, indices: Array, rest: Array, cleared: bool) -> None:
    """Store values[i] - sent[i] at indices[i], or +0 if it is not finite."""
    last = indices.size - 1
    for i in range(indices.size):
        difference = values[i] - sent[i]
        if not cleared or difference != 0 or math.copysign(1.0, difference) < 0:
            prefetch(rest, np.int64(indices[min(i + PREFETCH_INDICES, last)]), 1)
            rest[indices[i]] = difference if np.isfinite(difference) else 0


@kernel
def clear_at(
    indices: Array, cuts: Array, bases: Array, addresses: Array, sizes: Array, like: Array, turns: Array
) -> None:
    """Set elements of many arrays to 0.

    Args:
        indices: of all arrays.
        cuts: (n + 1,) i64, the place of each array's indices.
        bases: (n,) i64, subtracted from each array's indices.
        addresses: (n,) i64, of the arrays.
        sizes: (n,) i64, their elements.
        like: an array of their type.
        turns: counters of ``next_unit``; a unit is an array.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        array = view_at(addresses[unit], sizes[unit], like)
        for i in range(cuts[unit], cuts[unit + 1]):
            array[np.int64(indices[i]) - bases[unit]] = 0
        unit = next_unit(turns, unit)

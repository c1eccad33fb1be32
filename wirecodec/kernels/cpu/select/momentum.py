"""Momentum, decay and clipping before selection (``wirecodec.cpu.momentum``), also with the top k's sweep.

    u' = keep * u + factor * g        x = decay * v + addend

The addend is factor * g (PLAIN), u' (HEAVY_BALL), or keep * u' + factor * g (NESTEROV).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.select.sample import bracket_sample, find_run, plan_strata
from wirecodec.kernels.cpu.select.topk import BLOCK_SIZE, PREFETCH_ELEMENTS, SLACK, key_of
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch_ahead, store_fence, stream_store
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import extract_lane, load, mask_to_bits, select, store

U32 = np.uint32
U64 = np.uint64

PLAIN, HEAVY_BALL, NESTEROV = 0, 1, 2
KEEP, FACTOR, DECAY = 0, 1, 2
"""Places of the factors, which are float64 numbers and are rounded to the elements' type."""


@inline
def _scale(vector: Any, factor: float) -> Any:
    """Compute factor · vector."""
    return multiply_floats(splat_float(factor, vector), vector)


@inline_without_refcounts
def _advance(u: Any, g: Any, factors: Array) -> Any:
    """Compute keep · u + factor · g."""
    return add_floats(_scale(u, factors[KEEP]), _scale(g, factors[FACTOR]))


@inline_without_refcounts
def total_one(g: Array, u: Array, v: Array, factors: Array, form: int, i: int) -> tuple[Any, Any]:
    """Return the bits of x and u' of one element."""
    after = addend = _scale(load(g, i, 1), factors[FACTOR])
    if form != PLAIN:
        after = addend = _advance(load(u, i, 1), load(g, i, 1), factors)
        if form == NESTEROV:
            addend = _advance(after, load(g, i, 1), factors)
    total = add_floats(_scale(load(v, i, 1), factors[DECAY]), addend)
    return extract_lane(total, 0), extract_lane(after, 0)


@kernel
def bracket_total(
    g: Array,
    u: Array,
    v: Array,
    factors: Array,
    form: int,
    run: int,
    seed: int,
    samples: int,
    low_rank: int,
    high_rank: int,
) -> tuple[int, int, bool]:
    """Apply ``sample.bracket_kth`` to x; arguments as for ``sweep_total`` and ``bracket_kth``."""
    keys = np.empty(samples + SLACK, g.dtype)
    magnitude = (U64(1) << U64(bit_width(g) - 1)) - U64(1)
    strata = samples // run
    plan = plan_strata(g.size // run, strata)
    for stratum in range(strata):
        first = find_run(stratum, plan, U64(seed)) * run
        for i in range(run):
            keys[stratum * run + i] = U64(total_one(g, u, v, factors, form, first + i)[0]) & magnitude
    return bracket_sample(keys, samples, low_rank, high_rank)


@inline_without_refcounts
def _next(g: Array, u: Array, keep: Any, factor: Any, at: int, after: Array) -> Any:
    """Compute and store 64 elements of u'."""
    prefetch_ahead(g, at + PREFETCH_ELEMENTS, 64)
    prefetch_ahead(u, at + PREFETCH_ELEMENTS, 64)
    result = add_floats(multiply_floats(keep, load(u, at, 64)), multiply_floats(factor, load(g, at, 64)))
    stream_store(after, at, result)
    return result


@inline_without_refcounts
def _put(
    v: Array,
    decay: Any,
    addend: Any,
    at: int,
    least: np.uint64,
    left: Array,
    found: Array,
    n: int,
    base: int,
) -> int:
    """Store 64 elements of x, and the positions of those that reach the threshold; return their number."""
    prefetch_ahead(v, at + PREFETCH_ELEMENTS, 64)
    total = add_floats(multiply_floats(decay, load(v, at, 64)), addend)
    at_least = (total << 1) >= (least << U64(1))
    stream_store(left, at, select(at_least, total & 0, total))
    return n + store_set_bits(found, n, mask_to_bits(at_least), U32(at + base))


@kernel
def sweep_total(
    g: Array,
    u: Array,
    v: Array,
    factors: Array,
    form: int,
    low: int,
    after: Array,
    left: Array,
    found: Array,
    words: Array,
) -> int:
    """Apply ``topk.sweep`` to x, and store x and u'; arrays of floats are given as their bits.

    Args:
        g, v: (n,) fewer than 2^31 elements.
        u: (n,), or (0,) if the form is PLAIN.
        factors: (3,) keep, factor and decay.
        form: PLAIN, HEAVY_BALL or NESTEROV.
        low: a threshold.
        after: (n,) aligned to 64 bytes; it receives u'; (0,) if the form is PLAIN.
        left: (n,) aligned to 64 bytes; it receives x below the threshold, and +0 for the others.
        found: int32, with slack; receives the positions of the others.
        words: as many; receives their x.

    Returns the number of positions, or -1 if the buffers are too small.
    """
    n = sweep_total_range(g, u, v, factors, form, U64(low), after, left, found, words, 0, 0, 0, g.size)
    store_fence()
    return n if n <= found.size - 2 * SLACK else -1


@inline
def sweep_total_range(
    g: Array,
    u: Array,
    v: Array,
    factors: Array,
    form: int,
    least: np.uint64,
    after: Array,
    left: Array,
    found: Array,
    words: Array,
    n: int,
    base: int,
    start: int,
    stop: int,
) -> int:
    """Continue ``sweep_total`` with elements start ... stop - 1 after n positions; see ``topk.sweep_range``.

    ``base`` is added to each position. The caller ends with ``store_fence``.
    """
    whole = g.size & ~63
    like = load(np.zeros(64, g.dtype), 0, 64)
    keep, factor = splat_float(factors[KEEP], like), splat_float(factors[FACTOR], like)
    decay = splat_float(factors[DECAY], like)
    for block in range(start, min(stop, whole), BLOCK_SIZE):
        if n > found.size - BLOCK_SIZE - SLACK:
            return found.size
        first = n
        end = min(block + BLOCK_SIZE, stop, whole)
        if form == PLAIN:  # a loop per form: branches within it would spill the vectors
            for at in range(block, end, 64):
                prefetch_ahead(g, at + PREFETCH_ELEMENTS, 64)
                addend = multiply_floats(factor, load(g, at, 64))
                n = _put(v, decay, addend, at, least, left, found, n, base)
        elif form == HEAVY_BALL:
            for at in range(block, end, 64):
                n = _put(v, decay, _next(g, u, keep, factor, at, after), at, least, left, found, n, base)
        else:
            for at in range(block, end, 64):
                ahead = multiply_floats(keep, _next(g, u, keep, factor, at, after))
                addend = add_floats(ahead, multiply_floats(factor, load(g, at, 64)))
                n = _put(v, decay, addend, at, least, left, found, n, base)
        for i in range(first, n):
            words[i] = total_one(g, u, v, factors, form, np.int64(U32(found[i])) - base)[0]
    if stop == g.size:
        if n > found.size - 2 * SLACK:
            return found.size
        for i in range(whole, stop):
            total_bits, after_bits = total_one(g, u, v, factors, form, i)
            left[i] = total_bits
            if form != PLAIN:
                after[i] = after_bits
            if key_of(left, i) >= least:
                found[n] = base + i
                words[n] = left[i]
                left[i] = 0
                n += 1
    return n


@inline
def add_range(
    g: Array,
    u: Array,
    v: Array,
    factors: Array,
    form: int,
    after: Array,
    out: Array,
    start: int,
    stop: int,
) -> None:
    """Store x and u' of elements start ... stop - 1; ``start`` is a multiple of 64. ``out`` receives x.

    Other arguments as for ``sweep_total``. Stores go through the caches, and need no alignment.
    """
    whole = min(stop, g.size & ~63)
    like = load(np.zeros(64, g.dtype), 0, 64)
    keep, factor = splat_float(factors[KEEP], like), splat_float(factors[FACTOR], like)
    decay = splat_float(factors[DECAY], like)
    if form == PLAIN:
        for at in range(start, whole, 64):
            addend = multiply_floats(factor, load(g, at, 64))
            store(out, at, add_floats(multiply_floats(decay, load(v, at, 64)), addend))
    elif form == HEAVY_BALL:
        for at in range(start, whole, 64):
            addend = add_floats(
                multiply_floats(keep, load(u, at, 64)), multiply_floats(factor, load(g, at, 64))
            )
            store(after, at, addend)
            store(out, at, add_floats(multiply_floats(decay, load(v, at, 64)), addend))
    else:
        for at in range(start, whole, 64):
            scaled = multiply_floats(factor, load(g, at, 64))
            following = add_floats(multiply_floats(keep, load(u, at, 64)), scaled)
            store(after, at, following)
            addend = add_floats(multiply_floats(keep, following), scaled)
            store(out, at, add_floats(multiply_floats(decay, load(v, at, 64)), addend))
    if stop == g.size:
        for i in range(g.size & ~63, stop):
            total_bits, after_bits = total_one(g, u, v, factors, form, i)
            out[i] = total_bits
            if form != PLAIN:
                after[i] = after_bits


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

"""Sums of gradient, momentum and residual (``kernels.term_forms``), with a sweep for their top k.

The functions here are families: each form has its own. A tensor's arrays are g, u, v (gradient, momentum,
residual), and after, total (u', x), all as bits. A form without momentum or residual gets g in their place,
and any arrays in place of those that it does not write.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.family import helper_family
from wirecodec.kernels.compiler.jit import inline
from wirecodec.kernels.cpu.simd.floats import add_floats, multiply_floats, splat_float
from wirecodec.kernels.cpu.simd.memory import PREFETCH_ELEMENTS, prefetch_ahead, stream_store, view_at
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import extract_lane, load, mask_to_bits, select, store
from wirecodec.kernels.term_forms import (
    AFTER,
    DECAY,
    FACTOR,
    FORM_NAMES,
    GRADIENT,
    HEAVY_BALL,
    IDENTITY,
    KEEP,
    MOMENTUM,
    NESTEROV,
    PLAIN,
    RESIDUAL,
    SUM,
    SUM_NAMES,
    TOTAL,
)

U32 = np.uint32
U64 = np.uint64
FORM = IDENTITY
SLACK = 64
BLOCK_SIZE = 1024
SWEEP_SLACK = BLOCK_SIZE + 2 * SLACK
"""Elements that the buffers of a sweep have beyond their capacity."""
PREFETCH_PAGES = 4 * BLOCK_SIZE  # one line ahead of each block, so that its page's address is known in time


@inline
def scale(vector: Any, factor: float) -> Any:
    """Compute factor · vector."""
    return multiply_floats(splat_float(factor, vector), vector)


@helper_family(FORM_NAMES)
def advance(g: Any, u: Any, factors: Any) -> Any:
    """Return u' of vectors, or the addend of a form without momentum."""
    if FORM <= SUM:
        return g
    if FORM == PLAIN:
        return scale(g, factors[FACTOR])
    return add_floats(scale(u, factors[KEEP]), scale(g, factors[FACTOR]))


@helper_family(FORM_NAMES)
def add_terms(g: Any, following: Any, v: Any, factors: Any) -> Any:
    """Return x of vectors, from the result of ``advance``."""
    if FORM == IDENTITY:
        return g
    if FORM == SUM:
        return add_floats(g, v)
    if FORM == NESTEROV:
        following = add_floats(scale(following, factors[KEEP]), scale(g, factors[FACTOR]))
    return add_floats(scale(v, factors[DECAY]), following)


@inline
def split_factors(factors: Array) -> tuple[float, float, float]:
    """Return the factors as numbers, which stay in registers."""
    return factors[KEEP], factors[FACTOR], factors[DECAY]


@helper_family(FORM_NAMES)
def view_inputs(addresses: Array, sizes: Array, i: int, like: Array) -> tuple[Array, Array, Array]:
    """Return g, u and v of a tensor."""
    g = view_at(addresses[i, GRADIENT], sizes[i], like)
    u = v = g
    if FORM >= HEAVY_BALL:
        u = view_at(addresses[i, MOMENTUM], sizes[i], like)
    if FORM >= SUM:
        v = view_at(addresses[i, RESIDUAL], sizes[i], like)
    return g, u, v


@inline
def view_outputs(addresses: Array, sizes: Array, i: int, like: Array) -> tuple[Array, Array]:
    """Return the arrays for u' and x of a tensor; those that its form does not write are not to be used."""
    return view_at(addresses[i, AFTER], sizes[i], like), view_at(addresses[i, TOTAL], sizes[i], like)


@helper_family(FORM_NAMES)
def sweep_range(
    g: Array,
    u: Array,
    v: Array,
    factors: Any,
    least: np.uint64,
    after: Array,
    total: Array,
    kept: np.uint64,
    found: Array,
    words: Array,
    n: int,
    base: int,
    start: int,
    stop: int,
) -> int:
    """Store x and u' of elements start ... stop - 1, and collect the x whose key is ``least`` or more.

    Args:
        g, u, v: fewer than 2^31 elements.
        factors: from ``split_factors``.
        least: a threshold.
        after, total: aligned to 64 bytes; they receive u' and x.
        kept: the bits that ``total`` receives of the x that are collected: none, or all.
        found: int32, with ``SWEEP_SLACK``; receives positions, from place n on.
        words: as many; receives the x there.
        n: number of positions so far.
        base: added to each position.
        start: a multiple of 64.
        stop: a multiple of 64, or the size.

    Returns the number of positions, which is above the capacity if the buffers are too small. The caller ends
    with ``store_fence``.
    """
    whole = g.size & ~63
    for block in range(start, min(stop, whole), BLOCK_SIZE):
        if n > found.size - BLOCK_SIZE - SLACK:
            return found.size
        first = n
        prefetch_ahead(g, block + PREFETCH_PAGES, 1)
        if FORM >= SUM:
            prefetch_ahead(v, block + PREFETCH_PAGES, 1)
            prefetch_ahead(total, block + PREFETCH_PAGES, 1)
        if FORM >= HEAVY_BALL:
            prefetch_ahead(u, block + PREFETCH_PAGES, 1)
            prefetch_ahead(after, block + PREFETCH_PAGES, 1)
        for at in range(block, min(block + BLOCK_SIZE, stop, whole), 64):
            prefetch_ahead(g, at + PREFETCH_ELEMENTS, 64)
            if FORM >= SUM:
                prefetch_ahead(v, at + PREFETCH_ELEMENTS, 64)
            if FORM >= HEAVY_BALL:
                prefetch_ahead(u, at + PREFETCH_ELEMENTS, 64)
            gradient = load(g, at, 64)
            following = advance(gradient, load(u, at, 64), factors)
            x = add_terms(gradient, following, load(v, at, 64), factors)
            at_least = (x << 1) >= (least << U64(1))
            if FORM >= HEAVY_BALL:
                stream_store(after, at, following)
            if FORM >= SUM:
                stream_store(total, at, select(at_least, x & kept, x))
            n += store_set_bits(found, n, mask_to_bits(at_least), U32(at + base))
        for i in range(first, n):
            at = np.int64(U32(found[i])) - base
            one = load(g, at, 1)
            x_one = add_terms(one, advance(one, load(u, at, 1), factors), load(v, at, 1), factors)
            words[i] = extract_lane(x_one, 0)
    if stop == g.size:
        if n > found.size - 2 * SLACK:
            return found.size
        for at in range(whole, stop):
            one = load(g, at, 1)
            following_one = advance(one, load(u, at, 1), factors)
            x_one = add_terms(one, following_one, load(v, at, 1), factors)
            word = extract_lane(x_one, 0)
            reaches = extract_lane((x_one << 1) >> 1, 0) >= least
            if FORM >= HEAVY_BALL:
                after[at] = extract_lane(following_one, 0)
            if FORM >= SUM:
                total[at] = U64(word) & kept if reaches else U64(word)
            if reaches:
                found[n] = at + base
                words[n] = word
                n += 1
    return n


@helper_family(SUM_NAMES)
def add_range(
    g: Array, u: Array, v: Array, factors: Any, after: Array, total: Array, start: int, stop: int
) -> None:
    """Store x and u' of elements start ... stop - 1; ``start`` is a multiple of 64.

    Stores go through the caches, and need no alignment.
    """
    whole = min(stop, g.size & ~63)
    for at in range(start, whole, 64):
        gradient = load(g, at, 64)
        following = advance(gradient, load(u, at, 64), factors)
        if FORM >= HEAVY_BALL:
            store(after, at, following)
        store(total, at, add_terms(gradient, following, load(v, at, 64), factors))
    if stop == g.size:
        for at in range(g.size & ~63, stop):
            one = load(g, at, 1)
            following_one = advance(one, load(u, at, 1), factors)
            if FORM >= HEAVY_BALL:
                after[at] = extract_lane(following_one, 0)
            total[at] = extract_lane(add_terms(one, following_one, load(v, at, 1), factors), 0)

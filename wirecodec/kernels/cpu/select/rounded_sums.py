"""Sums of 16-bit gradients and float32 residuals, beside the same sums in the gradients' type.

The functions are families: 16-bit elements are binary16 or bfloat16. All floats are given as their bits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.family import helper_family, kernel_family
from wirecodec.kernels.cpu.coding.narrow import round_to_bfloat16, round_to_half, widen_half
from wirecodec.kernels.cpu.select.sample import find_run, plan_strata
from wirecodec.kernels.cpu.select.terms import BLOCK_SIZE, PREFETCH_PAGES, SLACK
from wirecodec.kernels.cpu.simd.floats import add_floats
from wirecodec.kernels.cpu.simd.memory import copy_elements, prefetch_ahead, store_fence, stream_store
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.vector import (
    extract_lane,
    load,
    mask_to_bits,
    resize,
    select,
    splat,
    store,
)

U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
HALF, BFLOAT16 = 0, 1
FORM = HALF
FORM_NAMES = {HALF: "half", BFLOAT16: "bfloat16"}
LANES = 32
INFINITY_TWICE = 0xFF000000
"""The bits of Inf without the sign, shifted by one."""
PREFETCHED = 1024
"""Elements between a prefetch and its load."""


@helper_family(FORM_NAMES)
def _widen(narrow: Any) -> Any:
    """Convert lanes to binary32, exactly."""
    if FORM == HALF:
        return widen_half(narrow)
    return resize(narrow, 32) << 16


@helper_family(FORM_NAMES)
def _round(x: Any) -> Any:
    """Clamp 32 finite lanes to the largest finite magnitude of the 16-bit type, and round them to it."""
    sign = x & 0x80000000
    if FORM == HALF:
        return round_to_half(_least(x ^ sign, 0x477FE000) | sign)
    return round_to_bfloat16(_least(x ^ sign, 0x7F7F0000) | sign)


@helper_family(FORM_NAMES)
def _least(magnitudes: Any, most: int) -> Any:
    """Return the magnitudes, or ``most`` if they are above it."""
    return select(magnitudes > most, splat(U32(most), 32), magnitudes)


@kernel_family(FORM_NAMES)
def add(gradient: Array, residual: Array, total: Array, rounded: Array, streamed: bool) -> bool:
    """Store gradient + residual, and the same rounded; return whether all sums are finite.

    Args:
        gradient: (n,) u16.
        residual: (n,) u32.
        total: (n,) u32, receives the sums.
        rounded: (n,) u16, receives the sums, clamped and rounded to nearest, ties to even.
        streamed: whether stores bypass the caches; both outputs are then aligned to 64 bytes.
    """
    wrong = U64(0)
    whole = gradient.size & -LANES
    for at in range(0, whole, LANES):
        prefetch_ahead(gradient, at + PREFETCHED, LANES)
        prefetch_ahead(residual, at + PREFETCHED, LANES)
        x = add_floats(_widen(load(gradient, at, LANES)), load(residual, at, LANES))
        wrong |= mask_to_bits((x << 1) >= INFINITY_TWICE)
        if streamed:
            stream_store(total, at, x)
            stream_store(rounded, at, _round(x))
        else:
            store(total, at, x)
            store(rounded, at, _round(x))
    store_fence()
    if whole < gradient.size:
        left = gradient.size - whole
        g, v, sums, sent = np.zeros(32, U16), np.zeros(32, U32), np.empty(32, U32), np.empty(32, U16)
        copy_elements(gradient, whole, left, g, 0)
        copy_elements(residual, whole, left, v, 0)
        x = add_floats(_widen(load(g, 0, LANES)), load(v, 0, LANES))
        wrong |= mask_to_bits((x << 1) >= INFINITY_TWICE)
        store(sums, 0, x)
        store(sent, 0, _round(x))
        copy_elements(sums, 0, left, total, whole)
        copy_elements(sent, 0, left, rounded, whole)
    return wrong == U64(0)


@kernel_family(FORM_NAMES)
def round_all(sums: Array, rounded: Array) -> bool:
    """Store (n,) u32 sums as u16 in ``rounded``, as ``add`` does; return whether all sums are finite."""
    wrong = U64(0)
    whole = sums.size & -LANES
    for at in range(0, whole, LANES):
        prefetch_ahead(sums, at + PREFETCHED, LANES)
        x = load(sums, at, LANES)
        wrong |= mask_to_bits((x << 1) >= INFINITY_TWICE)
        store(rounded, at, _round(x))
    if whole < sums.size:
        left = sums.size - whole
        rest, sent = np.zeros(32, U32), np.empty(32, U16)
        copy_elements(sums, whole, left, rest, 0)
        x = load(rest, 0, LANES)
        wrong |= mask_to_bits((x << 1) >= INFINITY_TWICE)
        store(sent, 0, _round(x))
        copy_elements(sent, 0, left, rounded, whole)
    return wrong == U64(0)


@kernel_family(FORM_NAMES)
def sample_runs(gradient: Array, residual: Array, rounded: Array) -> bool:
    """Store the rounded sums of a sample; return whether they are finite.

    Args:
        gradient, residual: as for ``add``; n is at least the size of the sample.
        rounded: (m,) u16, receives runs of 32 neighbours; m is a multiple of 32.
    """
    wrong = U64(0)
    strata = rounded.size // LANES
    plan = plan_strata(gradient.size // LANES, strata)
    for stratum in range(strata):
        at = find_run(stratum, plan, U64(0)) * LANES
        x = add_floats(_widen(load(gradient, at, LANES)), load(residual, at, LANES))
        wrong |= mask_to_bits((x << 1) >= INFINITY_TWICE)
        store(rounded, stratum * LANES, _round(x))
    return wrong == U64(0)


@kernel_family(FORM_NAMES)
def sweep(gradient: Array, residual: Array, total: Array, least: int, found: Array, sums: Array) -> int:
    """Store gradient + residual, and collect the sums of magnitude ``least`` or more.

    Args:
        gradient: (n,) u16, fewer than 2^31.
        residual: (n,) u32.
        total: (n,) u32, aligned to 64 bytes; receives the sums.
        least: the bits of a float32 of 0 or more.
        found: int32, with ``terms.SWEEP_SLACK``; receives the positions.
        sums: as many u32, receives the sums there.

    Returns the number of positions; -1 if the buffers are too small, or if a sum is not finite.
    """
    whole, n, bound, finite = gradient.size & ~63, 0, U32(least) << U32(1), True
    for block in range(0, whole, BLOCK_SIZE):
        if n > found.size - BLOCK_SIZE - SLACK:
            return -1
        first = n
        prefetch_ahead(gradient, block + PREFETCH_PAGES, 1)
        prefetch_ahead(residual, block + PREFETCH_PAGES, 1)
        prefetch_ahead(total, block + PREFETCH_PAGES, 1)
        for at in range(block, min(block + BLOCK_SIZE, whole), 64):
            prefetch_ahead(gradient, at + PREFETCHED, 64)
            prefetch_ahead(residual, at + PREFETCHED, 64)
            x = add_floats(_widen(load(gradient, at, 64)), load(residual, at, 64))
            stream_store(total, at, x)
            n += store_set_bits(found, n, mask_to_bits((x << 1) >= bound), U32(at))
        for i in range(first, n):
            at = np.int64(found[i])
            one = extract_lane(add_floats(_widen(load(gradient, at, 1)), load(residual, at, 1)), 0)
            sums[i] = one
            finite &= U32(one << U32(1)) < U32(INFINITY_TWICE)  # NaN and Inf reach any threshold
    store_fence()
    if not finite or n > found.size - SLACK:
        return -1
    for at in range(whole, gradient.size):
        one = extract_lane(add_floats(_widen(load(gradient, at, 1)), load(residual, at, 1)), 0)
        total[at] = one
        if U32(one << U32(1)) >= U32(INFINITY_TWICE):
            return -1
        if U32(one << U32(1)) >= bound:
            found[n] = at
            sums[n] = one
            n += 1
    return n

"""One top k of the sums of many tensors, joined as one vector; a sum stays in its tensor's own array.

The work is divided into parts, which are pieces of tensors. Positions are relative to the begin of a part, so
that they fit in 32 bits.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.family import kernel_family
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.select.term_bounds import bracket_rows
from wirecodec.kernels.cpu.select.terms import (
    BLOCK_SIZE,
    SLACK,
    add_range,
    split_factors,
    sweep_range,
    view_inputs,
    view_outputs,
)
from wirecodec.kernels.cpu.select.topk import has_nonfinite, key_of, top_mask
from wirecodec.kernels.cpu.simd.masks64 import at_least64
from wirecodec.kernels.cpu.simd.memory import bit_width, prefetch, store_fence, view_at
from wirecodec.kernels.cpu.simd.set_bits import store_set_bits
from wirecodec.kernels.cpu.simd.words import trailing_zeros
from wirecodec.kernels.term_forms import HEAVY_BALL, START, STOP, SUM, SUM_NAMES, TENSOR, TOTAL

U32 = np.uint32
U64 = np.uint64
FORM = SUM
PREFETCH_WORDS = 32


@kernel_family(SUM_NAMES)
def bracket(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    like: Array,
    samples: int,
    low_rank: int,
    high_rank: int,
) -> tuple[int, int, bool]:
    """Apply ``term_bounds.bracket_rows`` to all tensors; ``factors`` is (3,)."""
    scales, n = split_factors(factors), sizes.size
    return bracket_rows(addresses, sizes, starts, 0, n, scales, like, samples, low_rank, high_rank)


@kernel_family(SUM_NAMES)
def sweep(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    low: int,
    pieces: Array,
    origin: int,
    like: Array,
    like_out: Array,
    found: Array,
    words: Array,
) -> int:
    """Apply ``terms.sweep_range`` to pieces of tensors; sums that reach the threshold become +0.

    Args:
        addresses, sizes, starts, factors, like, like_out: as for ``select_each.select``.
        low: a threshold.
        pieces: (m, 3) i64, in the columns of ``term_forms``; starts are multiples of 1024.
        origin: a place in the vector of all tensors.
        found: int32, with slack; receives positions relative to ``origin``.
        words: as many; receives the sums there.

    Returns the number of positions, or -1 if the buffers are too small.
    """
    scales, n = split_factors(factors), 0
    for piece in range(pieces.shape[0]):
        i = pieces[piece, TENSOR]
        g, u, v = view_inputs(addresses, sizes, i, like)
        after, total = view_outputs(addresses, sizes, i, like_out)
        start, stop, base = pieces[piece, START], pieces[piece, STOP], starts[i] - origin
        n = sweep_range(g, u, v, scales, U64(low), after, total, U64(0), found, words, n, base, start, stop)
        if n > found.size - 2 * SLACK:
            return -1
    store_fence()
    return n


@kernel_family(SUM_NAMES)
def add_and_sweep(
    addresses: Array,
    sizes: Array,
    starts: Array,
    factors: Array,
    low: int,
    pieces: Array,
    origin: int,
    like: Array,
    like_out: Array,
    found: Array,
    words: Array,
) -> int:
    """Apply ``sweep`` to sums that stay as they are, and that may begin at any element of a cache line.

    Arguments and result as for ``sweep``. Stores of forms with momentum go through the caches, since a sum
    and its momentum can be aligned to different elements.
    """
    scales, n = split_factors(factors), 0
    for piece in range(pieces.shape[0]):
        i = pieces[piece, TENSOR]
        g, u, v = view_inputs(addresses, sizes, i, like)
        after, total = view_outputs(addresses, sizes, i, like_out)
        start, stop, base = pieces[piece, START], pieces[piece, STOP], starts[i] - origin
        if FORM >= HEAVY_BALL:
            for block in range(start, stop, BLOCK_SIZE):
                end = min(block + BLOCK_SIZE, stop)
                add_range(g, u, v, scales, after, total, block, end)
                if n > found.size - BLOCK_SIZE - 2 * SLACK:
                    return -1
                n = _collect(total, block, end, U64(low), found, words, n, base)
        else:
            head = min((-addresses[i, TOTAL] % 64) // (bit_width(like) // 8), g.size)
            if start == 0 and head > 0:
                first = g[:head], u[:head], v[:head]
                n = sweep_range(
                    *first, scales, U64(low), after, total[:head], ~U64(0), found, words, n, base, 0, head
                )
            end = min(stop, g.size - head)
            if start < end:
                rest, total = (g[head:], u[head:], v[head:]), total[head:]
                n = sweep_range(
                    *rest, scales, U64(low), after, total, ~U64(0), found, words, n, base + head, start, end
                )
        if n > found.size - 2 * SLACK:
            return -1
    store_fence()
    return n


@inline
def _collect(
    total: Array, start: int, stop: int, least: np.uint64, found: Array, words: Array, n: int, base: int
) -> int:
    """Collect the elements start ... stop - 1 whose key is ``least`` or more; return n plus their number.

    ``start`` is a multiple of 64, and ``stop`` too or the size.
    """
    whole = start + ((stop - start) & ~63)
    for at in range(start, whole, 64):
        first = n
        n += store_set_bits(found, n, at_least64(total, at, least), U32(at + base))
        for i in range(first, n):
            words[i] = total[np.int64(U32(found[i])) - base]
    for at in range(whole, stop):
        if key_of(total, at) >= least:
            found[n], words[n] = at + base, total[at]
            n += 1
    return n


@kernel_family(SUM_NAMES)
def add(addresses: Array, sizes: Array, factors: Array, pieces: Array, like: Array, like_out: Array) -> bool:
    """Store the sums and momenta of pieces of tensors; return whether all sums are finite.

    Arguments as for ``sweep``.
    """
    scales, infinity = split_factors(factors), U64(0x7F800000) if bit_width(like) == 32 else U64(0x7FF << 52)
    finite = True
    for piece in range(pieces.shape[0]):
        i = pieces[piece, TENSOR]
        g, u, v = view_inputs(addresses, sizes, i, like)
        after, total = view_outputs(addresses, sizes, i, like_out)
        for block in range(pieces[piece, START], pieces[piece, STOP], BLOCK_SIZE):
            end = min(block + BLOCK_SIZE, pieces[piece, STOP])
            add_range(g, u, v, scales, after, total, block, end)
            finite &= not has_nonfinite(total[block:end], infinity)
    return finite


@kernel
def restore_unselected(
    addresses: Array,
    sizes: Array,
    starts: Array,
    origin: int,
    like_out: Array,
    found: Array,
    words: Array,
    threshold: int,
    ties: int,
) -> None:
    """Write back the sums below a threshold, and those equal to it except the first ``ties``.

    Args:
        addresses, sizes, starts, origin, like_out, found, words: of a ``sweep``.
        threshold: a key.
        ties: the number of sums of this part that are equal to it and are selected.
    """
    least, n, whole = U64(threshold), 0, words.size & ~63
    unselected = np.empty(words.size, np.int32)
    for at in range(0, whole, 64):
        mask, ties = top_mask(words, at, least, ties)
        rest = ~mask
        while rest != U64(0):
            unselected[n] = at + trailing_zeros(rest)
            n += 1
            rest &= rest - U64(1)
    for i in range(whole, words.size):
        key = key_of(words, i)
        ties -= key == least
        if key < least or (key == least and ties < 0):
            unselected[n] = i
            n += 1
    tensor, done = 0, 0
    while done < n:
        place = origin + np.int64(U32(found[unselected[done]]))
        while starts[tensor + 1] <= place:
            tensor += 1
        total = view_at(addresses[tensor, TOTAL], sizes[tensor], like_out)
        base, local = starts[tensor] - origin, place - starts[tensor]
        while local < total.size:  # the sweep's stores bypassed the caches, so prefetch
            later = found[unselected[min(done + PREFETCH_WORDS, n - 1)]]
            prefetch(total, np.int64(U32(later)) - base, 1)
            total[local] = words[unselected[done]]
            done += 1
            local = np.int64(U32(found[unselected[done]])) - base if done < n else total.size

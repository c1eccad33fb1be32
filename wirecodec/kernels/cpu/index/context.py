"""Kernels of the context index codec (formats/spec/index/context.md): the coding loop, and periods."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.coding.arithmetic import AHEAD, ONE, Coder, begin, code, finish, initial_state
from wirecodec.kernels.cpu.simd.words import popcount
from wirecodec.kernels.layout import CONTEXT_BLOCK, CONTEXT_PART, CONTEXT_PERIODS

U16 = np.uint16
U32 = np.uint32
U64 = np.uint64

BAD_LENGTH, BAD_COUNT, BAD_END = -1, -2, -3

_CLASSES = 12
_BOUNDS = [1, 2, 3, 4, 5, 7, 9, 12, 16, 21, 26]
_CLASS = np.searchsorted(_BOUNDS, np.arange(33), side="right").astype(np.uint8)
_OTHER = 7
"""Place of a part or element of which no flag guarantees that something is present."""
_PARTS = _CLASSES
_BITS = _PARTS + (_OTHER + 1) * _CLASSES
_HISTORY_CLASSES = 22
_CONTEXTS = _BITS + (_OTHER + 1 + _HISTORY_CLASSES) * _CLASSES * 2
_WINDOW = U64(0xFFFFFFFF)

_MIN_PERIOD, _MAX_PERIOD = CONTEXT_PERIODS
_ANCHORS = 8192
_NEIGHBOURS = 8


@inline
def _build_contexts(r: int, d: int) -> Array:
    """Build the initial contexts from the density r/d; a flagged element is equally likely at each place."""
    contexts = np.empty(_CONTEXTS, np.uint32)
    density = min(max((np.int64(r) << 22) // d, 64), ONE - 64)
    contexts[:_PARTS] = initial_state(min(CONTEXT_BLOCK * density, ONE >> 1))
    contexts[_BITS:] = initial_state(density)
    part = min(CONTEXT_PART * density, ONE >> 1)
    contexts[_PARTS:_BITS] = initial_state(part)
    for place in range(_OTHER):
        left = CONTEXT_PART - place
        at = _PARTS + place * _CLASSES
        contexts[at : at + _CLASSES] = initial_state(max(part, (ONE >> 1) // left))
        at = _BITS + place * _CLASSES * 2
        contexts[at : at + 2 * _CLASSES] = initial_state(max(density, ONE // left))
    return contexts


@inline_without_refcounts
def _is_empty(history: Array, start: int, stop: int) -> bool:
    """Return whether these columns were empty in all remembered rows."""
    seen = U16(0)
    for column in range(start, min(stop, history.size)):
        seen |= history[column]
    return seen == U16(0)


@inline_without_refcounts
def _code_part(
    data: Array,
    contexts: Array,
    indices: Array,
    history: Array,
    first: int,
    count: int,
    flagged: bool,
    writes: bool,
    j: np.int64,
    window: U64,
    coder: Coder,
) -> tuple[np.int64, U64, Coder]:
    """Code the elements of a part, up to the last index.

    Args:
        data: as in ``walk``.
        contexts: (_CONTEXTS,) u32, the adaptive states.
        indices: as in ``walk``.
        history: u16 per column from the first element on; (0,) without rows.
        first: the first element.
        count: number of elements.
        flagged: whether a flag indicates that one of them is present.
        writes: as in ``walk``.
        j: number of indices before ``first``.
        window: the last 32 elements as bits, the latest in the lowest bit.
        coder: the current coder.

    Returns:
        (j, window, coder) after the part.
    """
    before = j
    for n in range(count):
        promised = flagged and j == before
        bit = True
        if not promised or n + 1 < count:
            kind = np.int64(n) if promised else np.int64(_OTHER)
            if not flagged and history[n] != U16(0):
                ones = popcount(U64(history[n]))
                kind = _OTHER - 1 + 2 * min(ones, 3 + (ones >> 1)) + np.int64(history[n] & U16(1))
            context = _BITS + 2 * (kind * _CLASSES + np.int64(_CLASS[popcount(window)]))
            context += np.int64(window & U64(1))
            bit, coder = code(data, contexts, context, writes and indices[j] == first + n, writes, coder)
        window = ((window << U64(1)) | U64(bit)) & _WINDOW
        if n < history.size:
            history[n] = U16((U32(history[n]) << U32(1)) | U32(bit))
        if bit:
            if not writes:
                indices[j] = U32(first + n)
            j += 1
            if j == indices.size:
                break
    return j, window, coder


@inline
def _end(data: Array, coder: Coder, writes: bool) -> int:
    """Return the length of a section that was written, or check the end of one that was read."""
    return finish(data, coder) if writes else _check_end(data, coder)


@kernel
def walk(data: Array, indices: Array, period: int, d: int, writes: bool) -> int:
    """Code every element of a chunk, up to the last that is present.

    Args:
        data: (n,) u8, the section after its header; the output if ``writes``.
        indices: (r,) u32, r > 0; the output unless ``writes``.
        period: elements per row, 0 for no rows.
        d: elements of the chunk.
        writes: True to encode the indices, False to decode the section.

    Returns:
        The section's length in bytes if ``writes``, which exceeds ``data.size`` if it did not fit. Otherwise
        0 or BAD_*.
    """
    contexts = _build_contexts(indices.size, d)
    history = np.zeros(period, np.uint16)
    coder = begin(data, writes)
    window = U64(0)
    activity = np.int64(0)
    j = np.int64(0)
    row = np.int64(0)
    while row < d:
        end = min(d, row + (period if period else d))
        for block in range(row, end, CONTEXT_BLOCK):
            if not writes and coder[2] > data.size + AHEAD:
                return BAD_LENGTH
            stop = min(end, block + CONTEXT_BLOCK)
            empty_columns = _is_empty(history, block - row, stop - row)
            if empty_columns:
                context = np.int64(_CLASS[min(activity, 32)])
                some, coder = code(data, contexts, context, writes and indices[j] < stop, writes, coder)
                if not some:
                    window = U64(0)
                    activity >>= 1
                    continue
            before = j
            for part in range(block, stop, CONTEXT_PART):
                count = min(stop - part, CONTEXT_PART)
                flagged = empty_columns or _is_empty(history, part - row, part - row + count)
                promised = empty_columns and j == before
                if flagged and not (promised and part + count == stop):
                    place = (part - block) // CONTEXT_PART if promised else _OTHER
                    context = _PARTS + place * _CLASSES + np.int64(_CLASS[popcount(window)])
                    some = writes and indices[j] < part + count
                    some, coder = code(data, contexts, context, some, writes, coder)
                    if not some:
                        window = (window << U64(count)) & _WINDOW
                        continue
                columns = history[part - row : part - row + count]
                j, window, coder = _code_part(
                    data, contexts, indices, columns, part, count, flagged, writes, j, window, coder
                )
                if j == indices.size:
                    return _end(data, coder, writes)
            activity = (activity + (j - before) + 1) >> 1
        row = end
    return BAD_LENGTH if coder[2] > data.size + AHEAD else BAD_COUNT


@inline_without_refcounts
def _check_end(data: Array, coder: Coder) -> np.int64:
    """Return 0 if a reader's section ends as a writer ends it, BAD_* otherwise."""
    low, _, at = coder
    if at != data.size + AHEAD:
        return np.int64(BAD_LENGTH)
    return np.int64(0) if low >> U64(24) == U64(0) else np.int64(BAD_END)


@kernel
def find_period(indices: Array) -> int:
    """Find the distance between present elements that is more frequent than the distances near it.

    Returns:
        The distance, from 64 to 16,384, or 0 if there is none.
    """
    r = indices.size
    counts = np.zeros(_MAX_PERIOD + _NEIGHBOURS + 1, np.int64)
    anchors = min(r, _ANCHORS)
    for anchor in range(anchors):
        at = (anchor * r) // anchors
        for other in range(at + 1, r):
            distance = np.int64(indices[other]) - np.int64(indices[at])
            if distance >= counts.size:
                break
            counts[distance] += 1
    best = np.int64(0)
    for stage in range(2):
        nearby = counts[_MIN_PERIOD - _NEIGHBOURS : _MIN_PERIOD + _NEIGHBOURS + 1].sum()
        for period in range(_MIN_PERIOD, _MAX_PERIOD + 1):
            excess = (2 * _NEIGHBOURS + 1) * counts[period] - nearby
            rare = excess <= 0 or excess * excess < 600 * (nearby - counts[period] + 4)
            if stage == 0:
                best = best if rare else max(best, excess)
            elif not rare and 8 * excess >= 7 * best:
                return period
            if period < _MAX_PERIOD:
                nearby += counts[period + _NEIGHBOURS + 1] - counts[period - _NEIGHBOURS]
    return 0

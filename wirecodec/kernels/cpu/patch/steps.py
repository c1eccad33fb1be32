"""Kernels of the value codec steps (formats/spec/patch.md): differences in the order of the numbers."""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.patch.rans import LEAST, has_ended, pull, push, read_states, write_states
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.layout import STEP_BITS

U64 = np.uint64
DIRECT = 16
"""Symbols that are differences themselves; each further one is half an octave of them."""
PRECISION = U64(STEP_BITS)
RAW = U64(16)
"""Raw bits of one step of the coder."""
FAULT, SHORT = -1, -2
"""Results for a section that is not valid, and for one that ends too early."""


@inline
def to_step(old: np.uint64, new: np.uint64, width: np.uint64, signed: np.uint64) -> np.uint64:
    """Return the difference of two elements in the order of the numbers, with its sign in bit 0."""
    mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - width)
    top = width - U64(1)
    a = old ^ ((U64(0) - (old >> top)) & (mask >> U64(1)) & (U64(0) - signed))
    b = new ^ ((U64(0) - (new >> top)) & (mask >> U64(1)) & (U64(0) - signed))
    d = (b - a) & mask
    return ((d << U64(1)) ^ (U64(0) - (d >> top))) & mask


@inline
def from_step(old: np.uint64, step: np.uint64, width: np.uint64, signed: np.uint64) -> np.uint64:
    """Return the element that is a difference away from another one."""
    mask = U64(0xFFFFFFFFFFFFFFFF) >> (U64(64) - width)
    top = width - U64(1)
    a = old ^ ((U64(0) - (old >> top)) & (mask >> U64(1)) & (U64(0) - signed))
    d = (step >> U64(1)) ^ (U64(0) - (step & U64(1)))
    b = (a + d) & mask
    return b ^ ((U64(0) - (b >> top)) & (mask >> U64(1)) & (U64(0) - signed))


@inline
def octave_of(step: np.uint64) -> np.uint64:
    """Return the number of the highest set bit."""
    return U64(63) - U64(leading_zeros(step))


@kernel
def find_steps(
    olds: Array, new: Array, signed: int, shift: int, steps: Array, rows: Array, counts: Array
) -> None:
    """Compute differences, and count their symbols by the row of the old element.

    Args:
        olds, new: (r,) unsigned.
        signed: 1 if the highest bit is a sign beside a magnitude, 0 for integers.
        shift: the row of an element is its upper bits without the sign, bits >> shift.
        steps: (r,) u64, written.
        rows: (r,) u16, written.
        counts: (rows, symbols) i64, incremented.
    """
    width, s, m = U64(8 * olds.itemsize), U64(shift), U64(counts.shape[0] - 1)
    for i in range(olds.size):
        old = U64(olds[i])
        step = to_step(old, U64(new[i]), width, U64(signed))
        row = (old >> s) & m
        steps[i], rows[i] = step, row
        symbol = step
        if step >= U64(DIRECT):
            octave = octave_of(step)
            symbol = U64(DIRECT - 8) + (octave << U64(1)) + ((step >> (octave - U64(1))) & U64(1))
        counts[row, symbol] += 1


@kernel
def subtract(olds: Array, new: Array, signed: int, steps: Array) -> None:
    """Compute differences, (r,) unsigned each."""
    width = U64(8 * olds.itemsize)
    for i in range(olds.size):
        steps[i] = to_step(U64(olds[i]), U64(new[i]), width, U64(signed))


@kernel
def add(olds: Array, steps: Array, signed: int, values: Array) -> None:
    """Compute the elements that are differences away from others, (r,) unsigned each."""
    width = U64(8 * olds.itemsize)
    for i in range(olds.size):
        values[i] = from_step(U64(olds[i]), U64(steps[i]), width, U64(signed))


@kernel
def write_steps(
    steps: Array,
    rows: Array,
    contexts: Array,
    frequencies: Array,
    cumulative: Array,
    states: Array,
    words: Array,
) -> int:
    """Encode differences, one per lane in turn; return the first word written.

    Args:
        steps, rows: as of ``find_steps``.
        contexts: (rows,) u8; a power of two.
        frequencies, cumulative: (contexts, symbols) u32, out of 2^12.
        states: (lanes,) u64, overwritten; a power of two.
        words: (n,) u32, written from the end; 6 r + 2 lanes at most.
    """
    at, mask = words.size, states.size - 1
    for lane in range(states.size):
        states[lane] = LEAST
    for i in range(steps.size - 1, -1, -1):
        x = states[i & mask]
        step, context = steps[i], contexts[rows[i]]
        symbol = step
        if step >= U64(DIRECT):
            octave = octave_of(step)
            symbol = U64(DIRECT - 8) + (octave << U64(1)) + ((step >> (octave - U64(1))) & U64(1))
            left = octave - U64(1)
            raw = step & ((U64(1) << left) - U64(1))
            while left > U64(0):
                bits = min(left, RAW)
                x, at = push(x, raw & ((U64(1) << bits) - U64(1)), U64(1), bits, words, at)
                raw >>= bits
                left -= bits
        x, at = push(
            x, U64(cumulative[context, symbol]), U64(frequencies[context, symbol]), PRECISION, words, at
        )
        states[i & mask] = x
    return write_states(states, words, at)


@kernel
def read_tables(data: Array, at: int, frequencies: Array, cumulative: Array, symbols: Array) -> int:
    """Read the table of each context; return the first byte after them, or -1 or -2 if one is not valid.

    Args:
        data: (n,) u8, the section.
        at: first byte of the tables.
        frequencies, cumulative, symbols: as of ``read_steps``, written.
    """
    places = symbols.shape[1]
    for context in range(frequencies.shape[0]):
        if at >= data.size:
            return SHORT
        count, total = np.int64(data[at]), 0
        at += 1
        if count > frequencies.shape[1]:
            return FAULT
        for symbol in range(frequencies.shape[1]):
            f = 0
            if symbol < count:
                if at >= data.size:
                    return SHORT
                f = np.int64(data[at])
                at += 1
            if f >= 128:
                if at >= data.size:
                    return SHORT
                upper = np.int64(data[at])
                at += 1
                if upper == 0 or upper > 32:
                    return FAULT
                f += (upper - 1) << 7
            frequencies[context, symbol], cumulative[context, symbol] = f, total
            total += f
        if total != places or frequencies[context, count - 1] == 0:
            return FAULT
        for symbol in range(count):
            first = np.int64(cumulative[context, symbol])
            for place in range(first, first + np.int64(frequencies[context, symbol])):
                symbols[context, place] = symbol
    return at


@kernel
def read_steps(
    olds: Array,
    signed: int,
    shift: int,
    contexts: Array,
    frequencies: Array,
    cumulative: Array,
    symbols: Array,
    states: Array,
    words: Array,
    values: Array,
) -> int:
    """Decode the bits of elements; return 0, or -1 if the section is not valid.

    Args:
        olds: (r,) unsigned.
        signed, shift: as of ``find_steps``.
        contexts, frequencies, cumulative: as of ``write_steps``.
        symbols: (contexts, 4096) u8, the symbol of each place.
        states: as of ``write_steps``.
        words: (n,) u32, the section's.
        values: (r,) unsigned, written.
    """
    width, s, m, low = U64(8 * olds.itemsize), U64(shift), U64(contexts.size - 1), U64(4095)
    at, mask = read_states(words, states), states.size - 1
    if at < 0:
        return FAULT
    for i in range(olds.size):
        old = U64(olds[i])
        context = contexts[(old >> s) & m]
        x = states[i & mask]
        symbol = U64(symbols[context, x & low])
        x, at = pull(
            x, U64(cumulative[context, symbol]), U64(frequencies[context, symbol]), PRECISION, words, at
        )
        step = symbol
        if symbol >= U64(DIRECT):
            code = symbol - U64(DIRECT - 8)
            left = (code >> U64(1)) - U64(1)
            step = U64(2) | (code & U64(1))
            if left + U64(2) > width:
                return FAULT
            first = ((left - U64(1)) & (RAW - U64(1))) + U64(1)
            while left > U64(0) and x != U64(0):
                bits = first
                first = RAW
                step = (step << bits) | (x & ((U64(1) << bits) - U64(1)))
                x, at = pull(x, x & ((U64(1) << bits) - U64(1)), U64(1), bits, words, at)
                left -= bits
        if x == U64(0) or (width < U64(64) and step >> width != U64(0)):
            return FAULT
        states[i & mask] = x
        values[i] = from_step(old, step, width, U64(signed))
    return 0 if has_ended(words, at, states) else FAULT

"""The entropy coder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes.

A block's values are dealt to lanes in runs, so that a value's neighbours are those before it in its lane.
Every lane has a state; what belongs to one step of all lanes lies side by side. The encoder goes over the
steps twice: forward for the contexts, which do not depend on what is coded how, and backward for the words.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.bounded_lanes import (
    bits16,
    contexts16,
    learn16,
    raw16,
    sign16,
    signs16,
    symbol16,
    symbols16,
)
from wirecodec.kernels.cpu.chosen import store_chosen
from wirecodec.kernels.cpu.jit import borrowing, inline, kernel
from wirecodec.kernels.cpu.taken import gathered, quotients, spread_chosen
from wirecodec.kernels.cpu.vector import greatest, load, mask_bits, resize, select, splat, store
from wirecodec.kernels.cpu.words import leading_zeros, popcount
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["BEHIND", "PAD", "lay", "read", "slots", "unlay", "walk", "write"]

U8 = np.uint8
U16 = np.uint16
U32 = np.uint32
U64 = np.uint64

ESCAPE, SYMBOLS, DIRECT = BOUNDED_ESCAPE, BOUNDED_ESCAPE + 1, 32
BITS = np.array([0] * 32 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4 + [24], np.uint8)
BASES = np.cumsum(np.concatenate([[0], 1 << BITS[:-1].astype(np.uint32)])).astype(np.uint32)
BASES[ESCAPE] = 0
"""What a symbol stands for: the least k, its unmodelled bits left out, and how many bits more say which."""
SLOTS = 4096
HALF = 12
"""Bits that one step takes, at most, of those that are not modelled."""
PAD, BEHIND = 256, 16
"""Words before those of a block in memory, more than a step can take; and after them, for whole vectors."""

FAST, SLOW, SIGN = 3, 5, 6
"""Averages forget a share of 2^-n with each value."""
MOST = (1 << 20) - 1
PLAIN = 13
"""The octave of the mean above which low bits are not modelled."""
A, B, Q0, Q1, ALIKE, LAST = range(6)
"""What a lane knows: two means, how often signs stay, whether the last did, the last."""


@borrowing
def _begin(known: Array, start: int) -> None:
    """Lanes that know a mean, as the number of its half octave, and nothing else."""
    mean = (U32(2 + (start & 1)) << U32((start >> 1) + 1)) - U32(4)
    for lane in range(known.shape[1]):
        known[A, lane] = mean
        known[B, lane] = mean
        known[Q0, lane] = U32(1 << 15)
        known[Q1, lane] = U32(1 << 15)
        known[ALIKE, lane] = U32(0)
        known[LAST, lane] = U32(0)


@borrowing
def _rows(known: Array, rows: Array, shifts: Array, at: int, count: int) -> None:
    """The row of the tables and the number of unmodelled bits, lane by lane."""
    for lane in range(count):
        w = U32(((known[A, lane] + known[B, lane]) >> U32(1)) + U32(4))
        octave = U32(63 - leading_zeros(U64(w)))
        half = U32((w >> U32(octave - U32(1))) & U32(1))
        plain = min(octave, U32(PLAIN + 1))
        rows[at + lane] = U8(U32(2) * (plain - U32(2)) + half)
        shifts[at + lane] = U8(U32(octave - min(octave, U32(PLAIN))))


@borrowing
def _magnitudes(known: Array, codes: Array, at: int, count: int) -> None:
    """Means, after the values of a step."""
    for lane in range(count):
        k = min(U32(codes[at + lane] >> U32(1)), U32(MOST))
        a, b = known[A, lane], known[B, lane]
        known[A, lane] = U32(U32(a - U32((a + U32(7)) >> U32(3))) + U32(k << U32(7)))
        known[B, lane] = U32(U32(b - U32((b + U32(31)) >> U32(5))) + U32(k << U32(5)))


@borrowing
def _chances(known: Array, chances: Array, count: int) -> None:
    """Of 4096, how often a sign is expected to be the last one's, lane by lane."""
    for lane in range(count):
        q = known[Q1, lane] if known[ALIKE, lane] != U32(0) else known[Q0, lane]
        chances[lane] = min(max(U32(q >> U32(4)), U32(32)), U32(SLOTS - 32))


@borrowing
def _signs(known: Array, codes: Array, at: int, zero: int, count: int) -> None:
    """What is known of signs, after those of a step."""
    for lane in range(count):
        code = codes[at + lane]
        sign = U32(code & U32(1))
        same = sign == known[LAST, lane]
        second = known[ALIKE, lane] != U32(0)
        q = known[Q1, lane] if second else known[Q0, lane]
        up = U32(q + U32(U32(U32(1 << 16) - q) >> U32(SIGN)))
        q = up if same else U32(q - U32(q >> U32(SIGN)))
        coded = zero == 0 or code >= U32(2)
        known[Q1, lane] = q if coded and second else known[Q1, lane]
        known[Q0, lane] = q if coded and not second else known[Q0, lane]
        known[ALIKE, lane] = U32(same) if coded else known[ALIKE, lane]
        known[LAST, lane] = sign if coded else known[LAST, lane]


@borrowing
def _symbol(token: U32) -> U32:
    """The symbol of k, its unmodelled bits left out."""
    if token < U32(DIRECT):
        return token
    octave = U32(63 - leading_zeros(U64(token)))
    return min(
        U32(U32(U32(octave << U32(2)) + U32(U32(token >> U32(octave - U32(2))) & U32(3))) + U32(12)),
        U32(ESCAPE),
    )


@kernel
def lay(codes: Array, lanes: int, out: Array) -> None:
    """Values in the order of steps, from their own order; ``unlay`` is the inverse."""
    steps, more = codes.size // lanes, codes.size % lanes
    for first in range(0, steps, 32):
        stop = min(first + 32, steps)
        for lane in range(lanes):
            start = lane * steps + min(lane, more)
            for i in range(first, stop):
                out[i * lanes + lane] = codes[start + i]
    for lane in range(more):
        out[steps * lanes + lane] = codes[(lane + 1) * (steps + 1) - 1]


@kernel
def unlay(codes: Array, lanes: int, out: Array) -> None:
    """Values in their own order, from the order of steps."""
    steps, more = codes.size // lanes, codes.size % lanes
    for first in range(0, steps, 32):
        stop = min(first + 32, steps)
        for lane in range(lanes):
            start = lane * steps + min(lane, more)
            for i in range(first, stop):
                out[start + i] = codes[i * lanes + lane]
    for lane in range(more):
        out[(lane + 1) * (steps + 1) - 1] = codes[steps * lanes + lane]


@kernel
def walk(
    codes: Array,
    lanes: int,
    zero: int,
    start: int,
    rows: Array,
    shifts: Array,
    symbols: Array,
    signs: Array,
    counts: Array,
) -> None:
    """The contexts of a block, and how often each symbol occurs in each row.

    Args:
        codes: (m,) u32, 2k + sign, in the order of steps.
        lanes: how many there are.
        zero: 1 where a value of k = 0 has no sign.
        start: the half octave that lanes begin with.
        rows, shifts, symbols: (m,) u8, written.
        signs: (m,) u32, written: frequency · 4096 + start of each sign.
        counts: (ROWS, ESCAPE + 1) u32, added to.
    """
    known = np.empty((6, lanes), np.uint32)
    chances = np.empty(lanes, np.uint32)
    unsigned = U32(2 * zero)
    _begin(known, start)
    for at in range(0, codes.size, lanes):
        count = min(lanes, codes.size - at)
        if count == 32:
            for half in range(0, 32, 16):
                code = load(codes, at + half, 16)
                row, shift = contexts16(known, half)
                store(rows, at + half, resize(row, 8))
                store(shifts, at + half, resize(shift, 8))
                store(symbols, at + half, resize(symbols16((code >> 1) >> shift), 8))
                store(signs, at + half, signs16(known, half, code, unsigned))
                learn16(known, half, code, unsigned)
        else:
            _rows(known, rows, shifts, at, count)
            _chances(known, chances, count)
            for lane in range(count):
                code, f = codes[at + lane], chances[lane]
                same = U32(code & U32(1)) == known[LAST, lane]
                op = U32(f << U32(12)) if same else U32(U32(U32(SLOTS) - f) << U32(12)) + f
                signs[at + lane] = op if code >= unsigned else U32(SLOTS << 12)
                symbols[at + lane] = _symbol(U32(U32(code >> U32(1)) >> U32(shifts[at + lane])))
            _magnitudes(known, codes, at, count)
            _signs(known, codes, at, zero, count)
    for i in range(codes.size):
        counts[rows[i], symbols[i]] += U32(1)


@borrowing
def _push(states: Array, ops: Array, words: Array, p: int, count: int) -> int:
    """Code a step, each lane's ``frequency · 4096 + start``; where the next word goes."""
    if count == 32:
        for half in range(0, 32, 16):
            x = load(states, half, 16)
            need = (x >> 20) >= (load(ops, half, 16) >> 12)
            p += store_chosen(words, p, resize(x, 16), mask_bits(need))
            x = select(need, x >> 16, x)
            f = load(ops, half, 16) >> 12
            q = quotients(x, f)
            store(states, half, (q << 12) + (x - q * f) + (load(ops, half, 16) & 4095))
    else:
        for lane in range(count):
            x = states[lane]
            if U32(x >> U32(20)) >= U32(ops[lane] >> U32(12)):
                words[p] = U16(x & U32(0xFFFF))
                p += 1
                x = U32(x >> U32(16))
            f = U32(ops[lane] >> U32(12))
            q = U32(x // f)
            states[lane] = U32(U32(q << U32(12)) + U32(x - U32(q * f))) + U32(ops[lane] & U32(SLOTS - 1))
    return p


@borrowing
def _operations(
    codes: Array, at: int, count: int, rows: Array, shifts: Array, symbols: Array, table: Array, ops: Array
) -> np.uint32:
    """What codes a step but for its signs: low bits, other bits, symbols; the greatest number of bits."""
    most = U32(0)
    for lane in range(count):
        k = U32(codes[at + lane] >> U32(1))
        shift, symbol = U32(shifts[at + lane]), U32(symbols[at + lane])
        op = table[rows[at + lane], symbol]
        if op == U32(0) or symbol == U32(ESCAPE):
            symbol, shift = U32(ESCAPE), U32(0)
            op = table[rows[at + lane], ESCAPE]
        bits = U32(BITS[symbol] + shift)
        rest = U32(k & U32((U32(1) << bits) - U32(1)))
        low = min(bits, U32(HALF))
        f = U32(SLOTS) >> low
        ops[0, lane] = U32(f << U32(12)) + U32(U32(rest & U32((U32(1) << low) - U32(1))) * f)
        f = U32(SLOTS) >> U32(bits - low)
        ops[1, lane] = U32(f << U32(12)) + U32(U32(rest >> low) * f)
        ops[2, lane] = op
        most = max(most, bits)
    return most


@borrowing
def _operations_32(
    codes: Array, at: int, rows: Array, shifts: Array, symbols: Array, flat: Array, pair: Array
) -> np.uint32:
    """``_operations`` of 32 lanes; ``flat`` and ``pair`` are table and operations in one dimension."""
    most = U32(0)
    for half in range(0, 32, 16):
        row, shift = resize(load(rows, at + half, 16), 32), resize(load(shifts, at + half, 16), 32)
        symbol, k = resize(load(symbols, at + half, 16), 32), load(codes, at + half, 16) >> 1
        op = gathered(flat, row * SYMBOLS + symbol)
        absent = op == 0
        if mask_bits(absent):
            symbol = select(absent, splat(U32(ESCAPE), 16), symbol)
            op = gathered(flat, row * SYMBOLS + symbol)
        bits = bits16(symbol, shift)
        longest = greatest(bits)
        if longest > U32(0):
            low = select(bits < HALF, bits, splat(U32(HALF), 16))
            rest = k & ((splat(U32(1), 16) << bits) - 1)
            f = splat(U32(SLOTS), 16) >> low
            store(pair, half, (f << 12) + (rest & ((splat(U32(1), 16) << low) - 1)) * f)
            f = splat(U32(SLOTS), 16) >> (bits - low)
            store(pair, 32 + half, (f << 12) + (rest >> low) * f)
        else:
            store(pair, half, splat(U32(SLOTS << 12), 16))
            store(pair, 32 + half, splat(U32(SLOTS << 12), 16))
        store(pair, 64 + half, op)
        most = max(most, longest)
    return most


@kernel
def write(
    codes: Array,
    lanes: int,
    rows: Array,
    shifts: Array,
    symbols: Array,
    signs: Array,
    table: Array,
    states: Array,
    words: Array,
) -> int:
    """The words of a block, last step first; how many.

    Args:
        codes: as of ``walk``.
        lanes: as of ``walk``.
        rows, shifts, symbols, signs: as ``walk`` wrote them.
        table: (ROWS, ESCAPE + 1) u32, frequency · 4096 + start, or 0 of what is to be escaped.
        states: (lanes,) u32, written.
        words: room for 4 m + 32 u16, written.
    """
    states[:] = U32(1 << 16)
    ops = np.empty((3, lanes), np.uint32)
    pair, flat = ops.reshape(-1), table.reshape(-1)
    p = 0
    last = (codes.size - 1) // lanes * lanes
    for at in range(last, -1, -lanes):
        count = min(lanes, codes.size - at)
        p = _push(states, signs[at : at + count], words, p, count)
        if count == 32:
            most = _operations_32(codes, at, rows, shifts, symbols, flat, pair)
        else:
            most = _operations(codes, at, count, rows, shifts, symbols, table, ops)
        if most > U32(HALF):
            p = _push(states, ops[1], words, p, count)
        if most > U32(0):
            p = _push(states, ops[0], words, p, count)
        p = _push(states, ops[2], words, p, count)
    return p


@borrowing
def _refill(states: Array, words: Array, p: int, count: int) -> int:
    """A word for every state below 2^16, the last lane's first; where the words end that are left."""
    for lane in range(count - 1, -1, -1):
        if states[lane] < U32(1 << 16):
            p -= 1
            states[lane] = U32(states[lane] << U32(16)) | U32(words[p])
    return p


@inline
def _refilled(x: Any, words: Array, p: int) -> tuple[Any, int]:
    """The same for 16 states."""
    low = x < 65536
    need = mask_bits(low)
    p -= popcount(need)
    return select(low, (x << 16) | spread_chosen(words, p, need, 16, 32), x), p


@inline
def _low16(bits: Any) -> Any:
    """Bits of which the first of two steps takes what it can."""
    return select(bits < HALF, bits, splat(U32(HALF), 16))


@inline
def _base16(symbol: Any, shift: Any) -> Any:
    """The least number of each symbol."""
    wide = ((symbol & 3) + 4) << ((symbol >> 2) - 5)
    base = select(symbol < DIRECT, symbol, wide) << shift
    return select(symbol == ESCAPE, splat(U32(0), 16), base)


@kernel
def slots(table: Array, out: Array) -> None:
    """What each of 4096 slots of a row says: symbol · 2^24 + (frequency - 1) · 2^12 + slot - start."""
    for row in range(table.shape[0]):
        for symbol in range(table.shape[1]):
            op = table[row, symbol]
            f, start = op >> U32(12), op & U32(SLOTS - 1)
            for i in range(f):
                out[row, start + U32(i)] = U32(symbol << 24) | U32((f - U32(1)) << U32(12)) | U32(i)


@borrowing
def _read_32(
    words: Array, p: int, known: Array, states: Array, flat: Array, codes: Array, at: int, zero: int
) -> int:
    """A step of ``read``, of all lanes; where the words end that are left."""
    row0, shift0 = contexts16(known, 0)
    row1, shift1 = contexts16(known, 16)
    x0, s0 = symbol16(load(states, 0, 16), row0, flat)
    x1, s1 = symbol16(load(states, 16, 16), row1, flat)
    x1, p = _refilled(x1, words, p)
    x0, p = _refilled(x0, words, p)
    bits0, bits1 = bits16(s0, shift0), bits16(s1, shift1)
    most = max(greatest(bits0), greatest(bits1))
    if most > U32(0):
        low0, low1 = _low16(bits0), _low16(bits1)
        x0, k0 = raw16(x0, low0)
        x1, k1 = raw16(x1, low1)
        s0, s1 = _base16(s0, shift0) + k0, _base16(s1, shift1) + k1
        x1, p = _refilled(x1, words, p)
        x0, p = _refilled(x0, words, p)
        if most > U32(HALF):
            x0, k0 = raw16(x0, bits0 - low0)
            x1, k1 = raw16(x1, bits1 - low1)
            s0, s1 = s0 + (k0 << HALF), s1 + (k1 << HALF)
            x1, p = _refilled(x1, words, p)
            x0, p = _refilled(x0, words, p)
    x0, s0 = sign16(known, 0, x0, s0, U32(zero))
    x1, s1 = sign16(known, 16, x1, s1, U32(zero))
    x1, p = _refilled(x1, words, p)
    x0, p = _refilled(x0, words, p)
    store(states, 0, x0)
    store(states, 16, x1)
    store(codes, at, s0)
    store(codes, at + 16, s1)
    learn16(known, 0, s0, U32(2 * zero))
    learn16(known, 16, s1, U32(2 * zero))
    return p


@borrowing
def _read_numbers(
    words: Array, p: int, states: Array, table: Array, rows: Array, shifts: Array, more: Array, part: Array
) -> int:
    """The k of a step's lanes, into ``part``; where the words end that are left."""
    count = part.size
    most = U32(0)
    for lane in range(count):
        x = states[lane]
        slot, symbol = U32(x & U32(SLOTS - 1)), 0
        while symbol < ESCAPE and slot >= U32(table[rows[lane], symbol] >> U32(12)):
            slot = U32(slot - U32(table[rows[lane], symbol] >> U32(12)))
            symbol += 1
        f = U32(table[rows[lane], symbol] >> U32(12))
        states[lane] = U32(U32(f * U32(x >> U32(12))) + slot)
        part[lane] = U32(symbol)
        most = max(most, U32(U32(part[lane]) + U32(shifts[lane]) * U32(64)))
    p = _refill(states, words, p, count)
    if most >= U32(DIRECT):
        most = U32(0)
        for lane in range(count):
            x, symbol = states[lane], part[lane]
            shift = U32(0) if symbol == U32(ESCAPE) else U32(shifts[lane])
            more[lane] = BITS[symbol] + shift
            most = max(most, more[lane])
            bits = min(more[lane], U32(HALF))
            f = U32(SLOTS) >> bits
            low = U32(x & U32(SLOTS - 1)) >> U32(U32(HALF) - bits)
            states[lane] = U32(f * U32(x >> U32(12))) + U32(U32(x & U32(SLOTS - 1)) - U32(low * f))
            part[lane] = U32(BASES[symbol] << shift) + low
        p = _refill(states, words, p, count)
        if most > U32(HALF):
            for lane in range(count):
                x = states[lane]
                bits = U32(more[lane] - min(more[lane], U32(HALF)))
                f = U32(SLOTS) >> bits
                high = U32(x & U32(SLOTS - 1)) >> U32(U32(HALF) - bits)
                states[lane] = U32(f * U32(x >> U32(12))) + U32(U32(x & U32(SLOTS - 1)) - U32(high * f))
                part[lane] += U32(high << U32(HALF))
            p = _refill(states, words, p, count)
    return p


@kernel
def read(
    words: Array,
    lanes: int,
    zero: int,
    start: int,
    states: Array,
    table: Array,
    found: Array,
    codes: Array,
) -> bool:
    """A block's values from its words.

    Args:
        words: PAD of any value, the block's, and BEHIND.
        lanes, zero, start: as of ``walk``.
        states: (lanes,) u32, each at least 2^16, changed.
        table: as of ``write``.
        found: (ROWS, 4096) u32, as ``slots`` writes them; (0, 4096) where there are not 32 lanes.
        codes: (m,) u32, written in the order of steps.

    Returns whether all words were taken, no more, and each state is 2^16 at last.
    """
    known = np.empty((6, lanes), np.uint32)
    chances = np.empty(lanes, np.uint32)
    rows = np.empty(lanes, np.uint8)
    shifts = np.empty(lanes, np.uint8)
    more = np.empty(lanes, np.uint32)
    _begin(known, start)
    flat = found.reshape(-1)
    p = words.size - BEHIND
    for at in range(0, codes.size, lanes):
        count = min(lanes, codes.size - at)
        if count == 32:
            p = _read_32(words, p, known, states, flat, codes, at, zero)
            if p < PAD:
                return False
            continue
        part = codes[at : at + count]
        _rows(known, rows, shifts, 0, count)
        _chances(known, chances, count)
        p = _read_numbers(words, p, states, table, rows, shifts, more, part)
        for lane in range(count):
            x, k, f = states[lane], part[lane], chances[lane]
            slot = U32(x & U32(SLOTS - 1))
            same = slot < f
            coded = zero == 0 or k != U32(0)
            taken = f if same else U32(U32(SLOTS) - f)
            after = U32(U32(taken * U32(x >> U32(12))) + U32(slot if same else U32(slot - f)))
            states[lane] = after if coded else x
            sign = U32(known[LAST, lane] ^ U32(0 if same else 1))
            part[lane] = U32(U32(k << U32(1)) | (sign if coded else U32(0)))
        p = _refill(states, words, p, count)
        if p < PAD:
            return False
        _magnitudes(known, part, 0, count)
        _signs(known, part, 0, zero, count)
    right = p == PAD
    for lane in range(lanes):
        right &= states[lane] == U32(1 << 16)
    return right

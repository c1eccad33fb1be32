"""The entropy coder of error-bounded (formats/spec/value/error-bounded.md): contexts, and rANS in lanes.

A block's values are dealt to lanes in runs, so that a value's neighbours are those before it in its lane.
Every lane has a state; what belongs to one step of all lanes lies side by side. The encoder goes over the
steps twice: forward for the contexts, which do not depend on what is coded how, and backward for the words.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels.cpu.chosen import store_chosen
from wirecodec.kernels.cpu.jit import borrowing, kernel
from wirecodec.kernels.cpu.taken import spread_chosen
from wirecodec.kernels.cpu.vector import load, mask_bits, resize, select, store
from wirecodec.kernels.cpu.words import leading_zeros, popcount
from wirecodec.kernels.layout import BOUNDED_ESCAPE

__all__ = ["PAD", "lay", "read", "slots", "unlay", "walk", "write"]

U8 = np.uint8
U16 = np.uint16
U32 = np.uint32
U64 = np.uint64
F64 = np.float64

ESCAPE, DIRECT = BOUNDED_ESCAPE, 32
BITS = np.array([0] * 32 + [3] * 4 + [4] * 4 + [5] * 4 + [6] * 4 + [24], np.uint8)
BASES = np.cumsum(np.concatenate([[0], 1 << BITS[:-1].astype(np.uint32)])).astype(np.uint32)
BASES[ESCAPE] = 0
"""What a symbol stands for: the least k, its unmodelled bits left out, and how many bits more say which."""
SLOTS = 4096
HALF = 12
"""Bits that one step takes, at most, of those that are not modelled."""
PAD = 256
"""Words before those of a block in memory: more than a step can take."""

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
    codes: Array, lanes: int, zero: int, start: int, rows: Array, shifts: Array, signs: Array, counts: Array
) -> None:
    """The contexts of a block, and how often each symbol occurs in each row.

    Args:
        codes: (m,) u32, 2k + sign, in the order of steps.
        lanes: how many there are.
        zero: 1 where a value of k = 0 has no sign.
        start: the half octave that lanes begin with.
        rows, shifts: (m,) u8, written.
        signs: (m,) u32, written: frequency · 4096 + start of each sign.
        counts: (ROWS, ESCAPE + 1) u32, added to.
    """
    known = np.empty((6, lanes), np.uint32)
    chances = np.empty(lanes, np.uint32)
    _begin(known, start)
    for at in range(0, codes.size, lanes):
        count = min(lanes, codes.size - at)
        _rows(known, rows, shifts, at, count)
        _chances(known, chances, count)
        for lane in range(count):
            code = codes[at + lane]
            f = chances[lane]
            same = U32(code & U32(1)) == known[LAST, lane]
            op = U32(f << U32(12)) if same else U32(U32(U32(SLOTS) - f) << U32(12)) + f
            signs[at + lane] = op if zero == 0 or code >= U32(2) else U32(SLOTS << 12)
        for lane in range(count):
            symbol = _symbol(U32(U32(codes[at + lane] >> U32(1)) >> U32(shifts[at + lane])))
            counts[rows[at + lane], symbol] += U32(1)
        _magnitudes(known, codes, at, count)
        _signs(known, codes, at, zero, count)


@borrowing
def _push(states: Array, ops: Array, words: Array, p: int, count: int) -> int:
    """Code a step, each lane's ``frequency · 4096 + start``; where the next word goes."""
    if count == 32:
        for half in range(0, 32, 16):
            x = load(states, half, 16)
            need = (x >> 20) >= (load(ops, half, 16) >> 12)
            p += store_chosen(words, p, resize(x, 16), mask_bits(need))
            store(states, half, select(need, x >> 16, x))
    else:
        for lane in range(count):
            x = states[lane]
            if U32(x >> U32(20)) >= U32(ops[lane] >> U32(12)):
                words[p] = U16(x & U32(0xFFFF))
                p += 1
                states[lane] = U32(x >> U32(16))
    for lane in range(count):
        x, f = states[lane], U32(ops[lane] >> U32(12))
        q = U32(np.int64(F64(x) / F64(f)))
        states[lane] = U32(U32(q << U32(12)) + U32(x - U32(q * f))) + U32(ops[lane] & U32(SLOTS - 1))
    return p


@kernel
def write(
    codes: Array,
    lanes: int,
    rows: Array,
    shifts: Array,
    signs: Array,
    table: Array,
    states: Array,
    words: Array,
) -> int:
    """The words of a block, last step first; how many.

    Args:
        codes: as of ``walk``.
        lanes: as of ``walk``.
        rows, shifts, signs: as ``walk`` wrote them.
        table: (ROWS, ESCAPE + 1) u32, frequency · 4096 + start, or 0 of what is to be escaped.
        states: (lanes,) u32, written.
        words: room for 4 m + 32 u16, written.
    """
    states[:] = U32(1 << 16)
    ops = np.empty((3, lanes), np.uint32)
    p = 0
    last = (codes.size - 1) // lanes * lanes
    for at in range(last, -1, -lanes):
        count = min(lanes, codes.size - at)
        p = _push(states, signs[at : at + count], words, p, count)
        most = U32(0)
        for lane in range(count):
            k = U32(codes[at + lane] >> U32(1))
            shift = U32(shifts[at + lane])
            symbol = _symbol(U32(k >> shift))
            op = table[rows[at + lane], symbol]
            if op == U32(0) or symbol == U32(ESCAPE):
                symbol = U32(ESCAPE)
                op = table[rows[at + lane], ESCAPE]
                shift = U32(0)
            bits = U32(BITS[symbol] + shift)
            rest = U32(k & U32((U32(1) << bits) - U32(1)))
            low = min(bits, U32(HALF))
            f = U32(SLOTS) >> low
            ops[0, lane] = U32(f << U32(12)) + U32(U32(rest & U32((U32(1) << low) - U32(1))) * f)
            f = U32(SLOTS) >> U32(bits - low)
            ops[1, lane] = U32(f << U32(12)) + U32(U32(rest >> low) * f)
            ops[2, lane] = op
            most = max(most, bits)
        if most > U32(HALF):
            p = _push(states, ops[1], words, p, count)
        if most > U32(0):
            p = _push(states, ops[0], words, p, count)
        p = _push(states, ops[2], words, p, count)
    return p


@borrowing
def _refill(states: Array, words: Array, p: int, count: int) -> int:
    """A word for every state below 2^16, the last lane's first; where the words end that are left."""
    if count == 32:
        for half in (16, 0):
            x = load(states, half, 16)
            need = mask_bits(x < 65536)
            p -= popcount(need)
            store(states, half, select(x < 65536, (x << 16) | spread_chosen(words, p, need, 16, 32), x))
    else:
        for lane in range(count - 1, -1, -1):
            if states[lane] < U32(1 << 16):
                p -= 1
                states[lane] = U32(states[lane] << U32(16)) | U32(words[p])
    return p


@kernel
def slots(table: Array, out: Array) -> None:
    """What each of 4096 slots of a row says: symbol · 2^24 + (frequency - 1) · 2^12 + slot - start."""
    for row in range(table.shape[0]):
        for symbol in range(table.shape[1]):
            op = table[row, symbol]
            f, start = op >> U32(12), op & U32(SLOTS - 1)
            for i in range(f):
                out[row, start + U32(i)] = U32(symbol << 24) | U32((f - U32(1)) << U32(12)) | U32(i)


@kernel
def read(words: Array, lanes: int, zero: int, start: int, states: Array, found: Array, codes: Array) -> bool:
    """A block's values from its words.

    Args:
        words: PAD of any value, and the block's.
        lanes, zero, start: as of ``walk``.
        states: (lanes,) u32, each at least 2^16, changed.
        found: (ROWS, 4096) u32, as ``slots`` writes them.
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
    p = words.size
    for at in range(0, codes.size, lanes):
        count = min(lanes, codes.size - at)
        _rows(known, rows, shifts, 0, count)
        _chances(known, chances, count)
        most = U32(0)
        part = codes[at : at + count]
        for lane in range(count):
            x = states[lane]
            entry = flat[U64(U32(U32(rows[lane]) << U32(12)) | U32(x & U32(SLOTS - 1)))]
            f = U32(U32(entry >> U32(12)) & U32(SLOTS - 1)) + U32(1)
            states[lane] = U32(U32(f * U32(x >> U32(12))) + U32(entry & U32(SLOTS - 1)))
            part[lane] = U32(entry >> U32(24))
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

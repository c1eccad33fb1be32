"""Value codec steps (formats/spec/patch.md): changes as differences in the order of the numbers."""

from __future__ import annotations

import struct
from functools import cache

import numpy as np

from wirecodec.arrays import Array, Bytes, read_only
from wirecodec.errors import Invalid, Malformed
from wirecodec.kernels.layout import STEP_BITS, STEP_SYMBOLS
from wirecodec.limits import DecodeLimits
from wirecodec.patch.positions import count_rows, is_shift
from wirecodec.value.zstd import Zstd

HEAD = struct.Struct("<BBBB")
STEPS = 16
"""Wire id of the value codec."""
STEPS_ZSTD = 17
"""Wire id of the value codec of differences in a Zstandard frame."""
MAX_CONTEXTS, LANES, LEAST_OF_LANES = 16, 4, 256
TOTAL = 1 << STEP_BITS


@cache
def _logarithms() -> Array:
    """Return log2(1 + i / 2^12) in units of 2^-32: (2^12 + 1,) u64."""
    return read_only(np.rint(np.log2(1 + np.arange(2**12 + 1) / 2**12) * 2**32).astype(np.uint64))


def choose_contexts(counts: Array) -> Array:
    """Join neighbouring rows to contexts while that saves bits.

    Args:
        counts: (rows, symbols) i64, of which some are not 0.

    Returns the first row of each context, (n,) ascending from 0.
    """
    from wirecodec.kernels.cpu.patch import contexts as kernels

    starts = np.empty(counts.shape[0], np.int64)
    found = starts[: kernels.join_rows(counts.copy(), MAX_CONTEXTS, _logarithms(), starts)]
    found[0] = 0
    return found


def normalise(counts: Array) -> Array:
    """Return frequencies that add up to 2^12 per context, at least 1 for each symbol that occurs.

    Args:
        counts: (contexts, symbols) i64, of which each context has some.
    """
    scaled = np.maximum(counts * TOTAL // counts.sum(axis=1, keepdims=True), counts > 0)
    most = counts.argmax(axis=1)
    for context, excess in enumerate((scaled.sum(axis=1) - TOTAL).tolist()):
        if excess < 0:
            scaled[context, most[context]] -= excess
        left = excess
        while left > 0:
            largest = int(scaled[context].argmax())
            less = min(left, max(1, int(scaled[context, largest]) // 2))
            scaled[context, largest] -= less
            left -= less
    frequencies: Array = scaled.astype(np.uint32)
    return frequencies


def _write_tables(frequencies: Array) -> bytes:
    """Write the table of each context: the number of its symbols, and a byte or two for each."""
    contexts, symbols = frequencies.shape
    counts = symbols - (frequencies[:, ::-1] > 0).argmax(axis=1)
    out, is_written = (
        np.zeros((contexts, 1 + 2 * symbols), np.uint8),
        np.zeros((contexts, 1 + 2 * symbols), bool),
    )
    out[:, 0], is_written[:, 0] = counts, True
    is_long = frequencies >= 128
    out[:, 1::2], out[:, 2::2] = frequencies & 127 | is_long * np.uint32(128), frequencies >> 7
    is_written[:, 1::2] = np.arange(symbols) < counts[:, None]
    is_written[:, 2::2] = is_long
    return out[is_written].tobytes()


def _contexts_of_rows(starts: Array, rows: int) -> Array:
    """Return the context of each row."""
    return (np.searchsorted(starts, np.arange(rows), side="right") - 1).astype(np.uint8)


def encode(olds: Array, new: Array, *, signed: bool, shift: int | None) -> Bytes:
    """Encode the new bits of elements as a section.

    Args:
        olds, new: (r,) unsigned, r > 0.
        signed: whether the highest bit is a sign beside a magnitude.
        shift: of the rows of the old elements; None for one context.
    """
    from wirecodec.kernels.cpu.patch import steps as kernels

    width = 8 * olds.itemsize
    counts = np.zeros((1 if shift is None else count_rows(width, shift), STEP_SYMBOLS), np.int64)
    steps, rows = np.empty(new.size, np.uint64), np.empty(new.size, np.uint16)
    kernels.find_steps(read_only(olds), new, int(signed), shift or 0, steps, rows, counts)
    starts = choose_contexts(counts)
    frequencies = normalise(np.add.reduceat(counts, starts, axis=0))
    cumulative = (np.cumsum(frequencies, axis=1) - frequencies).astype(np.uint32)
    wide = 3 + int(steps.max() >> np.uint64(40) > 0) * 3
    states = np.empty(LANES if new.size >= LEAST_OF_LANES else 1, np.uint64)
    words = np.empty(wide * new.size + 16, np.uint32)
    contexts = _contexts_of_rows(starts, counts.shape[0])
    at = kernels.write_steps(steps, rows, contexts, frequencies, cumulative, states, words)
    flags = int(signed) | (int(states.size > 1) << 1)
    head = HEAD.pack(0, flags, 0 if shift is None or starts.size == 1 else shift, starts.size)
    head += starts[1:].astype("<u2").tobytes() + _write_tables(frequencies)
    return np.concatenate([np.frombuffer(head + bytes(-len(head) % 4), np.uint8), words[at:].view(np.uint8)])


def count_contexts(section: Bytes) -> int:
    """Return the number of contexts of a section; 0 if it has none. With one, values need no old elements."""
    return int(section[3]) if section.size >= HEAD.size else 0


def encode_planes(olds: Array, new: Array, *, signed: bool, level: int) -> Bytes:
    """Encode the differences of elements (r,) as the codec zstd does unsigned integers."""
    from wirecodec.kernels.cpu.patch import steps as kernels

    steps = np.empty_like(olds)
    kernels.subtract(read_only(olds), new, int(signed), steps)
    frame = Zstd(level=level).encode(steps, 0)
    return np.append(np.uint8(signed), frame)


def decode_planes(section: Bytes, olds: Array, limits: DecodeLimits) -> Array:
    """Decode the new bits (r,) of elements. Raises WireError."""
    from wirecodec.kernels.cpu.patch import steps as kernels

    if section[0] > 1 or section.size < 2:
        raise Malformed("steps-head", "the section's first byte is not 0 or 1")
    steps = Zstd.decode(section[1:], olds.size, olds.dtype, limits)
    values = np.empty_like(olds)
    kernels.add(read_only(olds), steps, int(section[0]), values)
    return values


def decode(section: Bytes, olds: Array) -> Array:
    """Decode the new bits (r,) of elements that had the bits ``olds``. Raises Malformed or Invalid."""
    from wirecodec.kernels.cpu.patch import steps as kernels

    width = 8 * olds.itemsize
    if section.size < HEAD.size or section.size % 4:
        raise Malformed("steps-length", f"a section of {section.size} bytes")
    reserved, flags, shift, n = HEAD.unpack(section[: HEAD.size].tobytes())
    fits = (1 < n <= MAX_CONTEXTS and is_shift(width, shift)) or (n, shift) == (1, 0)
    if reserved or flags > 3 or not fits:
        raise Malformed("steps-head", "the section's head is not valid")
    at = HEAD.size + 2 * (n - 1)
    if at > section.size:
        raise Malformed("steps-length", f"a section of {section.size} bytes")
    rows = count_rows(width, shift) if n > 1 else 1
    starts = np.append(0, section[HEAD.size : at].view("<u2")).astype(np.int64)
    if (np.diff(starts) <= 0).any() or starts[-1] >= rows:
        raise Invalid("steps-contexts", "the contexts do not ascend, or are beyond the rows")
    frequencies, cumulative = np.empty((2, n, STEP_SYMBOLS), np.uint32)
    symbols = np.empty((n, TOTAL), np.uint8)
    at = kernels.read_tables(read_only(section), at, frequencies, cumulative, symbols)
    if at == kernels.FAULT:
        raise Invalid("steps-table", "a table has too many symbols, or frequencies that are not valid")
    end = at + -at % 4
    if at == kernels.SHORT or end > section.size or section[at:end].any():
        raise Malformed("steps-length", "the section ends within its head, or padding is not zero")
    values = np.empty_like(olds)
    contexts = _contexts_of_rows(starts, rows)
    words, states = section[end:].view(np.uint32), np.empty(LANES if flags & 2 else 1, np.uint64)
    if kernels.read_steps(
        read_only(olds), flags & 1, shift, contexts, frequencies, cumulative, symbols, states, words, values
    ):
        raise Invalid("steps-stream", "the coded differences are not valid")
    return values

"""Value codec 14, error-bounded: decoding (spec/value/error-bounded.md).

Cell numbers, coded by rANS in lanes.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass

from formats.reference.errors import Invalid, Malformed
from formats.reference.floats import (
    FLOAT32,
    Format,
    convert,
    largest_finite,
    pack_elements,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_elements,
)
from formats.reference.value.error_bounded_model import (
    BINS,
    ESCAPE,
    MAX_START,
    MIN_STEP,
    NONE,
    ONE,
    ROWS,
    STATE,
    SYMBOLS,
    Lane,
    default_levels,
    frequencies,
    lane_count,
    split_blocks,
    split_steps,
)


class _ByteReader:
    """A section's bytes, read from the front."""

    def __init__(self, section: bytes) -> None:
        self.section, self.at = section, 0

    def take(self, size: int) -> bytes:
        if self.at + size > len(self.section):
            raise Malformed("error-bounded-length", f"the section ends after {len(self.section)} bytes")
        self.at += size
        return self.section[self.at - size : self.at]


@dataclass
class _RansState:
    """States of the lanes, and the remaining words; the last word is read first."""

    states: list[int]
    words: list[int]

    def slot(self, lane: int) -> int:
        return self.states[lane] % ONE

    def advance(self, lane: int, f: int, start: int) -> None:
        state = self.states[lane]
        self.states[lane] = f * (state // ONE) + state % ONE - start

    def read_bits(self, lane: int, bits: int) -> int:
        """Read ``bits`` bits with equal probabilities."""
        f = ONE >> bits
        result = self.slot(lane) // f
        self.advance(lane, f, result * f)
        return result

    def refill(self, lanes: int) -> None:
        for lane in reversed(range(lanes)):
            if self.states[lane] < STATE:
                if not self.words:
                    raise Invalid("error-bounded-code", "no word remains")
                self.states[lane] = self.states[lane] << 16 | self.words.pop()


def decode_error_bounded(section: bytes, r: int, dtype: Format) -> bytes:
    """Decode cells of one width.

    Args:
        section: bytes of the value section.
        r: number of values, not 0.
        dtype: the element type.

    Returns:
        The elements' little-endian bytes.

    Raises:
        WireError: Malformed or Invalid.
    """
    form = section[0]
    if form == 0:
        return _read_exact(section[1:], r, dtype)
    if form > 2:
        raise Malformed("error-bounded-form", f"form is {form}; it must be 0 to 2")
    reader = _ByteReader(section)
    _, first, step, place, mask = struct.unpack("<BIIII", reader.take(17))
    most = largest_finite(dtype)
    if (
        first > most
        or not to_float32_bits(MIN_STEP) <= step < FLOAT32.infinity
        or place > to_float32_bits(1.0)
    ):
        raise Invalid("error-bounded-number", f"first, step, place are {first:#x}, {step:#x}, {place:#x}")
    if mask >> ROWS:
        raise Malformed("error-bounded-rows", f"mask is {mask:#x}")
    levels = default_levels(form)
    for row in range(ROWS):
        if mask >> row & 1:
            used, escape = reader.take(2)
            if used > BINS:
                raise Malformed("error-bounded-rows", f"used is {used}; it must be 0 to {BINS}")
            levels[row] = [*reader.take(used), *[NONE] * (BINS - used), escape]
    blocks = [(len(block), *_read_block(reader, len(block))) for block in split_blocks(r)]
    if reader.at != len(section):
        raise Malformed("error-bounded-length", f"{len(section) - reader.at} bytes follow the last block")
    table = [frequencies(row) for row in levels]
    codes: list[tuple[int, int | None]] = []
    for m, start, words in blocks:
        codes += _decode_values(m, start, words, table, form == 2)
    numbers = [to_float(n, FLOAT32) for n in (first, step, place)]
    return pack_elements([_to_element(k, sign, form, numbers, dtype) for k, sign in codes], dtype.itemsize)


def _read_exact(data: bytes, r: int, dtype: Format) -> bytes:
    if len(data) != r * dtype.itemsize:
        raise Malformed("error-bounded-length", f"{len(data)} bytes for {r} values")
    for word in unpack_elements(data, dtype.itemsize):
        if word & (dtype.sign - 1) >= dtype.infinity:
            raise Invalid("error-bounded-value", f"an element has the bits {word:#x}")
    return data


def _read_block(reader: _ByteReader, m: int) -> tuple[int, _RansState]:
    start, count = struct.unpack("<BI", reader.take(5))
    if start > MAX_START:
        raise Malformed("error-bounded-start", f"start is {start}; it must be 0 to {MAX_START}")
    states = unpack_elements(reader.take(4 * lane_count(m)), 4)
    if min(states) < STATE:
        raise Invalid("error-bounded-state", f"a state is {min(states)}")
    return start, _RansState(states, unpack_elements(reader.take(2 * count), 2))


def _decode_values(
    m: int, start: int, words: _RansState, table: list[list[int]], centred: bool
) -> list[tuple[int, int | None]]:
    """Return the cell numbers and signs of a block, in the values' order."""
    lanes = [Lane.begin(start) for _ in words.states]
    result: list[tuple[int, int | None]] = [(0, None)] * m
    for step in split_steps(m):
        n = len(step)
        read = []
        for lane in range(n):
            row, shift = lanes[lane].context()
            symbol, begins = 0, 0
            while begins + table[row][symbol] <= words.slot(lane):
                begins += table[row][symbol]
                symbol += 1
            words.advance(lane, table[row][symbol], begins)
            base, bits = SYMBOLS[symbol]
            read.append([base, bits] if symbol == ESCAPE else [base << shift, bits + shift])
        words.refill(n)
        if any(bits for _, bits in read):
            for lane in range(n):
                read[lane][0] += words.read_bits(lane, min(read[lane][1], 12))
            words.refill(n)
        if any(bits > 12 for _, bits in read):
            for lane in range(n):
                read[lane][0] += words.read_bits(lane, max(read[lane][1] - 12, 0)) << 12
            words.refill(n)
        for lane in range(n):
            k, sign = read[lane][0], None
            if k or not centred:
                chance = lanes[lane].sign_frequency()
                same = words.slot(lane) < chance
                words.advance(lane, *((chance, 0) if same else (ONE - chance, chance)))
                sign = lanes[lane].sign if same else 1 - lanes[lane].sign
            lanes[lane].learn(k, sign)
            result[step[lane]] = k, sign
        words.refill(n)
    if words.words or any(state != STATE for state in words.states):
        raise Invalid("error-bounded-code", "words remain, or a state is not 2^16, after the last value")
    return result


def _to_element(k: int, sign: int | None, form: int, numbers: list[float], dtype: Format) -> int:
    """Return the bits of the element."""
    if sign is None:
        return 0
    number = to_float32_bits(cell_value(k - (form == 2), numbers, dtype)) | sign << 31
    return convert(number, FLOAT32, dtype)


def cell_value(j: int, numbers: list[float], dtype: Format) -> float:
    """Return the magnitude of cell j, in binary32.

    Args:
        j: the cell, counted from 0.
        numbers: the start of cell 0, the step, and the place within a cell.
        dtype: the element type; its largest finite number is never exceeded.
    """
    first, step, place = numbers
    result = round_to_float32(first + round_to_float32(round_to_float32(round_to_float32(j) + place) * step))
    most = to_float(largest_finite(dtype), FLOAT32)
    return most if math.isinf(result) else min(result, most)

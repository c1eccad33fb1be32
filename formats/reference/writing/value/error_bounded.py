"""Value codec 14, error-bounded: writing (spec/value/error-bounded.md, Writing).

Sums are in Python floats, which are binary64. All other arithmetic is binary32, rounded after each operation.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from formats.reference.floats import (
    FLOAT32,
    Format,
    convert,
    round_to_float32,
    to_float,
    to_float32_bits,
    unpack_finite,
)
from formats.reference.value.error_bounded import (
    BINS,
    ESCAPE,
    MAX_K,
    MAX_START,
    NONE,
    ONE,
    STATE,
    SYMBOLS,
    WIDTHS,
    Lane,
    cell_value,
    default_levels,
    frequencies,
    half_octave,
    lane_count,
    split_blocks,
    split_steps,
    weight,
)

SUMS = 64
SLACK = 1 - 2.0**-20
SHRINK = 1 - 2.0**-10
SHARE = 0.625
Op = tuple[int, int]


@dataclass(frozen=True)
class ErrorBounded:
    """Value codec 14.

    Args:
        error: the promised relative error.
        refitted: rows whose levels are always written.
        start: start of all blocks, instead of the best one.
    """

    id: ClassVar[int] = 14
    error: float = 0.01
    refitted: tuple[int, ...] = ()
    start: int | None = None

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"error-bounded(error={self.error})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write cells if that is shorter than the unchanged elements, else the elements."""
        words = unpack_finite(values, dtype)
        cells = _CellSearch(words, dtype, self.error).find_cells()
        if cells is not None:
            section = self._write_cells(cells)
            if len(section) < 1 + len(values):
                return section
        return b"\0" + values

    def _write_cells(self, cells: _Cells) -> bytes:
        """Write a section of form 1 or 2."""
        parts = []
        for block in split_blocks(len(cells.codes)):
            codes = [cells.codes[i] for i in block]
            mean = (sum(min(k, MAX_K) for k, _ in codes) << 10) // len(codes)
            start = min(half_octave(mean), MAX_START) if self.start is None else self.start
            parts.append(_Block(codes, start))
        counts = [[0] * (ESCAPE + 1) for _ in range(26)]
        few = len(parts) <= 4
        for n, part in enumerate(parts):
            part.walk(counts if few or n % 4 == 0 else [[0] * (ESCAPE + 1) for _ in range(26)])
        levels = default_levels(cells.form)
        new_rows = {}
        for row, count in enumerate(counts):
            if sum(count) >= (1 if few else 2**12) or row in self.refitted:
                result = _fit_levels(count)
                used = max((b + 1 for b in range(BINS) if result[b] != NONE), default=0)
                gain = _estimate_cost(count, frequencies(levels[row])) - _estimate_cost(
                    count, frequencies(result)
                )
                if gain > (2 + used) * 2048 or row in self.refitted:
                    levels[row] = result
                    new_rows[row] = bytes([used, result[BINS], *result[:used]])
        table = [frequencies(row) for row in levels]
        numbers = struct.pack("<B3fI", cells.form, *cells.numbers, sum(1 << row for row in new_rows))
        return numbers + b"".join(new_rows.values()) + b"".join(part.write(table) for part in parts)


@dataclass
class _Cells:
    """Quantized values: the form, the section's three numbers, and k and sign of each value."""

    form: int
    numbers: list[float]
    codes: list[tuple[int, int | None]]


class _CellSearch:
    """Search for the width of the cells of some values."""

    def __init__(self, words: list[int], dtype: Format, error: float) -> None:
        self.dtype, self.error = dtype, error
        self.values = [to_float(word, dtype) for word in words]
        self.x = [to_float(convert(w, dtype, FLOAT32), FLOAT32) for w in words]
        self.signs = [word >> (8 * dtype.itemsize - 1) for word in words]
        self.least, self.most = min(map(abs, self.x)), max(map(abs, self.x))
        self.allowed = 0.0

    def _sum(self, numbers: list[float]) -> float:
        """Return a sum over all blocks, each in partial sums that are folded."""
        total = 0.0
        for block in split_blocks(len(numbers)):
            sums = [0.0] * SUMS
            for n, i in enumerate(block):
                sums[n % SUMS] += numbers[i]
            for w in (32, 16, 8, 4, 2, 1):
                for j in range(w):
                    sums[j] += sums[j + w]
            total += sums[0]
        return total

    def find_cells(self) -> _Cells | None:
        """Return the widest cells found that keep the promise, or None."""
        whole = self._sum([v * v for v in self.values])
        if not any(self.values):
            return self._quantize(1.0, 0.0)
        if math.isinf(self.most) or not 2.0**-900 < whole < math.inf:
            return None
        self.allowed = self.error * self.error * whole * SLACK
        step = self._search_step(
            round_to_float32(min(self.error * math.sqrt(12 * whole / len(self.x)), 2.0**120))
        )
        for _ in range(4):
            if step is None or not self._is_possible(step):
                return None
            cells = self._quantize(step, self._estimate_error(step)[1])
            read = [self._decode(k, sign, cells) for k, sign in cells.codes]
            error = self._sum([(v - w) * (v - w) for v, w in zip(self.values, read, strict=True)])
            if error <= self.allowed:
                return cells
            step = round_to_float32(step * min(math.sqrt(self.allowed / error), SHRINK))
        return None

    def _decode(self, k: int, sign: int | None, cells: _Cells) -> float:
        if sign is None:
            return 0.0
        result = cell_value(k - (cells.form == 2), cells.numbers, self.dtype)
        narrow = convert(to_float32_bits(result), FLOAT32, self.dtype)
        return -to_float(narrow, self.dtype) if sign else to_float(narrow, self.dtype)

    def _is_possible(self, step: float) -> bool:
        return step >= 2.0**-100 and self.most / step < 2**24 - 2

    def _search_step(self, step: float) -> float | None:
        best = None
        for n in range(16):
            if not self._is_possible(step) or (n >= 8 and best is not None):
                break
            error, _ = self._estimate_error(step)
            if error <= self.allowed:
                best = step if best is None else max(best, step)
                if error >= 0.995 * self.allowed or error == 0:
                    break
            ratio = math.sqrt(self.allowed / error) if n < 8 else 0.5
            step = round_to_float32(step * min(max(ratio, 0.25), 2.0) * SHRINK)
        return best

    def _first_cell(self, step: float) -> tuple[int, float]:
        around = round_to_float32(SHARE * step)
        return (2, around) if self.least < around else (1, self.least)

    def _positions(self, step: float) -> list[float | None]:
        """Return (|x| - first) / step of every value, None below the first cell."""
        _, first = self._first_cell(step)
        inverse = round_to_float32(1 / step)
        return [
            None if abs(x) < first else round_to_float32(round_to_float32(abs(x) - first) * inverse)
            for x in self.x
        ]

    def _estimate_error(self, step: float) -> tuple[float, float]:
        places = self._positions(step)
        fractions = [0.0 if u is None else u - int(u) for u in places]
        sums = self._sum(fractions)
        seconds = self._sum([f * f for f in fractions])
        lows = self._sum([x * x if u is None else 0.0 for x, u in zip(self.x, places, strict=True)])
        mean = sums / max(len(places) - places.count(None), 1)
        return lows + step * step * max(seconds - sums * mean, 0.0), mean

    def _quantize(self, step: float, mean: float) -> _Cells:
        form, first = self._first_cell(step)
        codes: list[tuple[int, int | None]] = []
        for u, sign in zip(self._positions(step), self.signs, strict=True):
            codes.append((0, None) if u is None else (int(u) + form - 1, sign))
        return _Cells(form, [first, step, round_to_float32(mean)], codes)


def _choose_level(count: int, total: int) -> int:
    if count == 0:
        return NONE
    return next((level for level in range(254) if weight(level) * total <= count << 20), 254)


def _fit_levels(counts: list[int]) -> list[int]:
    """Return the levels for these counts."""
    result = []
    symbol = 0
    for width in WIDTHS:
        result.append(_choose_level(sum(counts[symbol : symbol + width]), sum(counts)))
        symbol += width
    return result


def _estimate_cost(counts: list[int], f: list[int]) -> int:
    """Estimate the size of the symbols, in 256ths of a bit."""
    cost = 0
    escapes = counts[ESCAPE]
    for symbol, n in enumerate(counts[:ESCAPE]):
        if f[symbol] == 0:
            escapes += n
        else:
            cost += n * _estimate_bits(f[symbol])
    return cost + escapes * (_estimate_bits(f[ESCAPE]) + 24 * 256)


def _estimate_bits(f: int) -> int:
    octave = f.bit_length() - 1
    return 3328 - 256 * octave - (256 * f >> octave)


def find_symbol(token: int) -> int:
    """Return the symbol of k without its unmodelled bits."""
    for symbol, (base, bits) in enumerate(SYMBOLS[:ESCAPE]):
        if base <= token < base + (1 << bits):
            return symbol
    return ESCAPE


@dataclass
class _Block:
    """One block; ``plan`` holds row, symbol, shift and the operation of the sign of each value."""

    codes: list[tuple[int, int | None]]
    start: int
    plan: list[tuple[int, int, int, Op]] = field(default_factory=list)

    def walk(self, counts: list[list[int]]) -> None:
        """Determine all contexts, and count symbols."""
        m = len(self.codes)
        lanes = [Lane.begin(self.start) for _ in range(lane_count(m))]
        self.plan = [(0, 0, 0, (ONE, 0))] * m
        for step in split_steps(m):
            for lane, i in enumerate(step):
                k, sign = self.codes[i]
                row, shift = lanes[lane].context()
                op = (ONE, 0)
                if sign is not None:
                    chance = lanes[lane].sign_frequency()
                    op = (chance, 0) if sign == lanes[lane].sign else (ONE - chance, chance)
                symbol = find_symbol(k >> shift)
                counts[row][symbol] += 1
                self.plan[i] = row, symbol, shift, op
                lanes[lane].learn(k, sign)

    def write(self, table: list[list[int]]) -> bytes:
        """Write the start, the number of words, the states and the words."""
        states = [STATE] * lane_count(len(self.codes))
        words: list[int] = []
        for step in reversed(split_steps(len(self.codes))):
            push(states, [self.plan[i][3] for i in step], words)
            ops = [self._plan_operations(i, table) for i in step]
            if any(bits > 12 for bits, *_ in ops):
                push(states, [high for _, _, _, high in ops], words)
            if any(bits for bits, *_ in ops):
                push(states, [low for _, _, low, _ in ops], words)
            push(states, [token for _, token, _, _ in ops], words)
        head = struct.pack("<BI", self.start, len(words))
        return head + struct.pack(f"<{len(states)}I{len(words)}H", *states, *words)

    def _plan_operations(self, i: int, table: list[list[int]]) -> tuple[int, Op, Op, Op]:
        """Return the number of extra bits, and the operations of symbol, low bits and high bits."""
        row, symbol, shift, _ = self.plan[i]
        f = table[row]
        if f[symbol] == 0:
            symbol = ESCAPE
        bits = SYMBOLS[symbol][1] + (0 if symbol == ESCAPE else shift)
        rest = self.codes[i][0] % (1 << bits)
        low = min(bits, 12)
        return (
            bits,
            (f[symbol], sum(f[:symbol])),
            _raw_operation(rest % (1 << low), low),
            _raw_operation(rest >> low, bits - low),
        )


def _raw_operation(number: int, bits: int) -> Op:
    return ONE >> bits, number * (ONE >> bits)


def push(states: list[int], ops: list[Op], words: list[int]) -> None:
    """Apply one operation per lane."""
    for lane, (f, start) in enumerate(ops):
        if states[lane] >> 20 >= f:
            words.append(states[lane] & 0xFFFF)
            states[lane] >>= 16
        states[lane] = states[lane] // f * ONE + states[lane] % f + start

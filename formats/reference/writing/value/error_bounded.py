"""Value codec 14, error-bounded: writing (spec/value/error-bounded.md, Writing): rows of levels, and rANS."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import ClassVar

from formats.reference.floats import (
    Format,
    unpack_finite,
)
from formats.reference.value.error_bounded_model import (
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
    default_levels,
    frequencies,
    half_octave,
    lane_count,
    split_blocks,
    split_steps,
    weight,
)
from formats.reference.writing.value.error_bounded_cells import Cells, CellSearch

Op = tuple[int, int]


@dataclass(frozen=True)
class ErrorBounded:
    """Value codec 14.

    Args:
        error: the promised relative error.
        refitted: rows whose levels are always written.
        start: start of all blocks, instead of the best one.
        step: width of the cells, instead of the widest that keeps the promise.
    """

    id: ClassVar[int] = 14
    error: float = 0.01
    refitted: tuple[int, ...] = ()
    start: int | None = None
    step: float | None = None

    @property
    def scheme(self) -> str:
        """The codec in the syntax of schemes."""
        return f"error-bounded(error={self.error})"

    def write_section(self, values: bytes, dtype: Format, stream: int) -> bytes:
        """Write cells if that is shorter than the unchanged elements, else the elements."""
        words = unpack_finite(values, dtype)
        search = CellSearch(words, dtype, self.error)
        cells = search.find_cells() if self.step is None else search.cells_of(self.step)
        if cells is not None:
            section = self._write_cells(cells)
            if len(section) < 1 + len(values):
                return section
        return b"\0" + values

    def _write_cells(self, cells: Cells) -> bytes:
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

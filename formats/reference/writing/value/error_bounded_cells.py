"""Value codec 14, error-bounded: the widest cells that keep the promised error (its page, Writing).

Sums are in Python floats, which are binary64. All other arithmetic is binary32, rounded after each operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from formats.reference.floats import (
    FLOAT32,
    Format,
    convert,
    round_to_float32,
    to_float,
    to_float32_bits,
)
from formats.reference.value.error_bounded import cell_value
from formats.reference.value.error_bounded_model import (
    split_blocks,
)

SUMS = 64
SLACK = 1 - 2.0**-20
SHRINK = 1 - 2.0**-10
SHARE = 0.625


@dataclass
class Cells:
    """Quantized values: the form, the section's three numbers, and k and sign of each value."""

    form: int
    numbers: list[float]
    codes: list[tuple[int, int | None]]


class CellSearch:
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

    def find_cells(self) -> Cells | None:
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

    def cells_of(self, step: float) -> Cells | None:
        """Return cells of a given width, or None if that is not possible."""
        width = round_to_float32(step)
        if math.isinf(self.most) or math.isinf(width) or not self._is_possible(width):
            return None
        return self._quantize(width, self._estimate_error(width)[1])

    def _decode(self, k: int, sign: int | None, cells: Cells) -> float:
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

    def _quantize(self, step: float, mean: float) -> Cells:
        form, first = self._first_cell(step)
        codes: list[tuple[int, int | None]] = []
        for u, sign in zip(self._positions(step), self.signs, strict=True):
            codes.append((0, None) if u is None else (int(u) + form - 1, sign))
        return Cells(form, [first, step, round_to_float32(mean)], codes)

"""The cells of error-bounded: the widest whose error is allowed, found by measuring.

A search goes over a few steps, each judged by the fractions of the values in cells of that width; what it
finds is measured as it will be read, and narrowed where rounding took too much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from wirecodec.arrays import Array, bits_of
from wirecodec.kernels.layout import BOUNDED_BLOCK
from wirecodec.value.float32_convert import from_single, largest_single
from wirecodec.value.raw import widened

__all__ = ["CENTRED", "LAST_START", "OFFSET", "Cells", "Values", "blocks_of"]

T = TypeVar("T")
OFFSET, CENTRED = 1, 2
"""Forms: cells from the least value on, or around zero."""
LAST_START = 57
_SLACK = 1 - 2.0**-20
_LEAST_STEP, _MOST_CELLS = 2.0**-100, 2.0**24 - 2
_SHARE = np.float32(0.625)
"""Of a step: where the first cell begins, around zero."""


def blocks_of(r: int) -> list[slice]:
    """The fewest blocks of at most 2^17 values, as long as each other."""
    count = -(-r // BOUNDED_BLOCK)
    return [slice(r * n // count, r * (n + 1) // count) for n in range(count)]


def _half_octave(mean: int) -> int:
    """The number of the start nearest below a mean in 1024ths."""
    octave = (mean + 4).bit_length() - 1
    return min(2 * (octave - 2) + ((mean + 4) >> (octave - 1) & 1), LAST_START)


@dataclass(frozen=True, eq=False)
class Cells:
    """What numbers of cells mean, and the half octaves that blocks start with."""

    form: int
    first: np.float32
    step: np.float32
    place: np.float32
    starts: list[int]

    def numbers(self, dtype: np.dtype[Any]) -> tuple[int, Any, Any, Any, Any]:
        """As kernels take it."""
        return self.form - 1, self.first, self.step, self.place, np.float32(largest_single(dtype))

    def inverse(self) -> tuple[int, Any, Any]:
        """What is needed to find cells, as kernels take it."""
        return self.form - 1, self.first, np.float32(1) / self.step


class Values:
    """Values, and how wide their cells may be."""

    def __init__(self, values: Array, error: float) -> None:
        self.values, self.error = values, error
        self.blocks = blocks_of(values.size)
        x = self.wide = widened(values)
        if x.dtype != np.float32:
            with np.errstate(over="ignore"):
                x = x.astype(np.float32)
        self.bits = bits_of(x)
        self.allowed = 0.0

    def cells(self) -> Cells | None:
        """The widest that keep the promise, or None where none were found."""
        from wirecodec.kernels.cpu.value import error_bounded

        found = self._blockwise(lambda part: error_bounded.survey(self.bits[part], self.wide[part]))
        ends = np.array([min(one[0] for one in found), max(one[1] for one in found)], np.uint32)
        self.least, self.most = ends.view(np.float32).tolist()
        whole = sum(one[2] for one in found)
        if whole == 0 and not self.wide.any():
            return self._measured(np.float32(1), 0.0)[0]
        if not (math.isfinite(self.most) and 2.0**-900 < whole < math.inf):
            return None
        self.allowed = self.error * self.error * whole * _SLACK
        guess = np.float32(min(self.error * math.sqrt(12 * whole / self.values.size), 2.0**120))
        kept = self._search(guess)
        if kept is None:
            return None
        step, mean = kept
        for _ in range(4):
            cells, error = self._measured(step, mean)
            if error <= self.allowed:
                return cells
            step = np.float32(float(step) * min(math.sqrt(self.allowed / error), 0.9990234375))
            if not self._possible(step):
                return None
            _, mean = self._expected(step)
        return None

    def _possible(self, step: np.float32) -> bool:
        return float(step) >= _LEAST_STEP and self.most / float(step) < _MOST_CELLS

    def _search(self, step: np.float32) -> tuple[np.float32, float] | None:
        """The widest step of a few whose fractions promise no more than the allowed error, and their mean."""
        best = None
        for n in range(16):
            if not self._possible(step) or (n >= 8 and best is not None):
                break
            error, mean = self._expected(step)
            if error <= self.allowed:
                best = (step, mean) if best is None else max(best, (step, mean))
                if error >= 0.995 * self.allowed or error == 0:
                    break
            ratio = math.sqrt(self.allowed / error) if n < 8 else 0.5
            step = np.float32(float(step) * min(max(ratio, 0.25), 2.0) * 0.9990234375)
        return best

    def _first(self, step: np.float32) -> tuple[int, np.float32]:
        """The form, and where its first cell begins."""
        around = np.float32(_SHARE * step)
        return (CENTRED, around) if self.least < around else (OFFSET, np.float32(self.least))

    def _expected(self, step: np.float32) -> tuple[float, float]:
        """The sum of the squares of the errors, but for rounding, and the mean fraction of a step."""
        from wirecodec.kernels.cpu.value import error_bounded

        _, first = self._first(step)
        inverse = np.float32(1) / step
        sums, seconds, lows, below = 0.0, 0.0, 0.0, 0
        for found in self._blockwise(lambda part: error_bounded.expect(self.bits[part], first, inverse)):
            sums, seconds, lows = sums + found[0], seconds + found[1], lows + found[2]
            below += found[3]
        mean = sums / max(self.bits.size - below, 1)
        return lows + float(step) * float(step) * max(seconds - sums * mean, 0.0), mean

    def _measured(self, step: np.float32, mean: float) -> tuple[Cells, float]:
        """Cells, and the error of what will be read."""
        from wirecodec.kernels.cpu.value import error_bounded

        starts: list[int] = []
        cells = Cells(*self._first(step), step, np.float32(mean), starts)
        numbers, inverse = cells.numbers(self.values.dtype), cells.inverse()

        def errors(part: slice) -> tuple[float, int]:
            error, total = error_bounded.measure(self.bits[part], self.wide[part], inverse, numbers)
            if self.values.dtype.itemsize == 2:
                out = np.empty(part.stop - part.start + error_bounded.SUMS, np.float32)
                error_bounded.restore(self.bits[part], inverse, numbers, bits_of(out))
                read = from_single(out[: part.stop - part.start], self.values.dtype)
                error = error_bounded.difference(self.wide[part], widened(read))
            return error, total

        found = self._blockwise(errors)
        for (_, total), part in zip(found, self.blocks, strict=True):
            starts.append(_half_octave((total << 10) // (part.stop - part.start)))
        return cells, sum(error for error, _ in found)

    def _blockwise(self, work: Callable[[slice], T]) -> list[T]:
        """What each block gives, in order, from as many threads as there are."""
        from wirecodec.kernels.cpu.threads import map_ranges

        found = map_ranges(
            lambda first, last: [work(part) for part in self.blocks[first:last]], len(self.blocks), 1
        )
        return [one for some in found for one in some]

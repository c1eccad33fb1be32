"""Cells of error-bounded: the largest step whose measured error is within the bound.

A search over a few steps estimates each error from the fractions of the values in their cells. The result is
then measured by reconstruction, and reduced if rounding exceeds the bound. The sums of
blocks are added in their order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from wirecodec.arrays import Array, add_in_order, bits_of
from wirecodec.kernels import bounded_step
from wirecodec.kernels.layout import BOUNDED_BLOCK
from wirecodec.value.float32_convert import from_float32, max_float32
from wirecodec.value.raw import widen

T = TypeVar("T")
OFFSET, CENTRED = 1, 2
"""Forms of a section: cells begin at the smallest magnitude, or are centred at zero."""
_CENTRED_START = np.float32(bounded_step.CENTRED_START)


def split_blocks(r: int) -> list[slice]:
    """Split r values into the fewest blocks of at most 2^17 values, of equal length."""
    count = -(-r // BOUNDED_BLOCK)
    return [slice(r * n // count, r * (n + 1) // count) for n in range(count)]


@dataclass(frozen=True, eq=False)
class Cells:
    """Parameters of the cells, and the half octaves with which the blocks start.

    Args:
        form: OFFSET or CENTRED.
        first: lower end of the first cell.
        step: width of a cell.
        place: position of the reconstructed value in its cell, in steps.
        starts: half octave of each block.
    """

    form: int
    first: np.float32
    step: np.float32
    place: np.float32
    starts: list[int]

    def reconstruction(self, dtype: np.dtype[Any]) -> tuple[int, Any, Any, Any, Any]:
        """Return the parameters that kernels need to reconstruct values."""
        return self.form - 1, self.first, self.step, self.place, np.float32(max_float32(dtype))

    def quantiser(self) -> tuple[int, Any, Any]:
        """Return the parameters that kernels need to quantise values."""
        return self.form - 1, self.first, np.float32(1) / self.step


class CellSearch:
    """Search for the largest step whose error is within the bound.

    Args:
        values: (r,) array of an element type.
        error: relative l2 error.
    """

    def __init__(self, values: Array, error: float) -> None:
        self.values, self.error = values, error
        self.blocks = split_blocks(values.size)
        self.wide = widen(values)
        with np.errstate(over="ignore"):  # magnitudes beyond float32 become Inf
            self.bits = bits_of(self.wide.astype(np.float32, copy=False))
        self.max_square_error = 0.0

    def find_cells(self) -> Cells | None:
        """Find the coarsest cells within the bound; return None if there are none."""
        energy = self._measure_range()
        if energy == 0 and not self.wide.any():
            return self._build_cells(np.float32(1), 0.0)[0]
        if not (math.isfinite(self.largest) and bounded_step.MIN_ENERGY < energy < math.inf):
            return None
        self.max_square_error = self.error * self.error * energy * bounded_step.ROUNDING_MARGIN
        guess = np.float32(bounded_step.guess_step(self.error, energy, self.values.size))
        best_step = self._search_step(guess)
        if best_step is None:
            return None
        step, mean = best_step
        for _ in range(bounded_step.CORRECTIONS):
            cells, error = self._build_cells(step, mean)
            if error <= self.max_square_error:
                return cells
            step = np.float32(bounded_step.reduce_step(float(step), self.max_square_error, error))
            if not self._is_allowed_step(step):
                return None
            _, mean = self._estimate_error(step)
        return None

    def cells_of(self, step: float) -> Cells | None:
        """Build cells of a width; return None if the format cannot hold them."""
        self._measure_range()
        with np.errstate(over="ignore"):
            width = np.float32(step)
        if not (math.isfinite(self.largest) and math.isfinite(width) and self._is_allowed_step(width)):
            return None
        _, mean = self._estimate_error(width)
        return self._build_cells(width, mean)[0]

    def _measure_range(self) -> float:
        """Find the smallest and the largest magnitude; return the sum of the squares."""
        from wirecodec.kernels.cpu.value import error_bounded

        ranges = self._map_blocks(lambda part: error_bounded.measure_range(self.bits[part], self.wide[part]))
        ends = np.array([min(one[0] for one in ranges), max(one[1] for one in ranges)], np.uint32)
        self.least, self.largest = ends.view(np.float32).tolist()
        return add_in_order(one[2] for one in ranges)

    def _is_allowed_step(self, step: np.float32) -> bool:
        """Check that a step is large enough for the format."""
        return bounded_step.is_allowed_step(float(step), self.largest)

    def _search_step(self, step: np.float32) -> tuple[np.float32, float] | None:
        """Search for the largest step within the bound; return it and its mean fraction of a step."""
        best = None
        for n in range(bounded_step.STEPS):
            if not self._is_allowed_step(step) or (n >= bounded_step.FIRST_STEPS and best is not None):
                break
            error, mean = self._estimate_error(step)
            if error <= self.max_square_error:
                best = (step, mean) if best is None else max(best, (step, mean))
                if error >= bounded_step.NEARLY * self.max_square_error or error == 0:
                    break
            step = np.float32(bounded_step.next_step(float(step), n, self.max_square_error, error))
        return best

    def _place_first_cell(self, step: np.float32) -> tuple[int, np.float32]:
        """Choose the form and the lower end of the first cell."""
        around = np.float32(_CENTRED_START * step)
        return (CENTRED, around) if self.least < around else (OFFSET, np.float32(self.least))

    def _estimate_error(self, step: np.float32) -> tuple[float, float]:
        """Estimate the squared error of a step, except rounding, and the mean fraction of a step."""
        from wirecodec.kernels.cpu.value import error_bounded

        _, first = self._place_first_cell(step)
        inverse = np.float32(1) / step
        estimates = self._map_blocks(
            lambda part: error_bounded.estimate_error(self.bits[part], first, inverse)
        )
        *columns, below = zip(*estimates, strict=True)
        sums, seconds, lows = map(add_in_order, columns)
        mean = sums / max(self.bits.size - sum(below), 1)
        return lows + float(step) * float(step) * max(seconds - sums * mean, 0.0), mean

    def _build_cells(self, step: np.float32, mean: float) -> tuple[Cells, float]:
        """Build cells and measure their squared error by reconstruction."""
        from wirecodec.kernels.cpu.value import error_bounded

        starts: list[int] = []
        cells = Cells(*self._place_first_cell(step), step, np.float32(mean), starts)
        reconstruction, quantiser = cells.reconstruction(self.values.dtype), cells.quantiser()

        def errors(part: slice) -> tuple[float, int]:
            error, total = error_bounded.measure_error(
                self.bits[part], self.wide[part], quantiser, reconstruction
            )
            if self.values.dtype.itemsize == 2:
                out = np.empty(part.stop - part.start + error_bounded.BATCH, np.float32)
                error_bounded.round_trip(self.bits[part], quantiser, reconstruction, bits_of(out))
                read = from_float32(out[: part.stop - part.start], self.values.dtype)
                error = error_bounded.sum_square_differences(self.wide[part], widen(read))
            return error, total

        measured = self._map_blocks(errors)
        for (_, total), part in zip(measured, self.blocks, strict=True):
            mean_cell = (total << 10) // (part.stop - part.start)
            starts.append(bounded_step.find_start(mean_cell, (mean_cell + 4).bit_length() - 1))
        return cells, add_in_order(error for error, _ in measured)

    def _map_blocks(self, work: Callable[[slice], T]) -> list[T]:
        """Apply a function to all blocks, in several threads, and return the results in order."""
        if len(self.blocks) == 1:
            return [work(self.blocks[0])]
        from wirecodec.kernels.cpu.threads import map_ranges

        results = map_ranges(
            lambda first, last: [work(part) for part in self.blocks[first:last]], len(self.blocks), 1
        )
        return [one for some in results for one in some]

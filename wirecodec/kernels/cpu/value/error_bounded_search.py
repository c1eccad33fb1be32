"""Search of error-bounded for the cells of many tensors in one call.

The search is that of ``value.error_bounded_cells.CellSearch``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels import bounded_step
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.words import leading_zeros
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.cpu.value.error_bounded import estimate_error, measure_error, measure_range

F32 = np.float32
F64 = np.float64
U64 = np.uint64
NONE, OFFSET, CENTRED = 0, 1, 2
"""Forms of a section; without cells it holds unchanged elements."""
STEPS, FIRST_STEPS, CORRECTIONS = bounded_step.STEPS, bounded_step.FIRST_STEPS, bounded_step.CORRECTIONS
MARGIN, NEARLY, MIN_ENERGY = bounded_step.ROUNDING_MARGIN, bounded_step.NEARLY, bounded_step.MIN_ENERGY
CENTRED_START = F32(bounded_step.CENTRED_START)

_is_allowed_step = inline(bounded_step.is_allowed_step)
_guess_step = inline(bounded_step.guess_step)
_next_step = inline(bounded_step.next_step)
_reduce_step = inline(bounded_step.reduce_step)
_find_start = inline(bounded_step.find_start)


@kernel
def find_cells(
    bits: Array,
    values: Array,
    cuts: Array,
    error: float,
    most: Any,
    forms: Array,
    numbers: Array,
    starts: Array,
    turns: Array,
) -> None:
    """Find the coarsest cells within the error for each tensor.

    Args:
        bits: u32, binary32 bits of all tensors' values.
        values: the values, float32 or float64, all finite.
        cuts: (t + 1,) i64, the place of each tensor's values, at least one and at most 2^17.
        error: relative l2 error.
        most: float32, the largest magnitude of the element type.
        forms: (t,) i64, written: 0 if no cells are possible.
        numbers: (t, 3) f32, written: first, step and place of ``Cells``.
        starts: (t,) i64, written: the half octave of the block.
        turns: counters of ``next_unit``; a unit is a tensor.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        here = slice(cuts[unit], cuts[unit + 1])
        form, first, step, place, start = _find(bits[here], values[here], error, most)
        forms[unit], starts[unit] = form, start
        numbers[unit, 0], numbers[unit, 1], numbers[unit, 2] = first, step, place
        unit = next_unit(turns, unit)


@kernel
def find_cells_of_steps(
    bits: Array,
    values: Array,
    cuts: Array,
    steps: Array,
    most: Any,
    forms: Array,
    numbers: Array,
    starts: Array,
    turns: Array,
) -> None:
    """Find each tensor's cells of a width; arguments as for ``find_cells``, but ``steps`` is (t,) f64."""
    ends = np.empty(2, np.uint32)
    unit = next_unit(turns, -1)
    while unit >= 0:
        here, step = slice(cuts[unit], cuts[unit + 1]), F32(steps[unit])
        ends[0], ends[1], _ = measure_range(bits[here], values[here])
        least, largest = ends.view(np.float32)
        forms[unit], starts[unit] = NONE, 0
        if np.isfinite(largest) and np.isfinite(step) and _is_allowed_step(F64(step), F64(largest)):
            _, mean = _estimate(bits[here], least, step)
            form, first, start, _ = _build(bits[here], values[here], least, step, mean, most)
            forms[unit], starts[unit] = form, start
            numbers[unit, 0], numbers[unit, 1], numbers[unit, 2] = first, step, F32(mean)
        unit = next_unit(turns, unit)


@inline
def _find(bits: Array, values: Array, error: float, most: Any) -> Any:
    """Return form, first, step, place and start of one tensor's cells."""
    none = (NONE, F32(0), F32(0), F32(0), 0)
    ends = np.empty(2, np.uint32)
    ends[0], ends[1], energy = measure_range(bits, values)
    least, largest = ends.view(np.float32)
    if energy == 0 and not values.any():
        form, first, start, _ = _build(bits, values, least, F32(1), 0.0, most)
        return form, first, F32(1), F32(0), start
    if not (np.isfinite(largest) and MIN_ENERGY < energy < np.inf):
        return none
    allowed = error * error * energy * MARGIN
    step, mean = _search(bits, least, largest, allowed, F32(_guess_step(error, energy, bits.size)))
    if step == 0:
        return none
    for _ in range(CORRECTIONS):
        form, first, start, measured = _build(bits, values, least, step, mean, most)
        if measured <= allowed:
            return form, first, step, F32(mean), start
        step = F32(_reduce_step(F64(step), allowed, measured))
        if not _is_allowed_step(F64(step), F64(largest)):
            return none
        _, mean = _estimate(bits, least, step)
    return none


@inline
def _search(bits: Array, least: Any, largest: Any, allowed: float, step: Any) -> tuple[Any, float]:
    """Return the largest step within the error that was tried, 0 for none, and its mean fraction."""
    best, best_mean, found = F32(0), 0.0, False
    for n in range(STEPS):
        if not _is_allowed_step(F64(step), F64(largest)) or (n >= FIRST_STEPS and found):
            break
        error, mean = _estimate(bits, least, step)
        if error <= allowed:
            if not found or step > best or (step == best and mean > best_mean):
                best, best_mean, found = step, mean, True
            if error >= NEARLY * allowed or error == 0:
                break
        step = F32(_next_step(F64(step), n, allowed, error))
    return best, best_mean


@inline
def _place_first_cell(least: Any, step: Any) -> tuple[int, Any]:
    """Choose the form and the lower end of the first cell."""
    around = CENTRED_START * step
    return (CENTRED, around) if least < around else (OFFSET, least)


@inline
def _estimate(bits: Array, least: Any, step: Any) -> tuple[float, float]:
    """Estimate the squared error of a step, except rounding, and the mean fraction of a step."""
    _, first = _place_first_cell(least, step)
    fractions, seconds, lows, below = estimate_error(bits, first, F32(1) / step)
    mean = fractions / max(bits.size - below, 1)
    return lows + F64(step) * F64(step) * max(seconds - fractions * mean, 0.0), mean


@inline
def _build(bits: Array, values: Array, least: Any, step: Any, mean: float, most: Any) -> Any:
    """Return form, first and start of the cells of a step, and their measured squared error."""
    form, first = _place_first_cell(least, step)
    quantiser = (form - 1, first, F32(1) / step)
    error, total = measure_error(bits, values, quantiser, (form - 1, first, step, F32(mean), most))
    thousandths = (total << 10) // bits.size
    return form, first, _find_start(thousandths, 63 - leading_zeros(U64(thousandths + 4))), error

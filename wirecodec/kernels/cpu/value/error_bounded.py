"""Kernels of error-bounded (formats/spec/value/error-bounded.md): cells, their errors, and their search.

Sums are binary64, in 64 partial sums. All other arithmetic is binary32 with one rounding per operation.
``quantiser`` is (zero, first, 1 / step); zero is 1 if cell 0 holds the values below the first cell.
``reconstruction`` is (zero, first, step, place, largest); magnitudes are clamped to largest. The
search for the cells of many tensors in one call is that of ``value.error_bounded_cells.CellSearch``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels import bounded_step
from wirecodec.kernels.compiler.jit import inline, kernel
from wirecodec.kernels.cpu.simd.floats import (
    add_floats,
    float_to_int,
    int_to_float,
    multiply_floats,
    splat_float,
    subtract_floats,
    sum_floats,
    to_float64,
)
from wirecodec.kernels.cpu.simd.vector import (
    bits_to_mask,
    load,
    mask_to_bits,
    reduce_add,
    reduce_max,
    resize,
    select,
    splat,
    store,
)
from wirecodec.kernels.cpu.simd.words import leading_zeros, low_bits_mask, popcount
from wirecodec.kernels.cpu.threads import next_unit

U32 = np.uint32
U64 = np.uint64
BATCH = 64
"""Values per vector operation, and number of partial sums."""
MAX_COUNTED_CELL = (1 << 20) - 1
"""Limit of a cell number in the sum of ``measure_error``."""


@inline
def _scale_magnitudes(bits: Any, first: float, inverse: float) -> Any:
    """Express magnitudes in steps from the first cell; also return the mask of those below it."""
    a, begin = bits & 0x7FFFFFFF, splat_float(first, bits)
    return multiply_floats(subtract_floats(a, begin), splat_float(inverse, bits)), a < begin


@inline
def quantise(bits: Any, quantiser: Any) -> Any:
    """Quantise binary32 numbers to codes 2k + sign."""
    zero, first, inverse = quantiser
    u, low = _scale_magnitudes(bits, first, inverse)
    k = float_to_int(u)
    code = (select(low, k & 0, k + zero) << 1) | (bits >> 31)
    return select(code >= U32(2 * zero), code, code & 0)


@inline
def reconstruct(code: Any, reconstruction: Any) -> Any:
    """Convert codes 2k + sign to binary32 numbers."""
    zero, first, step, place, most = reconstruction
    j = add_floats(int_to_float((code >> 1) - zero), splat_float(place, code))
    a = add_floats(splat_float(first, code), multiply_floats(j, splat_float(step, code)))
    largest = splat_float(most, code)
    a = select(a < largest, a, largest) | (code << 31)
    return select(code >= U32(2 * zero), a, a & 0)


@inline
def _pad_remainder(values: Array) -> Array:
    """Copy the last size mod 64 values and pad them with zeros."""
    rest = np.zeros(BATCH, values.dtype)
    for i in range(values.size & (BATCH - 1)):
        rest[i] = values[(values.size & -BATCH) + i]
    return rest


@inline
def _add_squares(sums: Any, d: Any) -> Any:
    """Add the squares of d to partial sums."""
    return add_floats(sums, multiply_floats(d, d))


@kernel
def measure_range(bits: Array, values: Array) -> tuple[int, int, float]:
    """Find the smallest and the largest magnitude of binary32 numbers, as bits, and sum the squares."""
    least, most = splat(U32(0), BATCH), splat(U32(0), BATCH)
    sums = splat(U64(0), BATCH)
    for at in range(0, bits.size & -BATCH, BATCH):
        a = load(bits, at, BATCH) & 0x7FFFFFFF
        b = 0x7FFFFFFF - a
        most, least = select(a > most, a, most), select(b > least, b, least)
        sums = _add_squares(sums, to_float64(load(values, at, BATCH)))
    low, high = U32(0x7FFFFFFF) - reduce_max(least), reduce_max(most)
    for i in range(bits.size & -BATCH, bits.size):
        b = U32(bits[i] & U32(0x7FFFFFFF))
        low, high = min(low, b), max(high, b)
    return low, high, sum_floats(_add_squares(sums, to_float64(load(_pad_remainder(values), 0, BATCH))))


@kernel
def sum_squares(values: Array) -> float:
    """Compute Σv²."""
    sums = splat(U64(0), BATCH)
    for at in range(0, values.size & -BATCH, BATCH):
        sums = _add_squares(sums, to_float64(load(values, at, BATCH)))
    return sum_floats(_add_squares(sums, to_float64(load(_pad_remainder(values), 0, BATCH))))


@kernel
def sum_square_differences(values: Array, others: Array) -> float:
    """Compute Σ(v - w)²."""
    sums = splat(U64(0), BATCH)
    for at in range(0, values.size & -BATCH, BATCH):
        v, w = to_float64(load(values, at, BATCH)), to_float64(load(others, at, BATCH))
        sums = _add_squares(sums, subtract_floats(v, w))
    v, w = (
        to_float64(load(_pad_remainder(values), 0, BATCH)),
        to_float64(load(_pad_remainder(others), 0, BATCH)),
    )
    return sum_floats(_add_squares(sums, subtract_floats(v, w)))


@inline
def _estimate64(bits: Any, present: Any, first: float, inverse: float, sums: Any) -> Any:
    """Process 64 values for ``estimate_error``; ``present`` masks the valid ones."""
    fractions, seconds, lows, below = sums
    u, low = _scale_magnitudes(bits, first, inverse)
    part = subtract_floats(u, int_to_float(float_to_int(u)))
    low_mask = mask_to_bits(low & present)
    if low_mask:
        part = select(low, part & 0, part)
        lows = _add_squares(lows, to_float64(select(low & present, bits, bits & 0)))
    part = to_float64(select(present, part, part & 0))
    return add_floats(fractions, part), _add_squares(seconds, part), lows, below + popcount(low_mask)


@kernel
def estimate_error(bits: Array, first: Any, inverse: Any) -> tuple[float, float, float, int]:
    """Sum the fractions of a step that quantising removes.

    Args:
        bits: (m,) u32, float32 bits.
        first: lower end of the first cell.
        inverse: 1 / step.

    Returns:
        The sum of the fractions, the sum of their squares, the sum of the squares of the values below the
        first cell, and the number of these.
    """
    none = splat(U64(0), BATCH)
    sums = (none, none, none, np.int64(0))
    all_present = bits_to_mask(low_bits_mask(BATCH), BATCH)
    for at in range(0, bits.size & -BATCH, BATCH):
        sums = _estimate64(load(bits, at, BATCH), all_present, first, inverse, sums)
    present = bits_to_mask(low_bits_mask(bits.size & (BATCH - 1)), BATCH)
    fractions, seconds, lows, below = _estimate64(
        load(_pad_remainder(bits), 0, BATCH), present, first, inverse, sums
    )
    return sum_floats(fractions), sum_floats(seconds), sum_floats(lows), below


@inline
def _measure64(bits: Any, values: Any, present: Any, quantiser: Any, reconstruction: Any, sums: Any) -> Any:
    """Process 64 values for ``measure_error``; ``present`` masks the valid ones."""
    errors, ks = sums
    code = quantise(bits, quantiser)
    d = subtract_floats(
        to_float64((values << 1) >> 1), to_float64(reconstruct((code >> 1) << 1, reconstruction))
    )
    k = code >> 1
    k = select(k < MAX_COUNTED_CELL, k, (k & 0) | MAX_COUNTED_CELL)
    return _add_squares(errors, select(present, d, d & 0)), ks + select(present, k, k & 0)


@kernel
def measure_error(bits: Array, values: Array, quantiser: Any, reconstruction: Any) -> tuple[float, int]:
    """Compute Σ(v - v̂)² of at most 2^17 values, and the sum of their cell numbers.

    Cell numbers are clamped to 2^20 - 1.

    Args:
        bits: (m,) u32, the values as float32 bits.
        values: (m,) float32 or float64.
        quantiser, reconstruction: as in the module's docstring.
    """
    sums = (splat(U64(0), BATCH), splat(U32(0), BATCH))
    all_present = bits_to_mask(low_bits_mask(BATCH), BATCH)
    for at in range(0, bits.size & -BATCH, BATCH):
        sums = _measure64(
            load(bits, at, BATCH),
            load(values, at, BATCH),
            all_present,
            quantiser,
            reconstruction,
            sums,
        )
    present = bits_to_mask(low_bits_mask(bits.size & (BATCH - 1)), BATCH)
    bit, value = load(_pad_remainder(bits), 0, BATCH), load(_pad_remainder(values), 0, BATCH)
    errors, ks = _measure64(bit, value, present, quantiser, reconstruction, sums)
    return sum_floats(errors), np.int64(reduce_add(resize(ks, 64)))


@kernel
def round_trip(bits: Array, quantiser: Any, reconstruction: Any, out: Array) -> None:
    """Quantise and reconstruct values in binary32.

    Args:
        bits: (m,) u32, the values as float32 bits.
        quantiser, reconstruction: as in the module's docstring.
        out: (m + 64,) u32, written: float32 bits. The elements after m are padding.
    """
    for at in range(0, bits.size & -BATCH, BATCH):
        store(out, at, reconstruct(quantise(load(bits, at, BATCH), quantiser), reconstruction))
    store(
        out,
        bits.size & -BATCH,
        reconstruct(quantise(load(_pad_remainder(bits), 0, BATCH), quantiser), reconstruction),
    )


F32 = np.float32
F64 = np.float64
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

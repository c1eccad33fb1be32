"""Decisions of ``budget`` for many arrays in one call: what each search measures next.

``wirecodec.select.budget.search`` has the same search in Python, for one array. Both take their rules from
``kernels.budget_rules``, and measure the same selections.
"""

from __future__ import annotations

import numpy as np

from wirecodec.arrays import Array
from wirecodec.kernels import budget_rules as rules
from wirecodec.kernels.budget_rules import (
    FAR,
    FINENESS,
    HIGH_RATIO,
    JUMPS,
    LARGE_COUNT,
    LOW_RATIO,
    MANY,
    MAX_COUNTED_CANDIDATES,
    MAX_TRIES,
    MIN_COUNT,
    MIN_GAIN,
    MIN_ROOM,
    MIN_STEP,
    NARROW,
    NEXT_BLOCK,
    SECTION_BYTES,
    SMALL_BAND,
)
from wirecodec.kernels.compiler.jit import inline, inline_without_refcounts, kernel
from wirecodec.kernels.cpu.select.budget import find_count, predict_bits
from wirecodec.kernels.cpu.simd.words import f32_from_bits
from wirecodec.kernels.cpu.threads import next_unit
from wirecodec.kernels.layout import RICE_BLOCK

GUESS, GUESS_STEP, CHANGE, CORRECT, BEGIN, BEYOND, REFINE, COUNT, BLOCK, JUMP, EXACT, SHRINK = range(12)
"""Stages of a search. The first four solve the model, and the last five measure a selection."""
COLLECT, DONE, LEFT = 12, 13, 14
"""Stages without a measurement: candidates are needed; the best selection is known; one array is left out."""

STAGE, SIZE, BUDGET, CANDIDATES, NONZERO, IS_COUNTED, WANTED, BEST, SPENT, TRIES = range(10)
LOW, LOW_BYTES, HIGH, HIGH_BYTES, IS_NARROW, BASE, JUMPS_LEFT, TRIED, FITS = range(10, 19)
INTEGERS = 19
"""Columns of integers of the state, and their number."""
GUESSED, FINE, FIRST_FINE, COST, AIM, NEXT_COUNT, SHRUNK, CORRECTED, OCTAVES, FITTING, EXCEEDING = range(11)
NUMBERS = 11
"""Columns of float64 numbers of the state, and their number."""
TWO = 2.0

_step_ratio = inline(rules.step_ratio)
_aim_at = inline(rules.aim_at)
_count_candidates = inline(rules.count_candidates)
_limit_count = inline(rules.limit_count)
_limit_cost = inline(rules.limit_cost)
_follow_power = inline(rules.follow_power)


@kernel
def decide(
    active: Array,
    integers: Array,
    numbers: Array,
    bins: Array,
    scales: Array,
    used: Array,
    takes_step: bool,
    turns: Array,
) -> None:
    """Decide what the searches of some arrays do next.

    Args:
        active: (m,) i64, numbers of the arrays.
        integers: (n, INTEGERS) i64, the state: first GUESS, SIZE and BUDGET, and 0. Later, the column STAGE
            tells what is needed: candidates, as many as in the column CANDIDATES; or a measurement of the
            WANTED largest of them. After either, the caller sets NONZERO, or calls this with ``used``. The
            column FITS tells whether the last measurement is the best selection so far.
        numbers: (n, NUMBERS) f64, the rest of the state, first 0.
        bins, scales: (n, BINS) i64 and (n,) f64, counts of magnitudes, and their factors.
        used: (n,) i64, bytes of the last measurement.
        takes_step: whether the value codec takes its step from the selection.
        turns: counters of ``next_unit``; a unit is one of the arrays.
    """
    unit = next_unit(turns, -1)
    while unit >= 0:
        i = active[unit]
        _decide(integers[i], numbers[i], bins[i], scales[i], used[i], takes_step)
        unit = next_unit(turns, unit)


@inline
def _decide(integers: Array, numbers: Array, bins: Array, scale: float, used: int, takes_step: bool) -> None:
    """Decide what one search does next."""
    stage, size = integers[STAGE], np.float64(integers[SIZE])
    budget = integers[BUDGET]
    nbytes = numbers[AIM]
    if COUNT <= stage <= SHRINK:
        stage, nbytes = _take(stage, integers, numbers, used, bins, scale, takes_step)
    elif stage == COLLECT:
        stage = BEGIN
        if integers[NONZERO] == 0:
            integers[BEST], stage = 0, DONE
        elif integers[IS_COUNTED] != 0:
            integers[IS_COUNTED] = 0
            numbers[FINE], numbers[COST] = 1.0, 1.0
            stage = GUESS_STEP if takes_step else BEGIN
    else:
        numbers[AIM] = nbytes = _aim_at(SMALL_BAND[0], np.float64(budget))
        numbers[FINE] = numbers[FIRST_FINE] = numbers[COST] = 1.0
    while stage <= CORRECT:
        chooses = stage in (GUESS_STEP, CHANGE)
        finest, count = _solve(bins, scale, size, numbers[COST], nbytes, numbers[FINE], chooses)
        if stage == GUESS:
            numbers[GUESSED] = count
            is_counted = _count_candidates(count, integers[SIZE]) <= MAX_COUNTED_CANDIDATES
            integers[IS_COUNTED] = is_counted
            stage = GUESS_STEP if takes_step and not is_counted else COLLECT
        elif stage == GUESS_STEP:
            numbers[FIRST_FINE], numbers[GUESSED] = finest, count
            stage = BEGIN if integers[CANDIDATES] else COLLECT
        elif stage == CHANGE and finest == numbers[FINE]:
            nbytes = numbers[CORRECTED]
            stage = BEYOND if integers[IS_NARROW] else CORRECT
        else:
            if stage == CHANGE:
                numbers[FINE] = finest
                _forget(integers)
            numbers[NEXT_COUNT], stage = _limit_count(count, integers[WANTED]), COUNT
    stage = _choose_next(stage, integers, numbers, takes_step)
    if stage == COLLECT:
        integers[CANDIDATES] = _count_candidates(numbers[GUESSED], integers[SIZE])
        if numbers[GUESSED] >= LARGE_COUNT:
            stage = LEFT
    elif COUNT <= stage <= SHRINK and integers[WANTED] == integers[SIZE]:
        stage = LEFT
    integers[STAGE] = stage


@inline_without_refcounts
def _has_room(integers: Array) -> bool:
    """Tell whether the best selection leaves more of the budget than a search accepts."""
    budget = integers[BUDGET]
    return integers[SPENT] < min(SMALL_BAND[1] * budget, np.float64(budget - MIN_ROOM))


@inline_without_refcounts
def _missing_octaves(integers: Array, numbers: Array) -> float:
    """Return by how many octaves to shrink the step."""
    return max(8 * (numbers[AIM] - integers[SPENT]) / integers[BEST], 0.01)


@inline_without_refcounts
def _forget(integers: Array) -> None:
    """Forget the counts that were measured."""
    integers[LOW] = integers[LOW_BYTES] = integers[HIGH_BYTES] = 0
    integers[HIGH] = integers[NONZERO] + 1


@inline
def _take(
    stage: int, integers: Array, numbers: Array, used: int, bins: Array, scale: float, takes_step: bool
) -> tuple[int, float]:
    """Take a measurement; return the next stage, and the bytes for which the model is solved."""
    k, fits = integers[WANTED], used <= integers[BUDGET]
    integers[FITS] = fits
    if fits:
        integers[BEST], integers[SPENT] = k, used
    is_good = fits and not _has_room(integers)
    if stage == COUNT:
        return _take_count(integers, numbers, used, bins, scale, takes_step, is_good)
    if stage == BLOCK:
        stage = REFINE if fits else JUMP
    elif stage == JUMP:
        integers[TRIED], stage = k, REFINE if fits else JUMP
        integers[JUMPS_LEFT] -= 1
    elif stage == EXACT:
        stage = DONE if fits else SHRINK
        integers[TRIES], numbers[FITTING], numbers[EXCEEDING] = 0, 0.0, np.inf
        numbers[OCTAVES] = _missing_octaves(integers, numbers)
    else:
        integers[TRIES] += 1
        numbers[FITTING if fits else EXCEEDING] = numbers[OCTAVES]
        numbers[OCTAVES] = (numbers[FITTING] + numbers[EXCEEDING]) / 2
        if numbers[EXCEEDING] == np.inf:
            numbers[OCTAVES] = numbers[FITTING] + _missing_octaves(integers, numbers)
        stage = DONE if is_good or integers[TRIES] == MAX_TRIES else SHRINK
    return stage, numbers[AIM]


@inline
def _take_count(
    integers: Array, numbers: Array, used: int, bins: Array, scale: float, takes_step: bool, is_good: bool
) -> tuple[int, float]:
    """Take the measurement of a count; return as ``_take``."""
    k, aim = integers[WANTED], numbers[AIM]
    if used <= integers[BUDGET]:
        integers[LOW], integers[LOW_BYTES] = k, used
    else:
        integers[HIGH], integers[HIGH_BYTES] = k, used
    low, high = integers[LOW], integers[HIGH]
    narrow = high - low < 2 or (takes_step and high - low <= NARROW * low)
    changes = takes_step and integers[TRIES] == 0
    integers[IS_NARROW] = narrow
    integers[TRIES] += 1
    if is_good or integers[TRIES] == MAX_TRIES or (narrow and not changes):
        return BEYOND, aim
    if changes or low == 0 or integers[HIGH_BYTES] == 0:
        numbers[COST], predicted = _predict(
            bins, scale, np.float64(integers[SIZE]), k, used, numbers[FINE], takes_step
        )
        numbers[CORRECTED] = aim / (max(used, 1) / predicted)
        return (CHANGE, aim) if changes else (CORRECT, numbers[CORRECTED])
    numbers[NEXT_COUNT] = _follow_power(aim, k, used, low, integers[LOW_BYTES], high, integers[HIGH_BYTES])
    return COUNT, aim


@inline
def _choose_next(stage: int, integers: Array, numbers: Array, takes_step: bool) -> int:
    """Choose the selection that is measured next; return its stage."""
    nonzero = integers[NONZERO]
    if stage == BEGIN:
        numbers[FINE], numbers[COST], numbers[SHRUNK] = numbers[FIRST_FINE], 1.0, 1.0
        numbers[NEXT_COUNT], stage = numbers[GUESSED], COUNT
        integers[BEST] = integers[SPENT] = integers[TRIES] = 0
        _forget(integers)
    if stage == COUNT:
        low, high, margin = integers[LOW], integers[HIGH], np.int64(1)
        if low > 0 and integers[HIGH_BYTES] > 0:
            margin = max(1, (high - low) // (50 if integers[TRIES] < 4 else 4))
        wanted = np.int64(np.rint(numbers[NEXT_COUNT]))
        integers[WANTED] = min(max(wanted, low + margin, 1), high - margin)
    if stage == BEYOND:
        stage = _look_beyond(integers, numbers)
        if stage == COLLECT:
            return stage
    if stage == JUMP:
        base = integers[BASE]
        while integers[JUMPS_LEFT] > 0:
            jumps = integers[JUMPS_LEFT]
            integers[WANTED] = min(nonzero, base + max(jumps, base * jumps // (2 * JUMPS)))
            if integers[WANTED] != integers[TRIED]:
                break
            integers[JUMPS_LEFT] -= 1
        if integers[JUMPS_LEFT] == 0:
            stage = REFINE
    if stage == REFINE:
        if not (takes_step and integers[BEST] and _has_room(integers)):
            return DONE
        integers[WANTED], numbers[SHRUNK], stage = integers[BEST], 0.0, EXACT
        if 4 * integers[BEST] >= integers[BUDGET]:
            integers[TRIES], numbers[FITTING], numbers[EXCEEDING], stage = 0, 0.0, np.inf, SHRINK
            numbers[OCTAVES] = _missing_octaves(integers, numbers)
    if stage == SHRINK:
        numbers[SHRUNK] = TWO ** -numbers[OCTAVES]
    return stage


@inline
def _look_beyond(integers: Array, numbers: Array) -> int:
    """Choose a larger count than the best one; return the stage, which is COLLECT for more candidates."""
    base, candidates, nonzero = integers[BEST], integers[CANDIDATES], integers[NONZERO]
    complete = candidates == integers[SIZE] or nonzero < candidates
    if _has_room(integers) and base == nonzero and not complete:
        numbers[GUESSED] *= 2
        return COLLECT
    integers[BASE], integers[TRIED] = base, 0
    integers[JUMPS_LEFT] = JUMPS if _has_room(integers) else 0
    if base == nonzero:
        return REFINE
    block = (base // RICE_BLOCK + 1) * RICE_BLOCK + NEXT_BLOCK
    if block <= min(np.float64(nonzero), FAR * base) and base < MANY:
        integers[WANTED] = block
        return BLOCK
    return JUMP


@inline
def _solve(
    bins: Array, scale: float, size: float, cost: float, nbytes: float, fineness: float, chooses: bool
) -> tuple[float, float]:
    """Return the fineness, which is chosen as ``Histogram.refine`` does or stays, and its ``find_count``."""
    best, best_count, least = 1.0 if chooses else fineness, 0.0, 0.0
    for i in range(1 + (len(FINENESS) if chooses else 0)):
        trial = FINENESS[i - 1] if i else best
        ratios = trial * LOW_RATIO, trial * HIGH_RATIO
        bits = 8 * (nbytes - SECTION_BYTES)
        count, error = find_count(bins, scale, size, bits, cost, ratios[0], ratios[1])
        if i and error > MIN_GAIN * least:
            break
        best, best_count, least = trial, count, error
    return best, max(best_count, MIN_COUNT)


@inline
def _predict(
    bins: Array, scale: float, size: float, count: int, used: int, fineness: float, takes_step: bool
) -> tuple[float, float]:
    """Return the cost of the positions by a measurement, as ``Histogram.fit`` does, and predicted bytes."""
    values = predicted = 0.0
    cost = 0.0 if takes_step else 1.0
    for i in range(3 if takes_step else 1):
        ratios = fineness * LOW_RATIO, fineness * HIGH_RATIO
        bits = predict_bits(bins, scale, size, np.float64(count), cost, ratios[0], ratios[1])
        predicted = bits / 8 + SECTION_BYTES
        if takes_step and i == 0:
            values, cost = predicted, 1.0
        elif takes_step and i == 1:
            cost = _limit_cost(values, predicted, used)
    return cost, predicted


@kernel
def find_steps(active: Array, integers: Array, numbers: Array, smallest: Array, steps: Array) -> None:
    """Compute the widths of the cells of selections, (m,) f64; ``smallest`` are (m,) i64 keys of float32."""
    for unit in range(active.size):
        i = active[unit]
        density = integers[i, WANTED] / integers[i, SIZE]
        threshold = np.float64(f32_from_bits(np.uint32(smallest[unit])))
        step = threshold * _step_ratio(density) * (numbers[i, SHRUNK] * numbers[i, FINE])
        steps[unit] = step if step >= MIN_STEP else 0.0

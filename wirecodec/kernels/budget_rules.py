"""Rules of the search of ``budget``, for Python and for kernels: constants, and arithmetic in binary64."""

from __future__ import annotations

import math

MIN_ROOM = 12
"""Bytes below which a search ends."""
MAX_TRIES = 8
POWER = 0.85
"""Typical power of the count with which the bytes grow."""
JUMPS = 3
"""Counts that are tried above the largest one found if that leaves room, up to half as many again."""
NEXT_BLOCK, FAR, MANY = 32, 1.4, 1024
"""Indices in a further block of an index codec that is tried, the largest count for that, in counts, and the
elements from which on a block matters little."""
NARROW = 0.01
"""Distance of two counts, in counts, below which the step is refined instead: bytes jump between them."""
MARGIN, LOW_MARGIN, LOW_MARGIN_COUNT = 2.0, 1.5, 8192
"""Candidates per element of the first count: MARGIN, or LOW_MARGIN from a count on, whose sample is large."""
LARGE_COUNT = 2**17
"""Elements from which on a threshold is searched in segments."""
MAX_COUNTED_CANDIDATES = 2**15
"""Candidates up to which they replace the sample in the model: their counts are exact."""
SMALL_BAND, LARGE_BAND = (0.99, 0.98), (0.98, 0.955)
"""Parts of a budget that are aimed at, and the least that are accepted.

For tensors of few selected elements, and of those for which a second measurement takes long.
"""

LOW_RATIO, HIGH_RATIO = 1.2, 1.55
"""Step in thresholds, Δ/T: at density 0, and the largest. In between, it grows by the density."""
MIN_STEP = 2.0**-96
"""Smallest step that is not 0; ``error-bounded`` allows 2^-100."""
SAMPLE_LINES, MAX_SAMPLE_LINES, LINE = 1024, 8192, 16
"""Least and largest number of cache lines of a sample, and elements of each."""
ELEMENTS_PER_LINE = 4096
"""Elements of a tensor for which a sample has one line."""
SECTION_BYTES = 33
"""Bytes of ``error-bounded`` that do not depend on the values, and of padding."""
MIN_COUNT = 0.5
"""Least number of elements that a model finds."""
MIN_INDEX_COST, MAX_INDEX_COST = 0.1, 2.0
"""Limits of the bytes of the positions, divided by those of independent ones."""
FINENESS, MIN_GAIN = (0.7, 0.5, 0.35), 0.995
"""Factors of the step that are tried in turn while they lower the predicted error, and by how much."""


def step_ratio(density: float) -> float:
    """Return the step in thresholds, Δ/T, that gives nearly the least squared error at a density.

    Measured on gradients and Laplace values from 0.03 to 2 bits per element; the error changes by less than
    1 % between 0.85 and 1.5. Above 1.6, ``error-bounded`` centres its cells at zero.
    """
    return min(LOW_RATIO + density, HIGH_RATIO)


def aim_at(part: float, budget: float) -> float:
    """Return the bytes that are aimed at: a part of the budget, at most up to the middle of ``MIN_ROOM``."""
    return min(part * budget, budget - MIN_ROOM / 2)


def count_candidates(guess: float, size: int) -> int:
    """Return how many candidates to collect for a first count."""
    margin = MARGIN if guess < LOW_MARGIN_COUNT else LOW_MARGIN
    return min(size, int(guess * margin) + 256)


def limit_count(wanted: float, count: int) -> float:
    """Return a count that is not far from one that was measured."""
    return min(max(wanted, count / 8), count * 4.0)


def limit_cost(values: float, both: float, nbytes: float) -> float:
    """Return the index cost of a measurement, whose values and independent positions were predicted."""
    cost = (nbytes - values) / max(both - values, 1.0)
    return min(max(cost, MIN_INDEX_COST), MAX_INDEX_COST)


def follow_power(aim: float, count: int, spent: int, k: int, low: int, m: int, high: int) -> float:
    """Return the count at which to aim between two measurements.

    Args:
        aim: bytes.
        count, spent: the last measurement.
        k, low, m, high: elements and bytes of the nearest measurements below and above the budget.
    """
    power = POWER
    if k != m and min(low, high) >= 1:
        power = min(max(math.log(high / low) / math.log(m / k), 0.4), 2.0)
    ratio: float = (aim / max(spent, 1)) ** (1 / power)
    return count * min(max(ratio, 0.125), 4.0)

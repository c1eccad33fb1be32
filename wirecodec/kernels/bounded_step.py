"""Rules of error-bounded's search for a step, for Python and for kernels.

All arithmetic is on scalars, in binary64. Callers round steps to binary32.
"""

from __future__ import annotations

import math

ROUNDING_MARGIN = 1 - 2.0**-20
"""Factor on the allowed squared error that covers rounding of the sums."""
MAX_START = 57
"""Largest half octave with which a block may start."""
CENTRED_START = 0.625
"""Lower end of the first cell around zero, in steps."""
MIN_STEP, MAX_CELLS = 2.0**-100, 2.0**24 - 2
"""Smallest step, and largest number of cells."""
MAX_GUESS = 2.0**120
MIN_ENERGY = 2.0**-900
"""Sum of the squares below which no error is measured."""
STEPS, FIRST_STEPS = 16, 8
"""Steps that are tried at most; those computed from the last one's error. The others are halved."""
NEARLY = 0.995
"""Part of the allowed squared error that ends the search."""
CORRECTIONS = 4
"""Steps whose error is measured by reconstruction at most."""


def is_allowed_step(step: float, largest: float) -> bool:
    """Return whether a step is large enough for the format, if ``largest`` is the largest magnitude."""
    return step >= MIN_STEP and largest / step < MAX_CELLS


def guess_step(error: float, energy: float, r: int) -> float:
    """Return the step with which the search begins.

    Args:
        error: relative l2 error.
        energy: sum of the squares.
        r: number of values.
    """
    return min(error * math.sqrt(12 * energy / r), MAX_GUESS)


def next_step(step: float, n: int, allowed: float, error: float) -> float:
    """Return the step that follows number n of the search, whose squared error is ``error``."""
    ratio = math.sqrt(allowed / error) if n < FIRST_STEPS else 0.5
    return step * min(max(ratio, 0.25), 2.0) * 0.9990234375


def reduce_step(step: float, allowed: float, error: float) -> float:
    """Return a smaller step than one whose measured squared error is not allowed."""
    return step * min(math.sqrt(allowed / error), 0.9990234375)


def find_start(mean: int, octave: int) -> int:
    """Return the largest half octave that does not exceed a mean.

    Args:
        mean: mean cell number, in units of 1/1024.
        octave: floor(log2(mean + 4)).
    """
    return min(2 * (octave - 2) + ((mean + 4) >> (octave - 1) & 1), MAX_START)

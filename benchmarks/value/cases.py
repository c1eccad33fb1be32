"""Vectors to measure: the largest values of distributions and of gradients, and two vectors for times."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common.inputs import DENSITIES
from benchmarks.value.distributions import DISTRIBUTIONS, Distribution, Floats, select_top
from benchmarks.value.rate_distortion import Curve, compute_curve, compute_tail_density, estimate_density

__all__ = ["CACHE", "CLOCK", "ELEMENTS", "Case", "generate_cases", "generate_time_cases"]

ELEMENTS = 26_000_000
"""Elements of the vectors whose largest values are measured, and of the vector that exceeds the caches."""

CACHE = 260_000
MIN_SAMPLE = 200
"""Samples below this size do not give a density."""

CLOCK = "all values"
"""Group of the vectors that are measured for their times."""


@dataclass(frozen=True)
class Case:
    """Recipe for one vector.

    Attributes:
        group: the table of its results: a distribution or a gradient's file.
        column: its column in that table.
        make: builds the (r,) float32 values.
        bound: computes the bound of those values, or None.
        synthetic: True for a known distribution.
    """

    group: str
    column: str
    make: Callable[[], Floats]
    bound: Callable[[Floats], Curve | None]
    synthetic: bool = True


def generate_cases(elements: int = ELEMENTS, files: Sequence[Path] = ()) -> Iterator[Case]:
    """Yield the cases by distribution, then by gradient.

    Args:
        elements: size of the synthetic vectors.
        files: float arrays, each a gradient.
    """
    for name, distribution in DISTRIBUTIONS.items():
        for density in DENSITIES:
            r = int(elements * density)
            yield Case(
                name,
                _format_density(density),
                partial(distribution.draw_top, elements, r),
                partial(_compute_known_bound, distribution, density),
            )
    for path in files:
        for density in DENSITIES:
            yield Case(
                path.stem,
                _format_density(density),
                partial(_load_top, path, density),
                _compute_sample_bound,
                synthetic=False,
            )


def generate_time_cases(elements: int = ELEMENTS) -> list[Case]:
    """Return all of a Laplace vector, at a size that fits a cache and at one that exceeds all caches."""
    distribution = DISTRIBUTIONS["laplace"]
    sizes = (min(CACHE, elements), elements)
    return [Case(CLOCK, f"{r:,}", partial(distribution.draw_top, r, r), lambda values: None) for r in sizes]


def _load_top(path: Path, density: float) -> Floats:
    return select_top(np.load(path), density)


def _compute_known_bound(distribution: Distribution, density: float, values: Floats) -> Curve:
    return compute_curve(compute_tail_density(distribution, density, values.size), values)


def _compute_sample_bound(values: Floats) -> Curve | None:
    return (
        compute_curve(estimate_density(values), values)
        if values.size >= MIN_SAMPLE and np.ptp(np.abs(values)) > 0
        else None
    )


def _format_density(density: float) -> str:
    return f"top {100 * density:g} %"

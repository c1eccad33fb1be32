"""The vectors that are measured: the largest of known laws and of gradients, and two for the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.index.cases import DENSITIES
from benchmarks.value.distributions import LAWS, Floats, Law, top_of
from benchmarks.value.rate_distortion import Curve, curve, density_of, tail_density

__all__ = ["CACHE", "CLOCK", "ELEMENTS", "FEW", "Case", "cases", "clock_cases"]

ELEMENTS = 26_000_000
"""Of the vectors whose largest values are measured, and of the one whose values do not fit a cache."""

CACHE = 260_000
FEW = 200
"""A sample of fewer values says nothing about its law."""

CLOCK = "all values"
"""The group of vectors that are there for their times."""


@dataclass(frozen=True)
class Case:
    """Values that are yet to be made.

    Args:
        group: the table it belongs to: a law, or a gradient's file.
        column: its place in that table.
        make: the (r,) float32 values.
        bound: of those values; None where there is none.
        synthetic: whether a law is known, and no gradient's.
    """

    group: str
    column: str
    make: Callable[[], Floats]
    bound: Callable[[Floats], Curve | None]
    synthetic: bool = True


def cases(elements: int = ELEMENTS, files: Sequence[Path] = ()) -> Iterator[Case]:
    """Law by law, then gradient by gradient.

    Args:
        elements: of the synthetic vectors.
        files: float arrays, each a gradient.
    """
    for name, law in LAWS.items():
        for density in DENSITIES:
            r = int(elements * density)
            yield Case(name, _column(density), partial(law.top, elements, r), partial(_known, law, density))
    for path in files:
        for density in DENSITIES:
            yield Case(path.stem, _column(density), partial(_top, path, density), _sampled, synthetic=False)


def clock_cases(elements: int = ELEMENTS) -> list[Case]:
    """All of a Laplace vector, in a cache and beyond every cache."""
    law = LAWS["laplace"]
    sizes = (min(CACHE, elements), elements)
    return [Case(CLOCK, f"{r:,}", partial(law.top, r, r), lambda values: None) for r in sizes]


def _top(path: Path, density: float) -> Floats:
    return top_of(np.load(path), density)


def _known(law: Law, density: float, values: Floats) -> Curve:
    return curve(tail_density(law, density, values.size), values)


def _sampled(values: Floats) -> Curve | None:
    return curve(density_of(values), values) if values.size >= FEW and np.ptp(np.abs(values)) > 0 else None


def _column(density: float) -> str:
    return f"top {100 * density:g} %"

"""Supports to measure: synthetic ones of three sizes and densities, and those of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common.inputs import DENSITIES
from benchmarks.index.supports import (
    Support,
    draw_layered,
    draw_rows,
    draw_runs,
    draw_uniform,
    select_nonzero,
    select_top,
)

__all__ = ["GENERATORS", "SIZES", "Case", "generate_cases"]

SIZES = (2**18, 2_600_000, 26_000_000)
GENERATORS: dict[str, Callable[[int, int], Support]] = {
    "uniform": draw_uniform,
    "rows": draw_rows,
    "runs": draw_runs,
    "layered": draw_layered,
}


@dataclass(frozen=True)
class Case:
    """Recipe for one support.

    Attributes:
        group: the table of its results: a kind of support or a gradient's file.
        column: its column in that table.
        density: r/d, or None for the nonzero elements of a gradient.
        make: builds the support.
    """

    group: str
    column: str
    density: float | None
    make: Callable[[], Support]


def generate_cases(sizes: Sequence[int] = SIZES, files: Sequence[Path] = ()) -> Iterator[Case]:
    """Yield the cases by kind of support, then by gradient.

    Supports that need no index bytes, empty or full, are skipped.
    """
    for kind, make in GENERATORS.items():
        for d in sizes:
            for density in DENSITIES:
                column = f"{_format_size(d)}, {_format_density(density)}"
                yield Case(kind, column, density, partial(make, d, int(d * density)))
    for path in files:
        values = np.load(path).reshape(-1).astype(np.float32)
        for density in DENSITIES:
            make_top = partial(select_top, values, density)
            yield Case(path.stem, f"top {_format_density(density)}", density, make_top)
        if 0 < np.count_nonzero(values) < values.size:
            yield Case(path.stem, "nonzeros", None, partial(select_nonzero, values))


def _format_size(d: int) -> str:
    return f"2^{d.bit_length() - 1}" if d & (d - 1) == 0 else f"{d / 1e6:g}M"


def _format_density(density: float) -> str:
    return f"{100 * density:g} %"

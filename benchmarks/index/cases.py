"""The supports that are measured: synthetic ones of three sizes and densities, and those of gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.index.supports import Support, layered, nonzero_of, rows, runs, top_of, uniform

__all__ = ["DENSITIES", "GENERATORS", "SIZES", "TESTED", "TRAINED", "Case", "cases", "gradient_files"]

DENSITIES = (0.1, 0.01, 0.001)
SIZES = (2**18, 2_600_000, 26_000_000)
GENERATORS: dict[str, Callable[[int, int], Support]] = {
    "uniform": uniform,
    "rows": rows,
    "runs": runs,
    "layered": layered,
}

TESTED = Path(__file__).parents[2] / "tests" / "data"
TRAINED = Path(__file__).parents[1] / "gradients" / "data"
"""Of ``make gradients``; may be missing."""


@dataclass(frozen=True)
class Case:
    """A support that is yet to be made.

    Args:
        group: the table it belongs to: a kind, or a gradient's file.
        column: its place in that table.
        density: r/d, None for the non-zeros of a gradient.
        make: the support.
    """

    group: str
    column: str
    density: float | None
    make: Callable[[], Support]


def cases(sizes: Sequence[int] = SIZES, files: Sequence[Path] = ()) -> Iterator[Case]:
    """All of them, kind by kind, then gradient by gradient; a support that needs no index is none."""
    for kind, make in GENERATORS.items():
        for d in sizes:
            for density in DENSITIES:
                yield Case(
                    kind, f"{_count(d)}, {_percent(density)}", density, partial(make, d, int(d * density))
                )
    for path in files:
        values = np.load(path).reshape(-1).astype(np.float32)
        for density in DENSITIES:
            yield Case(path.stem, f"top {_percent(density)}", density, partial(top_of, values, density))
        if 0 < np.count_nonzero(values) < values.size:
            yield Case(path.stem, "non-zeros", None, partial(nonzero_of, values))


def gradient_files(*folders: Path) -> list[Path]:
    """The gradients of these folders, in their order."""
    return [path for folder in folders for path in sorted(folder.glob("*.npy"))]


def _count(d: int) -> str:
    return f"2^{d.bit_length() - 1}" if d & (d - 1) == 0 else f"{d / 1e6:g}M"


def _percent(density: float) -> str:
    return f"{100 * density:g} %"

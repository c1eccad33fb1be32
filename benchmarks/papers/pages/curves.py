"""Points of the curves in pictures of SIDCo's fits and of AdaComp, kept so that a redraw measures nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.tables import append_rows, read_rows
from benchmarks.papers import adacomp, sidco

__all__ = ["CURVES", "DENSE", "MEASURED", "Point", "list_curves", "read_curves", "write_curves"]

MEASURED, DENSE = "measured", "dense"
"""Lines that are not a method's."""
FEWER = 4
"""One point of so many is kept of long curves."""
LEAST, BINS = 1e-4, 60
"""Smallest magnitude of the histogram of residuals, and its bins."""
LEAST_RESIDUAL = 1e-8


@dataclass(frozen=True)
class Point:
    """Point of a curve.

    Attributes:
        panel: title of its panel.
        line: name of its line.
        x, y: place.
    """

    panel: str
    line: str
    x: float
    y: float


def _trace(panel: str, line: str, x: Iterable[Any], y: Iterable[Any]) -> list[Point]:
    return [Point(panel, line, float(a), float(b)) for a, b in zip(x, y, strict=True)]


def _describe(fit: sidco.Fitted) -> str:
    return f"{'with' if fit.feedback else 'without'} feedback, step {fit.step:,}"


def _list_fits(found: Sequence[sidco.Fitted]) -> Iterator[Point]:
    """Yield the density of each gradient's magnitudes, measured and fitted."""
    for fit in found:
        middle, stats = (fit.sidco.edges[1:] + fit.sidco.edges[:-1]) / 2, fit.sidco
        yield from _trace(_describe(fit), MEASURED, middle, stats.density)
        for quality in stats.quality:
            yield from _trace(_describe(fit), quality.name, middle, quality.density)


def _list_decay(found: Sequence[sidco.Fitted]) -> Iterator[Point]:
    """Yield the sorted magnitudes, relative to the largest, and the error of what is left."""
    for fit in found:
        stats, line = fit.stats, f"{_describe(fit)}, p = {fit.stats.decay:.2f}"
        ranks = stats.ranks[::FEWER]
        yield from _trace("magnitudes", line, ranks, (stats.magnitudes / stats.magnitudes[0])[::FEWER])
        yield from _trace("errors", line, ranks, stats.errors[::FEWER])


def _list_errors(found: adacomp.Result) -> Iterator[Point]:
    """Yield the test error over the rate."""
    for run in found.runs:
        yield Point("", run.method, run.rate, run.error)
    yield Point("", DENSE, 1.0, found.baselines[adacomp.BATCH])


def _list_residuals(found: adacomp.Result) -> Iterator[Point]:
    """Yield the residuals over the steps, by bin."""
    for run in found.runs:
        steps = np.arange(1, len(run.residuals) + 1)[::FEWER]
        panel = f"{run.bin:,} elements per bin"
        yield from _trace(panel, run.method, steps, np.maximum(run.residuals, LEAST_RESIDUAL)[::FEWER])


def _list_histogram(found: adacomp.Result) -> Iterator[Point]:
    """Yield the number of residuals of each size after the last step, with the largest bins."""
    runs = [run for run in found.runs if run.bin == max(adacomp.BINS)]
    sizes = {run.method: np.abs(run.last_residual) for run in runs}
    largest = max((float(size.max()) for size in sizes.values()), default=1.0)
    edges = np.geomspace(LEAST, max(largest, 10 * LEAST), BINS + 1)
    middle = np.sqrt(edges[1:] * edges[:-1])
    for method, size in sizes.items():
        yield from _trace("", method, middle, np.histogram(size, edges)[0])


CURVES = ("sidco_fits", "sidco_decay", "adacomp", "adacomp_residuals", "adacomp_histogram")
"""Names of the pictures, and of their files of points."""


def list_curves(fits: sidco.Result, trainings: adacomp.Result) -> dict[str, list[Point]]:
    """List the points of each picture.

    Args:
        fits: SIDCo's results.
        trainings: AdaComp's results.
    """
    points = (
        _list_fits(fits.fits),
        _list_decay(fits.fits),
        _list_errors(trainings),
        _list_residuals(trainings),
        _list_histogram(trainings),
    )
    return {name: list(found) for name, found in zip(CURVES, points, strict=True)}


def write_curves(folder: Path, curves: Mapping[str, Sequence[Point]]) -> None:
    """Write a file of points per picture.

    Args:
        folder: of the files.
        curves: {picture: its points}.
    """
    for name, points in curves.items():
        path = folder / f"{name}.csv"
        path.unlink(missing_ok=True)
        append_rows(path, points)


def read_curves(folder: Path) -> dict[str, list[Point]]:
    """Read the points that ``write_curves`` wrote.

    Args:
        folder: of the files.
    """
    return {name: read_rows(folder / f"{name}.csv", Point) for name in CURVES}

"""What the threshold fits of SIDCo see in a gradient (SIDCo, section 2): ``wirecodec stats``.

How compressible it is (Definition 1: the decay exponent p of the sorted magnitudes, compressible above ½),
how well each of the three distributions fits its magnitudes, and how near to k the stages come. Fits are to
the magnitudes that are not 0, as the selector makes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wirecodec.arrays import Array, as_flat
from wirecodec.cli.formatting import table
from wirecodec.errors import EncodeError
from wirecodec.select import fits
from wirecodec.select.fits import Fit
from wirecodec.select.magnitudes import Magnitudes
from wirecodec.select.sidco import SIDCo
from wirecodec.select.stages import SIDS
from wirecodec.select.topk import share_of

__all__ = ["DENSITIES", "STAGES", "FitQuality", "GradientStats", "Outcome", "gradient_stats", "text"]

DENSITIES = (0.1, 0.01, 0.001)
STAGES = (1, 2, 3, 4)
_POINTS = 65_536
"""Ranks at which a fit is held against the magnitudes, at most."""
_HEAD = 0.37
"""The share of the magnitudes whose decay is measured, the largest; the paper's figure 7 shows as many."""

_FITS = {"exponential": fits.exponential, "gamma": fits.gamma, "generalised Pareto": fits.pareto}


@dataclass(frozen=True, eq=False)
class FitQuality:
    """One distribution, fitted to all magnitudes that are not 0.

    Attributes:
        name: the distribution's.
        shape, scale: its parameters, the scale in the tensor's unit; None where it has none.
        survival: of ``GradientStats.curve``, the probability that each magnitude is exceeded.
        distance: Kolmogorov-Smirnov, the largest difference of the two distribution functions.
        errors: for each density, the fitted threshold over the true one, minus 1.
    """

    name: str
    shape: float | None
    scale: float
    survival: Array
    distance: float
    errors: tuple[float, ...]


@dataclass(frozen=True)
class Outcome:
    """What a selector made of one density: k̂/k, the fits it took, the reads, and whether it ended exactly."""

    kept: float
    fitted: int
    reads: float
    exact: bool


@dataclass(frozen=True, eq=False)
class GradientStats:
    """All that the page shows.

    Attributes:
        size, nonzero: elements.
        decay: p of Definition 1.
        lost: for each density, the share of the norm that the k largest leave behind.
        quality: of the three fits.
        staged: {sid: k̂/k by density, by number of stages}, the paper's stages.
        default: {sid: an outcome by density}, the default mode.
        curve: (rank, magnitude) of the sorted magnitudes, for the picture.
    """

    size: int
    nonzero: int
    decay: float
    lost: tuple[float, ...]
    quality: tuple[FitQuality, ...]
    staged: dict[str, tuple[tuple[float, ...], ...]]
    default: dict[str, tuple[Outcome, ...]]
    curve: tuple[Array, Array]


def gradient_stats(tensor: Any) -> GradientStats:
    """The statistics of any array; EncodeError where it holds NaN or Inf, or nothing but zeros."""
    x = as_flat(tensor).data
    magnitudes = Magnitudes(x, "stats", with_logs=True)
    total = magnitudes.total
    if total.count < 2:
        raise EncodeError(f"{total.count} elements are not 0: there is nothing to fit")
    # In the unit of the fits: the squares of what is near the float's end stay finite.
    ordered = np.sort(np.abs(x[x != 0].astype(np.float64)) * magnitudes.scale)
    falling = ordered[::-1]
    energy = np.cumsum(np.square(ordered))  # of the smallest
    counts = [share_of(density, x.size) for density in DENSITIES]
    return GradientStats(
        size=int(x.size),
        nonzero=total.count,
        decay=_decay(falling),
        lost=tuple(
            float(np.sqrt(energy[total.count - k - 1] / energy[-1])) if k < total.count else 0.0
            for k in counts
        ),
        quality=tuple(
            _quality(name, fit(total), ordered, counts, magnitudes.scale) for name, fit in _FITS.items()
        ),
        staged={sid: tuple(_by_stages(x, sid, density) for density in DENSITIES) for sid in SIDS},
        default={sid: tuple(_default(x, sid, density) for density in DENSITIES) for sid in SIDS},
        curve=(_ranks(falling.size, 400), falling[_ranks(falling.size, 400) - 1] / magnitudes.scale),
    )


def _ranks(last: int, n: int) -> Array:
    """About n ranks from 1 to the last, evenly spaced in their logarithms."""
    found: Array = np.unique(np.geomspace(1, last, n).round().astype(np.int64))
    return found


def _quality(name: str, fit: Fit, ordered: Array, counts: Sequence[int], unit: float) -> FitQuality:
    falling = ordered[::-1]
    return FitQuality(
        name,
        getattr(fit, "shape", None),
        getattr(fit, "scale", getattr(fit, "at", 0.0)) / unit,
        fit.survival(falling[_ranks(falling.size, 400) - 1]),
        _distance(ordered, fit),
        _threshold_errors(falling, fit, counts),
    )


def _decay(falling: Array) -> float:
    """The slope of the sorted magnitudes on logarithmic axes, least squares over evenly spaced log ranks."""
    ranks = _ranks(max(2, int(_HEAD * falling.size)), 200)
    slope = np.polyfit(np.log(ranks), np.log(falling[ranks - 1]), 1)[0]
    return float(max(-slope, 0.0))


def _distance(ordered: Array, fit: Fit) -> float:
    at = np.unique(np.linspace(0, ordered.size - 1, min(_POINTS, ordered.size)).astype(np.int64))
    model = 1 - fit.survival(ordered[at])
    return float(max(np.max((at + 1) / ordered.size - model), np.max(model - at / ordered.size)))


def _threshold_errors(falling: Array, fit: Fit, counts: Sequence[int]) -> tuple[float, ...]:
    """Where k or fewer are not 0, there is no threshold to fit."""
    return tuple(
        fit.threshold(k / falling.size) / float(falling[k - 1]) - 1 if k < falling.size else float("nan")
        for k in counts
    )


def _by_stages(x: Array, sid: str, density: float) -> tuple[float, ...]:
    """k̂/k of the paper's stages, one number of them after the other."""
    k = share_of(density, x.size)
    kept = []
    for stages in STAGES:
        found = SIDCo(density, sid, mode="faithful", stages=stages).select(x).indices
        kept.append((x.size if found is None else found.size) / k)
    return tuple(kept)


def _default(x: Array, sid: str, density: float) -> Outcome:
    search = SIDCo(density, sid).search(x)
    found = search.selection.indices
    kept = x.size if found is None else found.size
    return Outcome(kept / share_of(density, x.size), search.stages, search.reads, search.exact)


# For the terminal.


def text(stats: GradientStats, name: str) -> str:
    """The page as plain text: four tables."""
    density = [f"{d:g}" for d in DENSITIES]
    lines = [
        f"{name}: {stats.size:,} elements, {stats.nonzero:,} not 0 ({stats.nonzero / stats.size:.1%})",
        f"sorted magnitudes fall as rank^-{stats.decay:.2f} over the largest {_HEAD:.0%}: "
        + ("compressible" if stats.decay > 0.5 else "not compressible")
        + " by Definition 1, which asks for more than 0.5",
        "norm lost with the k largest kept: "
        + ", ".join(f"{lost:.3f} at {d}" for lost, d in zip(stats.lost, density, strict=True)),
        "",
        *table(
            ["fit", "shape", "scale", "KS distance", *(f"threshold error at {d}" for d in density)],
            [
                [
                    q.name,
                    "-" if q.shape is None else f"{q.shape:.3f}",
                    f"{q.scale:.3g}",
                    f"{q.distance:.3f}",
                    *("-" if math.isnan(e) else f"{e:+.1%}" for e in q.errors),
                ]
                for q in stats.quality
            ],
        ),
        "",
        *table(
            ["k̂/k of the paper's stages", "density", *(f"M = {m}" for m in STAGES)],
            [
                [sid, d, *(f"{kept:.3f}" for kept in row)]
                for sid, rows in stats.staged.items()
                for d, row in zip(density, rows, strict=True)
            ],
        ),
        "",
        *table(
            ["k̂/k of the default", "density", "k̂/k", "fits", "reads", "ended exactly"],
            [
                [sid, d, f"{o.kept:.3f}", str(o.fitted), f"{o.reads:.2f}", "yes" if o.exact else "no"]
                for sid, outcomes in stats.default.items()
                for d, o in zip(density, outcomes, strict=True)
            ],
        ),
    ]
    return "\n".join(lines)

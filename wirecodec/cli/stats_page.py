"""Page of ``wirecodec stats``."""

from __future__ import annotations

import math

from wirecodec.cli.formatting import format_table
from wirecodec.cli.gradient_stats import DECAY_FRACTION, DENSITIES, STAGES, GradientStats

__all__ = ["format_stats"]

_MIN_DECAY = 0.5  # of a compressible gradient, by Definition 1


def format_stats(stats: GradientStats, name: str) -> str:
    """Format the statistics of a gradient as plain text.

    Args:
        stats: the statistics.
        name: of the gradient.

    Returns:
        Lines without a newline at the end.
    """
    compressible = "compressible" if stats.decay > _MIN_DECAY else "not compressible"
    lost = (f"{lost:.3f} at {density:g}" for lost, density in zip(stats.lost, DENSITIES, strict=True))
    lines = [
        f"{name}: {stats.size:,} elements, {stats.nonzero:,} not 0 ({stats.nonzero / stats.size:.1%})",
        f"sorted magnitudes fall as rank^-{stats.decay:.2f} over the largest {DECAY_FRACTION:.0%}: "
        f"{compressible} by Definition 1, which requires more than {_MIN_DECAY}",
        f"fraction of the norm outside the k largest: {', '.join(lost)}",
        "",
        *_format_fits(stats),
        "",
        *_format_stages(stats),
        "",
        *_format_default(stats),
    ]
    return "\n".join(lines)


def _format_fits(stats: GradientStats) -> list[str]:
    header = ["fit", "shape", "scale", "KS distance", *(f"threshold error at {d:g}" for d in DENSITIES)]
    rows = [
        [
            quality.name,
            "-" if quality.shape is None else f"{quality.shape:.3f}",
            f"{quality.scale:.3g}",
            f"{quality.distance:.3f}",
            *("-" if math.isnan(error) else f"{error:+.1%}" for error in quality.errors),
        ]
        for quality in stats.quality
    ]
    return format_table(header, rows)


def _format_stages(stats: GradientStats) -> list[str]:
    header = ["k̂/k of the paper's stages", "density", *(f"M = {stages}" for stages in STAGES)]
    rows = [
        [sid, f"{density:g}", *(f"{selected:.3f}" for selected in row)]
        for sid, table in stats.staged.items()
        for density, row in zip(DENSITIES, table, strict=True)
    ]
    return format_table(header, rows)


def _format_default(stats: GradientStats) -> list[str]:
    header = ["k̂/k of the default", "density", "k̂/k", "fits", "reads", "ended exactly"]
    rows = [
        [sid, f"{density:g}", f"{o.selected:.3f}", str(o.fits), f"{o.reads:.2f}", "yes" if o.exact else "no"]
        for sid, outcomes in stats.default.items()
        for density, o in zip(DENSITIES, outcomes, strict=True)
    ]
    return format_table(header, rows)

"""Page of ``wirecodec stats``."""

from __future__ import annotations

import math
from collections.abc import Mapping

from wirecodec.cli.formatting import format_name, format_table
from wirecodec.cli.gradient_stats import DECAY_FRACTION, DENSITIES, GradientStats
from wirecodec.cli.sidco_stats import STAGES, SIDCoStats
from wirecodec.comparison.table import ERROR

_MIN_DECAY = 0.5  # of a compressible gradient, by Definition 1
_THRESHOLD = "threshold: the smallest magnitude of the k largest, which alone are sent"
_SIDCO = (
    "threshold error: of a fit, its threshold for this density over the true one, less 1",
    "k̂/k: elements that SIDCo selects over those asked for; M: fits, one after another, of the paper's mode",
    "fits, reads: of distributions, and of the tensor; ended exactly: an exact top-k had to end the search",
)


def format_summary(measured: Mapping[str, GradientStats], name: str) -> str:
    """Format the statistics of a model's tensors as a table.

    Args:
        measured: {name: statistics} of its tensors.
        name: of the model.

    Returns:
        Lines without a newline at the end.
    """
    size = sum(stats.size for stats in measured.values())
    nonzero = sum(stats.nonzero for stats in measured.values())
    header = ["tensor", "elements", "not 0", "decay", *(f"error at {density:g}" for density in DENSITIES)]
    rows = [
        [
            format_name(tensor),
            f"{stats.size:,}",
            f"{stats.nonzero / stats.size:.1%}",
            f"{stats.decay:.2f}",
            *(f"{selected.error:.3f}" for selected in stats.selected),
        ]
        for tensor, stats in measured.items()
    ]
    lines = [
        f"{name}: {len(measured)} tensors, {size:,} elements, {nonzero:,} not 0 ({nonzero / size:.1%})",
        *format_table(header, rows),
        "decay: the exponent p of rank^-p; error at: of sending only this part of the elements, the largest",
    ]
    return "\n".join(lines)


def format_stats(stats: GradientStats, sidco: SIDCoStats | None, name: str) -> str:
    """Format the statistics of a gradient as plain text; ``format_legend`` explains the columns.

    Args:
        stats: the statistics.
        sidco: those of SIDCo, or None to leave them out.
        name: of the gradient.

    Returns:
        Lines without a newline at the end.
    """
    compressible = "compressible" if stats.decay > _MIN_DECAY else "not compressible"
    lines = [
        f"{name}: {stats.size:,} elements, {stats.nonzero:,} not 0 ({stats.nonzero / stats.size:.1%})",
        f"sorted magnitudes fall as rank^-{stats.decay:.2f} over the largest {DECAY_FRACTION:.0%}: "
        f"{compressible} by Definition 1, which requires more than {_MIN_DECAY}",
        f"constants of its bounds: c1 = {stats.magnitude_factor:.3g}, c2 = {stats.error_factor:.3g}",
        *_format_selected(stats),
    ]
    if sidco is not None:
        lines += ["", *_format_fits(sidco), "", *_format_stages(sidco), "", *_format_default(sidco)]
    return "\n".join(lines)


def format_legend(*, sidco: bool) -> str:
    """Format the meanings of the columns, once for all tensors.

    Args:
        sidco: whether SIDCo's tables are on the page.

    Returns:
        Lines without a newline at the end.
    """
    return "\n".join([_THRESHOLD, ERROR, *(_SIDCO if sidco else ())])


def _format_selected(stats: GradientStats) -> list[str]:
    header = ["density", "k", "threshold", "error"]
    rows = [
        [f"{s.density:g}", f"{s.count:,}", f"{s.threshold:.3g}", f"{s.error:.3f}"] for s in stats.selected
    ]
    return format_table(header, rows)


def _format_fits(stats: SIDCoStats) -> list[str]:
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


def _format_stages(stats: SIDCoStats) -> list[str]:
    header = ["k̂/k of the paper's stages", "density", *(f"M = {stages}" for stages in STAGES)]
    rows = [
        [sid, f"{density:g}", *(f"{selected:.3f}" for selected in row)]
        for sid, table in stats.staged.items()
        for density, row in zip(DENSITIES, table, strict=True)
    ]
    return format_table(header, rows)


def _format_default(stats: SIDCoStats) -> list[str]:
    header = ["k̂/k of the default", "density", "k̂/k", "fits", "reads", "ended exactly"]
    rows = [
        [sid, f"{density:g}", f"{o.selected:.3f}", str(o.fits), f"{o.reads:.2f}", "yes" if o.exact else "no"]
        for sid, outcomes in stats.default.items()
        for density, o in zip(DENSITIES, outcomes, strict=True)
    ]
    return format_table(header, rows)

"""Picture of ``wirecodec stats --png``: magnitudes and error, and with ``--sidco`` its fits and counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from wirecodec.cli.files import FileArgument
from wirecodec.cli.gradient_stats import DENSITIES, GradientStats
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.cli.sidco_stats import STAGES, SIDCoStats

_FIT_COLOURS = {"exponential": "#D55E00", "gamma": "#009E73", "generalised Pareto": "#0072B2"}
_SID_COLOURS = {"exponential": "#D55E00", "gamma-gp": "#009E73", "gp": "#0072B2"}
_DASHES = ("-", "--", ":")
_MIN_SHOWN = 1e-3  # k̂/k is drawn on a logarithmic axis, which has no 0
_TOLERANCE = 0.12


def draw_stats(stats: GradientStats, sidco: SIDCoStats | None, name: str, file: FileArgument) -> None:
    """Draw the statistics of a gradient as a PNG file.

    Args:
        stats: the statistics.
        sidco: those of SIDCo, or None to leave them out.
        name: of the gradient.
        file: to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    figure = new_figure(9, 4.4) if sidco is None else new_figure(13, 12.6)
    figure.suptitle(f"{name}: {stats.size:,} elements, {stats.nonzero / stats.size:.0%} not 0")
    panels = list(np.ravel(figure.subplots(1, 2) if sidco is None else figure.subplots(3, 2)))
    _draw_decay(panels[0], stats)
    _draw_errors(panels[1], stats)
    if sidco is not None:
        _draw_densities(panels[2], sidco)
        _draw_distributions(panels[3], stats, sidco)
        _draw_fits(panels[4], stats, sidco)
        _draw_stages(panels[5], sidco)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    save_png(figure, file)


def _draw_decay(axes: Any, stats: GradientStats) -> None:
    """Draw the sorted magnitudes over their ranks, and the power law of the measured exponent."""
    ranks, magnitudes = stats.ranks, stats.magnitudes
    middle = len(ranks) // 2
    law = magnitudes[middle] * (ranks / ranks[middle]) ** -stats.decay
    axes.loglog(ranks, magnitudes, color="#333333", linewidth=2, label="sorted magnitudes")
    axes.loglog(ranks, law, color="#999999", linestyle="--", label=f"rank^-{stats.decay:.2f}")
    axes.set_xlabel("rank")
    axes.set_ylabel("magnitude")
    axes.set_ylim(bottom=max(magnitudes[0] * 1e-9, magnitudes[-1]))
    axes.yaxis.set_minor_formatter(lambda magnitude, _: "")


def _draw_errors(axes: Any, stats: GradientStats) -> None:
    """Draw the error of sending only the k largest elements over the density."""
    axes.semilogx(
        stats.ranks / stats.size, stats.errors, color="#333333", linewidth=2, label="error of top-k"
    )
    for selected in stats.selected:
        axes.plot(
            [selected.count / stats.size],
            [selected.error],
            color="#0072B2",
            marker="o",
            linestyle="",
            label=f"{selected.error:.3f} at {selected.density:g}",
        )
    axes.set_xlabel("density")
    axes.set_ylabel("relative error")
    axes.set_ylim(0, 1.02)


def _draw_densities(axes: Any, sidco: SIDCoStats) -> None:
    """Draw the probability density of the magnitudes, measured and fitted (Figures 2a and 8a)."""
    middles = (sidco.edges[1:] + sidco.edges[:-1]) / 2
    axes.stairs(sidco.density, sidco.edges, color="#BBBBBB", fill=True, label="measured")
    for quality in sidco.quality:
        axes.plot(middles, quality.density, color=_FIT_COLOURS[quality.name], label=quality.name)
    seen = sidco.density[sidco.density > 0]
    axes.set_yscale("log")
    if seen.size:
        axes.set_ylim(seen.min() / 3, seen.max() * 3)
    axes.set_xlabel("magnitude")
    axes.set_ylabel("probability density")


def _draw_distributions(axes: Any, stats: GradientStats, sidco: SIDCoStats) -> None:
    """Draw the cumulative distribution of the magnitudes, measured and fitted (Figures 2b and 8b)."""
    magnitudes = stats.magnitudes
    axes.semilogx(magnitudes, 1 - stats.ranks / stats.nonzero, color="#333333", linewidth=2, label="measured")
    for quality in sidco.quality:
        axes.semilogx(magnitudes, 1 - quality.survival, color=_FIT_COLOURS[quality.name], label=quality.name)
    axes.set_xlim(left=max(magnitudes[0] * 1e-6, magnitudes[-1]))
    axes.set_xlabel("magnitude")
    axes.set_ylabel("fraction of the elements that are smaller")


def _draw_fits(axes: Any, stats: GradientStats, sidco: SIDCoStats) -> None:
    """Draw the fraction of elements that exceed a magnitude, measured and fitted."""
    ranks, magnitudes = stats.ranks, stats.magnitudes
    axes.loglog(magnitudes, ranks / stats.nonzero, color="#333333", linewidth=2, label="measured")
    for quality in sidco.quality:
        label = f"{quality.name}, KS {quality.distance:.2f}"
        axes.loglog(magnitudes, quality.survival, color=_FIT_COLOURS[quality.name], label=label)
    axes.set_ylim(0.3 / stats.nonzero, 2)
    axes.set_xlim(left=max(magnitudes[0] * 1e-6, magnitudes[-1]))
    axes.xaxis.set_minor_formatter(lambda magnitude, _: "")
    axes.set_xlabel("magnitude")
    axes.set_ylabel("fraction of the elements that are larger")


def _draw_stages(axes: Any, sidco: SIDCoStats) -> None:
    """Draw k̂/k over the number of the paper's stages, and of the default mode at the right."""
    default = len(STAGES) + 1
    for sid, colour in _SID_COLOURS.items():
        for dash, selected, outcome in zip(_DASHES, sidco.staged[sid], sidco.default[sid], strict=True):
            shown = [max(fraction, _MIN_SHOWN) for fraction in selected]
            axes.semilogy(STAGES, shown, color=colour, linestyle=dash, marker="o", markersize=3)
            last = max(outcome.selected, _MIN_SHOWN)
            axes.semilogy([default], [last], color=colour, marker="s", markersize=4)
        axes.plot([], [], color=colour, label=f"SIDCo, {sid}")
    for density, dash in zip(DENSITIES, _DASHES, strict=True):
        axes.plot([], [], color="#333333", linestyle=dash, label=f"density {density:g}")
    band = f"within {_TOLERANCE:.0%} of k"
    axes.axhspan(1 - _TOLERANCE, 1 + _TOLERANCE, color="#E4E4E4", zorder=0, label=band)
    axes.set_xticks([*STAGES, default], [*(f"M = {m}" for m in STAGES), "default"])
    _set_ratio_ticks(axes)
    axes.set_ylabel("k̂/k: elements selected over elements asked for")


def _set_ratio_ticks(axes: Any) -> None:
    """Label a logarithmic axis of ratios with plain decimals."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.get_ylim()
    axes.set_ylim(min(low, 0.5), max(high, 2))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(lambda ratio, _: f"{ratio:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())

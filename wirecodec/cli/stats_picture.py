"""Picture of ``wirecodec stats --png``: decay, fitted distributions, and k̂/k."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wirecodec.cli.gradient_stats import DENSITIES, STAGES, GradientStats
from wirecodec.cli.picture import new_figure, save_png

__all__ = ["draw_stats"]

_FIT_COLOURS = {"exponential": "#D55E00", "gamma": "#009E73", "generalised Pareto": "#0072B2"}
_SID_COLOURS = {"exponential": "#D55E00", "gamma-gp": "#009E73", "gp": "#0072B2"}
_DASHES = ("-", "--", ":")
_MIN_SHOWN = 1e-3  # k̂/k is drawn on a logarithmic axis, which has no 0


def draw_stats(stats: GradientStats, name: str, path: Path) -> None:
    """Draw the statistics of a gradient as a PNG file.

    Args:
        stats: the statistics.
        name: of the gradient.
        path: the file to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    figure = new_figure(13, 4.4)
    figure.suptitle(f"{name}: {stats.size:,} elements, {stats.nonzero / stats.size:.0%} not 0")
    panels = figure.subplots(1, 3)
    for draw, axes in zip((_draw_decay, _draw_fits, _draw_stages), panels, strict=True):
        draw(axes, stats)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    save_png(figure, path)


def _draw_decay(axes: Any, stats: GradientStats) -> None:
    """Draw the sorted magnitudes over their ranks, and the power law of the measured exponent."""
    ranks, magnitudes = stats.curve
    middle = len(ranks) // 2
    law = magnitudes[middle] * (ranks / ranks[middle]) ** -stats.decay
    axes.loglog(ranks, magnitudes, color="#333333", linewidth=2, label="sorted magnitudes")
    axes.loglog(ranks, law, color="#999999", linestyle="--", label=f"rank^-{stats.decay:.2f}")
    axes.set_xlabel("rank")
    axes.set_ylabel("magnitude")
    axes.set_ylim(bottom=max(magnitudes[0] * 1e-9, magnitudes[-1]))


def _draw_fits(axes: Any, stats: GradientStats) -> None:
    """Draw the fraction of elements that exceed a magnitude, measured and fitted."""
    ranks, magnitudes = stats.curve
    axes.loglog(magnitudes, ranks / stats.nonzero, color="#333333", linewidth=2, label="not 0, exceeding")
    for quality in stats.quality:
        label = f"{quality.name}, KS {quality.distance:.2f}"
        axes.loglog(magnitudes, quality.survival, color=_FIT_COLOURS[quality.name], label=label)
    axes.set_ylim(0.3 / stats.nonzero, 2)
    axes.set_xlim(left=max(magnitudes[0] * 1e-6, magnitudes[-1]))
    axes.set_xlabel("magnitude")
    axes.set_ylabel("fraction")


def _draw_stages(axes: Any, stats: GradientStats) -> None:
    """Draw k̂/k over the number of the paper's stages, and of the default mode at the right."""
    default = len(STAGES) + 1
    for sid, colour in _SID_COLOURS.items():
        for dash, selected, outcome in zip(_DASHES, stats.staged[sid], stats.default[sid], strict=True):
            shown = [max(fraction, _MIN_SHOWN) for fraction in selected]
            axes.semilogy(STAGES, shown, color=colour, linestyle=dash, marker="o", markersize=3)
            last = max(outcome.selected, _MIN_SHOWN)
            axes.semilogy([default], [last], color=colour, marker="s", markersize=4)
        axes.plot([], [], color=colour, label=sid)
    for density, dash in zip(DENSITIES, _DASHES, strict=True):
        axes.plot([], [], color="#333333", linestyle=dash, label=f"density {density:g}")
    axes.axhspan(0.88, 1.12, color="#EEEEEE", zorder=0)
    axes.set_xticks([*STAGES, default], [*(f"M = {m}" for m in STAGES), "default"])
    axes.set_ylabel("k̂/k")

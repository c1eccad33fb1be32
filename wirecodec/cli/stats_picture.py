"""The picture of ``wirecodec stats --png``: decay, fitted tails, k̂/k. Needs Matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wirecodec.cli.output import open_output
from wirecodec.cli.picture import blank
from wirecodec.cli.stats import DENSITIES, STAGES, GradientStats

__all__ = ["draw"]

_COLOURS = {"exponential": "#D55E00", "gamma": "#009E73", "generalised Pareto": "#0072B2"}
_SIDS = {"exponential": "#D55E00", "gamma-gp": "#009E73", "gp": "#0072B2"}
_DASHES = ("-", "--", ":")


def draw(stats: GradientStats, name: str, path: Path) -> None:
    """Write a PNG; EncodeError where Matplotlib is not installed."""
    figure = blank(13, 4.4)
    figure.suptitle(f"{name}: {stats.size:,} elements, {stats.nonzero / stats.size:.0%} not 0")
    panels = figure.subplots(1, 3)
    for panel, axes in zip((_decay, _tails, _stages), panels, strict=True):
        panel(axes, stats)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, fontsize=8)
    with open_output(path) as file:
        figure.savefig(file, format="png")


def _decay(axes: Any, stats: GradientStats) -> None:
    """Sorted magnitudes over their ranks, and the power law whose exponent is reported."""
    ranks, magnitudes = stats.curve
    middle = len(ranks) // 2
    law = magnitudes[middle] * (ranks / ranks[middle]) ** -stats.decay
    axes.loglog(ranks, magnitudes, color="#333333", linewidth=2, label="sorted magnitudes")
    axes.loglog(ranks, law, color="#999999", linestyle="--", label=f"rank^-{stats.decay:.2f}")
    axes.set_xlabel("rank")
    axes.set_ylabel("magnitude")
    axes.set_ylim(bottom=max(magnitudes[0] * 1e-9, magnitudes[-1]))


def _tails(axes: Any, stats: GradientStats) -> None:
    """The share that exceeds a magnitude, and what the fits say of it."""
    ranks, magnitudes = stats.curve
    axes.loglog(magnitudes, ranks / stats.nonzero, color="#333333", linewidth=2, label="not 0, exceeding")
    for quality in stats.quality:
        label = f"{quality.name}, KS {quality.distance:.2f}"
        axes.loglog(magnitudes, quality.survival, color=_COLOURS[quality.name], label=label)
    axes.set_ylim(0.3 / stats.nonzero, 2)
    axes.set_xlim(left=max(magnitudes[0] * 1e-6, magnitudes[-1]))
    axes.set_xlabel("magnitude")
    axes.set_ylabel("share")


def _stages(axes: Any, stats: GradientStats) -> None:
    """k̂/k by the number of the paper's stages; beside it, at "default", what the default mode keeps."""
    default = len(STAGES) + 1
    for sid, colour in _SIDS.items():
        for dash, kept, outcome in zip(_DASHES, stats.staged[sid], stats.default[sid], strict=True):
            shown = [max(share, 1e-3) for share in kept]
            axes.semilogy(STAGES, shown, color=colour, linestyle=dash, marker="o", markersize=3)
            axes.semilogy([default], [max(outcome.kept, 1e-3)], color=colour, marker="s", markersize=4)
        axes.plot([], [], color=colour, label=sid)
    for density, dash in zip(DENSITIES, _DASHES, strict=True):
        axes.plot([], [], color="#333333", linestyle=dash, label=f"density {density:g}")
    axes.axhspan(0.88, 1.12, color="#EEEEEE", zorder=0)
    axes.set_xticks([*STAGES, default], [*(f"M = {m}" for m in STAGES), "default"])
    axes.set_ylabel("k̂/k")

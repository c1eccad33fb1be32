"""Picture of selectors: speed-ups over top-k, and selected counts, as in the SIDCo paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import LogFormatter

from benchmarks.common.inputs import DENSITIES
from benchmarks.select.count_accuracy import CountAccuracy
from benchmarks.select.report import compute_speed_up, find_baseline
from benchmarks.select.speeds import Speed

__all__ = ["draw"]

DRAWN = ("topk(δ)", "sidco(δ)", "sidco(δ, mode=faithful)", "dgc(δ)", "redsync(δ)", "gaussiank(δ)")
MARKS = "osD^vP*"
MIN_RATIO = 1e-2
"""Smaller ratios are drawn at this value."""


def draw(path: Path, speeds: Sequence[Speed], accuracies: Sequence[CountAccuracy], machine: str) -> None:
    """Draw four panels: figures 1a and 1b, 16, 1c and 9 of the paper.

    Args:
        path: path of the PNG.
        speeds: all speeds.
        accuracies: all accuracies; the first stream of real gradients with feedback is drawn, or else the
            first stream with feedback.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")
    synthetic = [s for s in speeds if s.synthetic and s.threads == 1]
    _draw_bars(axes[0, 0], synthetic)
    _draw_sizes(axes[0, 1], synthetic)
    some = [a for a in accuracies if a.feedback]
    some = sorted(some, key=lambda a: not (a.real and len(a.ratios) > 1))
    some = [a for a in some if a.stream == some[0].stream]
    _draw_means(axes[1, 0], some)
    _draw_iterations(axes[1, 1], [a for a in some if a.density == DENSITIES[-1]])
    fig.suptitle("Selectors: speed-up over top-k, and selected count relative to k")
    fig.text(0.995, 0.985, machine, fontsize=7, color="grey", ha="right")
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _draw_bars(axis: Any, speeds: Sequence[Speed]) -> None:
    largest = max(s.elements for s in speeds)
    baseline = find_baseline(speeds)
    for i, name in enumerate(DRAWN):
        found = [s for s in speeds if (s.elements, s.name) == (largest, name)]
        places = [DENSITIES.index(s.density) + (i - len(DRAWN) / 2) / (len(DRAWN) + 1) for s in found]
        heights = [compute_speed_up(speeds, s, baseline) for s in found]
        axis.bar(places, heights, 1 / (len(DRAWN) + 2), label=name, color=f"C{i}")
    axis.set_xticks(range(len(DENSITIES)), [f"δ = {d:g}" for d in DENSITIES])
    _format_axis(axis, f"speed-up over {baseline}: {largest:,} elements, one thread")


def _draw_sizes(axis: Any, speeds: Sequence[Speed]) -> None:
    baseline = find_baseline(speeds)
    for i, name in enumerate(DRAWN):
        found = [s for s in speeds if (s.density, s.name) == (0.01, name)]
        heights = [compute_speed_up(speeds, s, baseline) for s in found]
        axis.plot([s.elements for s in found], heights, marker=MARKS[i], label=name, color=f"C{i}")
    axis.set_xscale("log")
    axis.set_xlabel("elements")
    _format_axis(axis, f"speed-up over {baseline}: δ = 0.01, one thread")


def _draw_means(axis: Any, accuracies: Sequence[CountAccuracy]) -> None:
    names = list(dict.fromkeys(a.name for a in accuracies))
    for i, name in enumerate(names):
        found = [a for a in accuracies if a.name == name]
        places = [DENSITIES.index(a.density) + (i - len(names) / 2) / (len(names) + 1) for a in found]
        means = [max(sum(a.ratios) / len(a.ratios), MIN_RATIO) for a in found]
        below = [m - max(min(a.ratios), MIN_RATIO) for m, a in zip(means, found, strict=True)]
        above = [max(max(a.ratios) - m, 0) for m, a in zip(means, found, strict=True)]
        bars = [[max(b, 0) for b in below], above]
        axis.errorbar(places, means, bars, fmt=MARKS[i], label=name, color=f"C{i}", capsize=3)
    axis.set_xticks(range(len(DENSITIES)), [f"δ = {d:g}" for d in DENSITIES])
    axis.axhline(1, color="0.6", lw=0.8)
    _format_axis(axis, f"k̂/k: mean, minimum, maximum; {_format_stream(accuracies)}")


def _draw_iterations(axis: Any, accuracies: Sequence[CountAccuracy]) -> None:
    for i, a in enumerate(accuracies):
        axis.plot([max(r, MIN_RATIO) for r in a.ratios], label=a.name, color=f"C{i}", lw=2.5 if i == 0 else 1)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set_xlabel("iteration")
    _format_axis(axis, f"k̂/k: δ = {DENSITIES[-1]:g}, {_format_stream(accuracies)}")


def _format_stream(accuracies: Sequence[CountAccuracy]) -> str:
    return f"{accuracies[0].stream} with feedback" if accuracies else "not measured"


def _format_axis(axis: Any, title: str) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.4)))
    axis.set_title(title, fontsize=10)
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)
    axis.legend(fontsize=8)

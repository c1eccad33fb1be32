"""The picture: speed-ups over top-k and the counts that thresholds give, as the SIDCo paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import LogFormatter

from benchmarks.select.contenders import DENSITIES
from benchmarks.select.count_accuracy import Quality
from benchmarks.select.report import base_of, speed_up
from benchmarks.select.speeds import Speed

__all__ = ["draw"]

DRAWN = ("topk(δ)", "sidco(δ)", "sidco(δ, mode=faithful)", "dgc(δ)", "redsync(δ)", "gaussiank(δ)")
MARKS = "osD^vP*"
LEAST = 1e-2
"""Ratios below it are drawn there."""


def draw(path: Path, speeds: Sequence[Speed], qualities: Sequence[Quality], machine: str) -> None:
    """Four panels, figures 1a and 1b, 16, 1c and 9.

    Args:
        path: of the PNG.
        speeds: all.
        qualities: all; the first stream of real gradients with feedback is drawn, else the first with it.
        machine: its name.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(2, 2, figsize=(13, 9), layout="constrained")
    synthetic = [s for s in speeds if s.synthetic and s.threads == 1]
    _bars(axes[0, 0], synthetic)
    _sizes(axes[0, 1], synthetic)
    some = [q for q in qualities if q.feedback]
    some = sorted(some, key=lambda q: not (q.real and len(q.ratios) > 1))
    some = [q for q in some if q.stream == some[0].stream]
    _means(axes[1, 0], some)
    _iterations(axes[1, 1], [q for q in some if q.density == DENSITIES[-1]])
    fig.suptitle("Selectors: how much faster than top-k, and how near to k")
    fig.text(0.995, 0.985, machine, fontsize=7, color="grey", ha="right")
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _bars(axis: Any, speeds: Sequence[Speed]) -> None:
    largest = max(s.elements for s in speeds)
    base = base_of(speeds)
    for i, name in enumerate(DRAWN):
        found = [s for s in speeds if (s.elements, s.name) == (largest, name)]
        places = [DENSITIES.index(s.density) + (i - len(DRAWN) / 2) / (len(DRAWN) + 1) for s in found]
        heights = [speed_up(speeds, s, base) for s in found]
        axis.bar(places, heights, 1 / (len(DRAWN) + 2), label=name, color=f"C{i}")
    axis.set_xticks(range(len(DENSITIES)), [f"δ = {d:g}" for d in DENSITIES])
    _logarithmic(axis, f"speed-up over {base}: {largest:,} elements, one thread")


def _sizes(axis: Any, speeds: Sequence[Speed]) -> None:
    base = base_of(speeds)
    for i, name in enumerate(DRAWN):
        found = [s for s in speeds if (s.density, s.name) == (0.01, name)]
        heights = [speed_up(speeds, s, base) for s in found]
        axis.plot([s.elements for s in found], heights, marker=MARKS[i], label=name, color=f"C{i}")
    axis.set_xscale("log")
    axis.set_xlabel("elements")
    _logarithmic(axis, f"speed-up over {base}: δ = 0.01, one thread")


def _means(axis: Any, qualities: Sequence[Quality]) -> None:
    names = list(dict.fromkeys(q.name for q in qualities))
    for i, name in enumerate(names):
        found = [q for q in qualities if q.name == name]
        places = [DENSITIES.index(q.density) + (i - len(names) / 2) / (len(names) + 1) for q in found]
        means = [max(sum(q.ratios) / len(q.ratios), LEAST) for q in found]
        below = [m - max(min(q.ratios), LEAST) for m, q in zip(means, found, strict=True)]
        above = [max(max(q.ratios) - m, 0) for m, q in zip(means, found, strict=True)]
        bars = [[max(b, 0) for b in below], above]
        axis.errorbar(places, means, bars, fmt=MARKS[i], label=name, color=f"C{i}", capsize=3)
    axis.set_xticks(range(len(DENSITIES)), [f"δ = {d:g}" for d in DENSITIES])
    axis.axhline(1, color="0.6", lw=0.8)
    _logarithmic(axis, f"k̂/k: mean, least, greatest; {_title(qualities)}")


def _iterations(axis: Any, qualities: Sequence[Quality]) -> None:
    for i, q in enumerate(qualities):
        axis.plot([max(r, LEAST) for r in q.ratios], label=q.name, color=f"C{i}", lw=2.5 if i == 0 else 1)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set_xlabel("iteration")
    _logarithmic(axis, f"k̂/k: δ = {DENSITIES[-1]:g}, {_title(qualities)}")


def _title(qualities: Sequence[Quality]) -> str:
    return f"{qualities[0].stream} with feedback" if qualities else "nothing"


def _logarithmic(axis: Any, title: str) -> None:
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter(LogFormatter(minor_thresholds=(1.5, 0.4)))
    axis.set_title(title, fontsize=10)
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)
    axis.legend(fontsize=8)

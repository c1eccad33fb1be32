"""ScaleCom's pictures: similarity of the ranks, magnitudes that are selected, and the performance model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.palette import DARK, DENSE, GREEN, GREY, OTHERS, OURS, PALE, SKY
from benchmarks.common.pictures import label_ends, label_lines, open_picture
from benchmarks.papers import memories, scalecom

__all__ = ["draw"]

PANELS = {
    "Figures 2a, 2b: top-k 0.1 % of each rank's own, rate 0.01": ("2 ranks", "4 ranks", "8 ranks"),
    "Figures 2c, 2d: CLT-k 0.1 %, 4 ranks": ("rate 0.01", "rate 1", "rate 1, β = 0.1"),
    "Figure 3: CLT-k 400×, rate 0.1": ("2 ranks", "4 ranks", "8 ranks"),
}
"""{panel: names of its runs}, in the order of the results."""
HISTOGRAMS = {"top-k, 2 ranks": 0, "CLT-k, rate 1, β = 0.1, 4 ranks": 5}
"""{panel: number of its run}."""
LEAST = 0.5
"""An empty bin is drawn at this count, below the panel."""
KINDS = {"dense": DENSE, "top-k": OTHERS, "ScaleCom": OURS}


def draw(folder: Path, found: scalecom.Result) -> list[Path]:
    """Draw the four pictures into a folder; return their paths."""
    distances = "How different are the memories of ranks 0 and 1, step by step?", "cosine distance"
    hamming = "Which part of rank 0's top k is not in the top k of the mean, step by step?", "d/k of rank 0"
    paths = [folder / f"papers_scalecom_{name}.png" for name in ("memories", "selections", "areas", "model")]
    _draw_runs(paths[0], *distances, found.runs, lambda run: run.distances)
    _draw_runs(paths[1], *hamming, found.runs, lambda run: run.hamming)
    _draw_areas(paths[2], found.runs)
    _draw_model(paths[3])
    return paths


def _draw_runs(
    path: Path, title: str, y: str, runs: Sequence[memories.Run], read: Callable[[memories.Run], Any]
) -> None:
    with open_picture(path, len(PANELS), title=title, height=2.1, sharex=True, sharey=True) as axes:
        left = list(runs)
        ends: list[list[tuple[float, float, str, str]]] = []
        for axis, (panel, names) in zip(axes[:, 0], PANELS.items(), strict=True):
            ends.append([])
            for name, colour in zip(names, (OURS, GREEN, SKY), strict=True):
                run = left.pop(0)
                axis.plot(run.steps, read(run), color=colour, lw=1.5)
                ends[-1].append((run.steps[-1], read(run)[-1], name, colour))
            axis.set_title(panel, loc="left")
            axis.set_ylabel(y)
            axis.margins(x=0)
        axes[-1, 0].set_xlabel("step")
        for axis, found in zip(axes[:, 0], ends, strict=True):  # after the limits of all panels are set
            label_ends(axis, found)


def _draw_areas(path: Path, runs: Sequence[memories.Run]) -> None:
    top = f"top {100 * memories.TOP:g} %"
    names = "all elements", f"{top} of rank 0", f"{top} of the mean"
    title = f"How large are the elements of the mean that are in rank 0's {top}, after the last step?"
    with open_picture(path, len(HISTOGRAMS), title=title, height=2.7, sharex=True) as axes:
        for axis, (panel, place) in zip(axes[:, 0], HISTOGRAMS.items(), strict=True):
            labels = []
            for counts, colour, name in zip(runs[place].histogram, (GREY, OURS, DARK), names, strict=True):
                axis.stairs(np.maximum(counts, LEAST), memories.EDGES, color=colour, lw=1.5)
                labels.append((_trace_corners(counts), name, colour))
            axis.set(xscale="log", yscale="log", ylabel="elements per bin", ylim=(0.7, 1e5))
            axis.set_title(panel, loc="left")
            label_lines(axis, labels)
        axes[-1, 0].set_xlabel("magnitude in the mean / the largest")


def _trace_corners(counts: Any) -> list[tuple[float, float]]:
    """Return the corners of a histogram from its first element to its last one."""
    seen = np.flatnonzero(counts)
    first, last = int(seen[0]), int(seen[-1]) + 1
    edges = np.repeat(memories.EDGES[first : last + 1], 2)
    heights = np.maximum([0, *np.repeat(counts[first:last], 2), 0], LEAST)
    return [(float(x), float(height)) for x, height in zip(edges, heights, strict=True)]


def _draw_model(path: Path) -> None:
    title = "How much of a step is communication, by our formula for ScaleCom's server?"
    with open_picture(path, 1, 2, title=title, height=3.4) as axes:
        over_workers, shares = axes[0]
        labels = []
        for method, colour in KINDS.items():
            times = [scalecom.compute_shares(n, 8, 100, method)[1] for n in scalecom.WORKERS]
            points = [(n, 1e3 * seconds) for n, seconds in zip(scalecom.WORKERS, times, strict=True)]
            over_workers.plot(*zip(*points, strict=True), "o-", color=colour)
            labels.append((points, method, colour))
        over_workers.set(xscale="log", yscale="log", xlabel="workers", ylabel="communication per step, ms")
        over_workers.set_xticks(scalecom.WORKERS, [f"{n}" for n in scalecom.WORKERS])
        over_workers.minorticks_off()
        over_workers.yaxis.set_major_formatter("{x:g}")
        over_workers.margins(x=0.08, y=0.12)
        over_workers.set_title("Figure 1b: 8 images per worker", loc="left")
        label_lines(over_workers, labels)
        rows = [(minibatch, method) for minibatch in scalecom.MINIBATCHES for method in scalecom.METHODS]
        for place, (minibatch, method) in enumerate(rows):
            computing, sending = scalecom.compute_shares(64, minibatch, 100, method)
            whole = sum(scalecom.compute_shares(64, minibatch, 100, "dense"))
            shares.barh(place, computing / whole, color=PALE)
            shares.barh(place, sending / whole, left=computing / whole, color=KINDS[method])
        shares.set_yticks(range(len(rows)), [f"{method}, {minibatch} images" for minibatch, method in rows])
        shares.invert_yaxis()
        shares.set_xlabel("time / dense's (pale: computing)")
        shares.set_title("Figure 6a: 64 workers, 100 TFLOPs", loc="left")

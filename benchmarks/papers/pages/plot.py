"""Pictures of the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.common.inputs import DENSITIES
from benchmarks.common.palette import BLUE, DARK, GREY
from benchmarks.common.pictures import open_picture
from benchmarks.papers import deepreduce, fft, memories, scalecom, sidco
from benchmarks.papers.min_ratio import published_min_ratio
from benchmarks.papers.networks import NETWORKS
from benchmarks.papers.pages.curves import list_curves
from benchmarks.papers.pages.curves_plot import draw_curves
from benchmarks.papers.plan import Results

__all__ = ["QualityPanel", "draw_all", "draw_quality"]

QualityPanel = tuple[str, float, Sequence[tuple[str, float, float, float]]]
QUALITY_RANGE = (0.01, 4.0)
"""Of k̂/k; what is beyond it is drawn at its end."""

WINDOW = 50
"""Steps of the running average in Figure 9."""


def draw_all(folder: Path, results: Results) -> None:
    """Draw every picture into a folder."""
    mpl.use("Agg")
    _draw_quality(folder / "papers_sidco_quality.png", results.sidco)
    _draw_counts(folder / "papers_sidco.png", results.sidco)
    _draw_deepreduce(folder / "papers_deepreduce.png", results.deepreduce)
    _draw_fft(folder / "papers_fft.png", results.fft)
    _draw_scalecom(folder / "papers_scalecom.png", results.scalecom)
    draw_curves(folder, list_curves(results.sidco, results.adacomp))


@contextmanager
def _figure(path: Path, rows: int, columns: int, title: str, height: float = 4.2) -> Iterator[Any]:
    """Open a figure with rows × columns panels; save and close it after the block."""
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(rows, columns, figsize=(4.6 * columns, height * rows), layout="constrained")
    fig.suptitle(title)
    yield np.ravel(axes)
    for axis in np.ravel(axes):
        axis.spines[["top", "right"]].set_visible(False)
    fig.savefig(path, dpi=80)
    plt.close(fig)


def _smooth(x: Any, window: int = WINDOW) -> Any:
    """Return the running average over the last ``window`` numbers."""
    total = np.concatenate([[0.0], np.cumsum(x)])
    end = np.arange(1, len(x) + 1)
    begin = np.maximum(end - window, 0)
    return (total[end] - total[begin]) / (end - begin)


def _list_panels(found: sidco.Result) -> list[tuple[str, float, list[sidco.Count]]]:
    """List (network, density, its counts), by network."""
    return [
        (network, density, [c for c in found.counts if (c.network, c.density) == (network, density)])
        for network in NETWORKS
        for density in DENSITIES
    ]


def _draw_quality(path: Path, found: sidco.Result) -> None:
    panels = [
        (network, density, [_summarize(count) for count in counts])
        for network, density, counts in _list_panels(found)
    ]
    draw_quality(path, panels)


def _summarize(count: sidco.Count) -> tuple[str, float, float, float]:
    """Return the name, the mean of k̂/k, and the ends of its 90 % interval."""
    low, high = count.interval
    return count.name, float(count.ratios.mean()), float(low), float(high)


def draw_quality(path: Path, panels: Sequence[QualityPanel]) -> None:
    """Draw the quality of the count: the mean of k̂/k as a dot, with its 90 % interval.

    Args:
        path: of the PNG.
        panels: (network, density, (selector, mean, and the interval's ends)), by network.
    """
    columns = len({density for _, density, _ in panels})
    title = "How close to k is the number of selected elements? Mean and 90 % of a training's steps"
    layout: dict[str, Any] = {"sharex": True, "sharey": True}
    with open_picture(path, len(panels) // columns, columns, title=title, height=2.2, **layout) as axes:
        for axis, (network, density, counts) in zip(axes.flat, panels, strict=True):
            for place, (_, *numbers) in enumerate(counts):
                mean, low, high = np.clip(numbers, *QUALITY_RANGE)
                axis.plot([low, high], [place, place], color=GREY, lw=2)
                axis.plot([mean], [place], "o", color=BLUE, ms=5)
            axis.axvline(1, color=DARK, lw=0.8)
            axis.set_title(f"{network}, density {density:g}", loc="left")
            axis.set_yticks(range(len(counts)), [name for name, *_ in counts])
            axis.set(xscale="log", xlim=QUALITY_RANGE, ylim=(len(counts) - 0.4, -0.6))
        for axis in axes[-1]:
            axis.set_xlabel("selected / k")
            axis.set_xticks([0.1, 1], ["0.1", "1"])


def _draw_counts(path: Path, found: sidco.Result) -> None:
    title = f"SIDCo, Figure 9: k̂/k over a training, running average over {WINDOW} steps"
    with _figure(path, len(NETWORKS), len(DENSITIES), title, 3) as axes:
        for lines, (network, density, counts) in zip(axes, _list_panels(found), strict=True):
            for place, count in enumerate(counts):
                smooth = np.maximum(_smooth(count.ratios), 1e-2)
                lines.plot(smooth, color=f"C{place}", label=count.name, linewidth=1)
            lines.set_xlabel("step")
            _set_ratio_axis(lines, network, density)
        axes[0].legend(frameon=False, fontsize=7, ncols=2)


def _set_ratio_axis(axis: Any, network: str, density: float) -> None:
    axis.set_title(f"{network}, density {density:g}")
    axis.set_yscale("log")
    axis.set_ylim(1e-2, 1e2)
    axis.axhline(1, color="#999999", linewidth=0.8, zorder=0)
    axis.set_ylabel("k̂/k")


def _draw_deepreduce(path: Path, found: deepreduce.Result) -> None:
    with _figure(path, 1, 3, "DeepReduce, Figures 6 and 5") as axes:
        for colour, policy in zip(
            ("C0", "C1", "C2", "C3"), ("P0", "P1", "P2", deepreduce.PRINTED), strict=True
        ):
            points = [point for point in found.points if point.policy == policy]
            rates = [point.rate for point in points]
            axes[0].semilogx(rates, [p.kept for p in points], color=colour, marker="o", label=policy)
            axes[1].loglog(rates, [p.volume for p in points], color=colour, marker="o", label=policy)
            refused = [p for p in points if p.refused]
            axes[0].plot([p.rate for p in refused], [p.kept for p in refused], "x", color="#333333", zorder=3)
        axes[0].plot([], [], "x", color="#333333", label="refused by readers")
        axes[0].set_ylabel("selected elements that arrive")
        axes[1].set_ylabel("bytes, relative to 8 per selected element")
        axes[1].axhline(1, color="#999999", linewidth=0.8)
        axes[2].plot(found.sorted_values, color="#333333", linewidth=3, label="sorted values")
        axes[2].plot(found.fitted, color="C1", linewidth=1, label="8 pieces")
        axes[2].set_xlabel("rank")
        for axis in axes[:2]:
            axis.set_xlabel("false-positive rate")
        for axis in axes:
            axis.legend(frameon=False, fontsize=8)


def _draw_fft(path: Path, found: fft.Result) -> None:
    with _figure(path, 2, 3, "FFT paper, Figures 7, 9, 6, 10 and 12") as axes:
        for axis, (name, numbers) in zip(axes, found.numbers.items(), strict=False):
            axis.hist(numbers, bins=61, color="#0072B2")
            axis.set_title(f"{name}: {numbers.size} numbers of 8 bits")
            axis.set_xlabel("value")
        ratios = [1 / (1 - theta) for theta, *_ in found.status]
        axes[3].semilogx(ratios, [share for _, share, *_ in found.status], marker="o")
        axes[3].set_xlabel("coefficients per coefficient sent")
        axes[3].set_ylabel("bitmap's part of the bytes")
        for throughput in fft.THROUGHPUTS:
            rates = fft.FIXED | {"packing": 34e9, "selection": throughput * 1e9}
            least = [published_min_ratio(bandwidth / 8 * 1e9, **rates) for bandwidth in fft.BANDWIDTHS]
            axes[4].loglog(fft.BANDWIDTHS, least, label=f"T_s = {throughput} GB/s")
        axes[4].set_ylim(1, 100)
        axes[4].set_xlabel("T_comm, Gbit/s")
        axes[4].set_ylabel("least ratio k that pays")
        axes[4].legend(frameon=False, fontsize=8)
        axes[5].plot(np.arange(1, len(found.alphas) + 1), found.alphas)
        axes[5].set_ylim(0, 1.05)
        axes[5].set_xlabel("step")
        axes[5].set_ylabel("α of Assumption 3.2")


def _draw_scalecom(path: Path, found: scalecom.Result) -> None:
    with _figure(path, 2, 3, "ScaleCom, Figures 2, 3, 1b and 6") as axes:
        for run in found.runs:
            axes[0].plot(run.steps, run.distances, label=run.name)
            axes[1].plot(run.steps, run.hamming, label=run.name)
        axes[0].set_ylabel("cosine distance of the memories")
        axes[1].set_ylabel("d/k of rank 0")
        for axis in axes[:2]:
            axis.set_xlabel("step")
            axis.legend(frameon=False, fontsize=7)
        for axis, run in ((axes[2], found.runs[0]), (axes[3], found.runs[5])):
            for counts, colour, label in zip(
                run.histogram,
                ("#BBBBBB", "#D55E00", "#333333"),
                ("all", "top 2 % of rank 0", "true top 2 %"),
                strict=True,
            ):
                axis.stairs(np.maximum(counts, 0.5), memories.EDGES, color=colour, label=label, linewidth=1.5)
            axis.set(xscale="log", yscale="log", xlabel="relative magnitude of the mean", title=run.name)
            axis.legend(frameon=False, fontsize=7)
        for method, colour in zip(scalecom.METHODS, ("#999999", "#D55E00", "#0072B2"), strict=True):
            times = [scalecom.compute_shares(n, 8, 100, method) for n in scalecom.WORKERS]
            axes[4].loglog(scalecom.WORKERS, [1e3 * t for _, t in times], color=colour, label=method)
            for panel, minibatch in enumerate(scalecom.MINIBATCHES):
                place = panel * 4 + scalecom.METHODS.index(method)
                computing, sending = scalecom.compute_shares(64, minibatch, 100, method)
                whole = sum(scalecom.compute_shares(64, minibatch, 100, "dense"))
                axes[5].bar(place, computing / whole, color="#CCCCCC")
                axes[5].bar(place, sending / whole, bottom=computing / whole, color=colour)
        axes[4].set(xlabel="workers", ylabel="communication per step, ms", title="8 images per worker")
        axes[4].legend(frameon=False, fontsize=8)
        axes[5].set_xticks([0, 1, 2, 4, 5, 6], scalecom.METHODS * 2, rotation=45)
        axes[5].set_title("64 workers, 8 and 32 images, 100 TFLOPs")
        axes[5].set_ylabel("time, relative to dense")

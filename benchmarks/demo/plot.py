"""The picture: training loss over the bytes that a rank had sent, and beside it over the steps; both runs.

The first panel shows what compression saves, the second what it costs. Raw losses are faint; a geometric
moving average is drawn over them. Colours are Okabe and Ito's, which colour-blind readers can tell apart. On
one rank nothing is sent, and the first panel is left out.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from benchmarks.demo.report import byte_text, circumstances, ratio
from benchmarks.demo.train import Run

__all__ = ["draw", "headline", "smooth"]

_COLOURS = {"dense": "#D55E00", "compressed": "#0072B2"}
_INK = "#333333"
_GREY = "#666666"
_WINDOW = 15  # steps in the moving average
_STYLE: dict[Any, Any] = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": _INK,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def draw(path: Path, dense: Run, compressed: Run, parameters: int) -> None:
    """Write the PNG.

    Args:
        path: where to.
        dense, compressed: the two runs.
        parameters: how many the model has.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11.5, 5.4), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        panels: list[Axes]
        if compressed.sent[-1]:
            panels = list(figure.subplots(1, 2, sharey=True, width_ratios=[2, 1]))
            _over_bytes(panels[0], dense, compressed)
            panels[1].text(0, 1.025, "the same, step for step", transform=panels[1].transAxes, color=_GREY)
        else:
            panels = [figure.add_subplot()]
        _over_steps(panels[-1], dense, compressed)
        for axes in panels:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
            axes.set_axisbelow(True)
        panels[0].set_ylabel("training loss")
        panels[0].set_title(headline(dense, compressed), loc="left", fontsize=15, fontweight="bold", pad=28)
        panels[0].text(0, 1.025, circumstances(dense, parameters), transform=panels[0].transAxes, color=_GREY)
        figure.savefig(path, format="png")


def headline(dense: Run, compressed: Run) -> str:
    """The finding, as far as the numbers carry it."""
    times = ratio(dense, compressed)
    if times is None:
        return "One rank sends nothing: what compression does to the loss"
    if compressed.test_accuracy >= dense.test_accuracy - 0.01:
        return f"As accurate with 1/{times:.0f} of the bytes"
    points = 100 * (dense.test_accuracy - compressed.test_accuracy)
    return f"1/{times:.0f} of the bytes, but {points:.1f} points less accurate"


def smooth(losses: NDArray[np.float64], window: int = _WINDOW) -> NDArray[np.float64]:
    """Geometric moving average, centred; narrower towards the start, one-sided at the end. Same length."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(losses, 1e-12)))])
    at = np.arange(len(losses))
    half = np.minimum(window // 2, at)
    start, end = at - half, np.minimum(at + half + 1, len(losses))
    smoothed: NDArray[np.float64] = np.exp((logs[end] - logs[start]) / (end - start))
    return smoothed


def _curve(axes: Axes, x: NDArray[np.float64], run: Run, colour: str) -> None:
    axes.plot(x, run.losses, color=colour, alpha=0.25, linewidth=0.8)
    smoothed = smooth(run.losses)
    axes.plot(x, smoothed, color=colour, linewidth=2)
    axes.plot(x[-1:], smoothed[-1:], "o", color=colour, markersize=7)


def _over_steps(axes: Axes, dense: Run, compressed: Run) -> None:
    """What compression costs: the loss step for step.

    Args:
        axes: to draw in.
        dense, compressed: the two runs.
    """
    for name, run in (("dense", dense), ("compressed", compressed)):
        _curve(axes, np.arange(1, len(run.losses) + 1).astype(np.float64), run, _COLOURS[name])
        axes.plot([], [], color=_COLOURS[name], linewidth=2, label=name)
    axes.legend(frameon=False, loc="upper right")
    axes.set_xlabel("step")


def _over_bytes(axes: Axes, dense: Run, compressed: Run) -> None:
    """What compression saves: the loss over logarithmic bytes, and how far apart the ends are.

    Args:
        axes: to draw in.
        dense, compressed: the two runs.
    """
    low = min(np.min(dense.losses), np.min(compressed.losses))
    high = max(np.max(dense.losses), np.max(compressed.losses))
    floor = low / 4
    axes.set_xscale("log")
    axes.set_xlabel("bytes a rank has sent")
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: byte_text(x, 1)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low / 8, high * 1.6)
    axes.set_xlim(min(compressed.sent[0] / 1.6, compressed.sent[-1] / 400), dense.sent[-1] * 2.2)
    for name, run in (("compressed", compressed), ("dense", dense)):
        _curve(axes, run.sent, run, _COLOURS[name])
        middle, end, smoothed = len(run.losses) // 2, run.sent[-1], smooth(run.losses)
        _note(
            axes,
            f"{name}\n{100 * run.test_accuracy:.1f} % of test images right",
            (run.sent[middle], smoothed[middle]),
            (-22, -14),
            ha="right",
            va="top",
            color=_COLOURS[name],
            fontweight="bold",
            linespacing=1.4,
        )
        axes.plot([end, end], [floor, smoothed[-1]], color=_COLOURS[name], linewidth=0.8, linestyle=":")
        _note(axes, byte_text(end), (end, floor), (0, -5), ha="center", va="top", color=_COLOURS[name])
    arrow = {"arrowstyle": "<->", "color": _INK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (compressed.sent[-1], floor), xytext=(dense.sent[-1], floor), arrowprops=arrow)
    middle_of_arrow = math.sqrt(compressed.sent[-1] * dense.sent[-1])
    times = f"{dense.sent[-1] / compressed.sent[-1]:.0f} ×"
    _note(axes, times, (middle_of_arrow, floor), (0, 5), ha="center", fontweight="bold")


def _note(axes: Axes, text: str, at: tuple[float, float], offset: tuple[int, int], **style: Any) -> None:
    """Text beside a point of the data.

    Args:
        axes: where the point is.
        text: what to write.
        at: the point, in data coordinates.
        offset: the text from the point, in points of 1/72 inch.
        style: Matplotlib's, of the text.
    """
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **style)

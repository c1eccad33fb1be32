"""Picture of the demo: training loss over bytes sent and over steps, for both runs.

The first panel shows the saving, the second the cost. Raw losses are faint, with a geometric moving average.
The colours are those of Okabe and Ito, which are distinct for colour-blind readers. On one rank nothing is
sent, and the first panel is omitted.
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
from matplotlib.ticker import EngFormatter, LogLocator, NullFormatter, StrMethodFormatter
from numpy.typing import NDArray
from rich.filesize import decimal

from benchmarks.common.palette import DENSE, OURS
from benchmarks.demo.choices import DEFAULT, Choice
from benchmarks.demo.report import compute_ratio, describe_comparison
from benchmarks.demo.train import Run

__all__ = ["draw", "smooth_losses", "write_headline"]

_COLOURS = {"dense": DENSE, "compressed": OURS}
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


def draw(path: Path, dense: Run, compressed: Run, parameters: int, choice: Choice = DEFAULT) -> None:
    """Draw the picture.

    Args:
        path: path of the PNG.
        dense, compressed: the two runs.
        parameters: number of parameters of the model.
        choice: the compression.
    """
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(11.5, 5.4), dpi=150, layout="constrained")
        FigureCanvasAgg(figure)
        panels: list[Axes]
        if compressed.sent[-1]:
            panels = list(figure.subplots(1, 2, sharey=True, width_ratios=[2, 1]))
            _draw_over_bytes(panels[0], dense, compressed, choice.name)
            panels[1].text(0, 1.025, "the same losses over steps", transform=panels[1].transAxes, color=_GREY)
        else:
            panels = [figure.add_subplot()]
        _draw_over_steps(panels[-1], dense, compressed, choice.name)
        for axes in panels:
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.grid(axis="y", color="#E4E4E4", linewidth=0.7)
            axes.set_axisbelow(True)
        panels[0].set_ylabel("training loss")
        panels[0].set_title(
            write_headline(dense, compressed),
            loc="left",
            fontsize=15,
            fontweight="bold",
            pad=46 if choice.text else 28,
        )
        about = describe_comparison(dense, parameters, choice).replace("; ", "\n", 1)
        panels[0].text(0, 1.025, about, transform=panels[0].transAxes, color=_GREY, linespacing=1.3)
        figure.savefig(path, format="png")


def write_headline(dense: Run, compressed: Run) -> str:
    """Write the title from the numbers."""
    ratio = compute_ratio(dense, compressed)
    if ratio is None:
        return "One rank sends nothing: effect of compression on the loss"
    part = f"1/{ratio:.0f}" if ratio >= 1.5 else f"{ratio**-1:.1f} times"
    if compressed.test_accuracy >= dense.test_accuracy - 0.01:
        return f"As accurate with {part} of the bytes"
    points = 100 * (dense.test_accuracy - compressed.test_accuracy)
    return f"{part} of the bytes, but {points:.1f} points less accurate"


def smooth_losses(losses: NDArray[np.float64], window: int = _WINDOW) -> NDArray[np.float64]:
    """Compute a centred geometric moving average, narrower at the start and one-sided at the end."""
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.maximum(losses, 1e-12)))])
    at = np.arange(len(losses))
    half = np.minimum(window // 2, at)
    start, end = at - half, np.minimum(at + half + 1, len(losses))
    smoothed: NDArray[np.float64] = np.exp((logs[end] - logs[start]) / (end - start))
    return smoothed


def _draw_curve(axes: Axes, x: NDArray[np.float64], run: Run, colour: str) -> None:
    axes.plot(x, run.losses, color=colour, alpha=0.25, linewidth=0.8)
    smoothed = smooth_losses(run.losses)
    axes.plot(x, smoothed, color=colour, linewidth=2)
    axes.plot(x[-1:], smoothed[-1:], "o", color=colour, markersize=7)


def _draw_over_steps(axes: Axes, dense: Run, compressed: Run, label: str) -> None:
    """Draw the loss over steps: the cost of compression.

    Args:
        axes: to draw in.
        dense, compressed: the two runs.
        label: name of the compression.
    """
    for name, run in (("dense", dense), ("compressed", compressed)):
        _draw_curve(axes, np.arange(1, len(run.losses) + 1).astype(np.float64), run, _COLOURS[name])
        axes.plot([], [], color=_COLOURS[name], linewidth=2, label="dense" if run is dense else label)
    axes.legend(frameon=False, loc="upper right")
    axes.set_xlabel("step")


def _draw_over_bytes(axes: Axes, dense: Run, compressed: Run, label: str) -> None:
    """Draw the loss over bytes on a logarithmic axis: the saving by compression.

    Args:
        axes: to draw in.
        dense, compressed: the two runs.
        label: name of the compression.
    """
    low = min(np.min(dense.losses), np.min(compressed.losses))
    high = max(np.max(dense.losses), np.max(compressed.losses))
    floor = low / 4
    axes.set_xscale("log")
    axes.set_xlabel("bytes sent per rank")
    axes.xaxis.set_major_locator(LogLocator(base=10, numticks=20))
    axes.xaxis.set_major_formatter(EngFormatter("B", places=0))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(low / 8, high * 1.6)
    axes.set_xlim(min(compressed.sent[0] / 1.6, compressed.sent[-1] / 400), dense.sent[-1] * 2.2)
    for name, run in (("compressed", compressed), ("dense", dense)):
        _draw_curve(axes, run.sent, run, _COLOURS[name])
        middle, end, smoothed = len(run.losses) // 2, run.sent[-1], smooth_losses(run.losses)
        _annotate(
            axes,
            f"{'dense' if run is dense else label}\n{100 * run.test_accuracy:.1f} % test accuracy",
            (run.sent[middle], smoothed[middle]),
            (-22, -14),
            ha="right",
            va="top",
            color=_COLOURS[name],
            fontweight="bold",
            linespacing=1.4,
        )
        axes.plot([end, end], [floor, smoothed[-1]], color=_COLOURS[name], linewidth=0.8, linestyle=":")
        _annotate(
            axes, decimal(round(end)), (end, floor), (0, -5), ha="center", va="top", color=_COLOURS[name]
        )
    arrow = {"arrowstyle": "<->", "color": _INK, "linewidth": 1, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", (compressed.sent[-1], floor), xytext=(dense.sent[-1], floor), arrowprops=arrow)
    middle_of_arrow = math.sqrt(compressed.sent[-1] * dense.sent[-1])
    factor = dense.sent[-1] / compressed.sent[-1]
    ratio = f"{factor:.0f} ×" if factor >= 9.95 else f"{factor:.1f} ×"
    _annotate(axes, ratio, (middle_of_arrow, floor), (0, 5), ha="center", fontweight="bold")


def _annotate(axes: Axes, text: str, at: tuple[float, float], offset: tuple[int, int], **style: Any) -> None:
    """Annotate a point of the data.

    Args:
        axes: axes of the point.
        text: the text.
        at: the point, in data coordinates.
        offset: position of the text relative to the point, in points of 1/72 inch.
        style: text properties of Matplotlib.
    """
    axes.annotate(text, at, xytext=offset, textcoords="offset points", **style)

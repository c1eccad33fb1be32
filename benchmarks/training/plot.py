"""Pictures of the training benchmark: metric over bits, and loss over steps, one panel per task.

A panel has one line per family of systems, named at its end. Bars, and the band of dense, are the standard
deviation over seeds.
Methods of papers have numbers. Every system is in the table of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.palette import DARK, DENSE, GREEN, GREY, ORANGE, OTHERS, OURS, PALE, PINK, SKY
from benchmarks.common.pictures import label_ends, label_lines, open_picture
from benchmarks.training.plan import Plan
from benchmarks.training.rows import Row, collect_rows
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task
from wirecodec.cli.compare_picture import find_free_offset

__all__ = ["draw"]

CURVES = {
    "dense": DENSE,
    "budget 0.25": OURS,
    "budget 0.1": SKY,
    "budget 0.03": GREEN,
    "top-k 1 % as published": PINK,
    "PowerSGD, rank 4": OTHERS,
}
"""{system: its colour in the picture of losses}."""
LOSSES = (0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.85, 1, 1.2, 1.5, 1.8, 2.2, 3, 4, 5, 7, 10)
"""Numbers on the axes of losses."""
OWN = "this library"
SERIES = r"(4, 0\.25|8, 0\.1|16, 0\.03)"
"""Steps and bits of the local updates that every short task tries.

Variants that were added later have no line. So a line has about as many systems
as that of ``budget``, and not the best of many.
"""
FAMILIES = {
    "budget, every step": (r"budget [\d.]+", OURS, "s"),
    "local updates every 4, 8, 16": (rf"local updates every {SERIES} bits per step", GREEN, "o"),
    "local updates, inner momentum 0.5": (
        rf"local updates every {SERIES} bits per step, inner momentum 0\.5",
        SKY,
        "D",
    ),
    "local updates every 10": (
        r"local updates every 10, [\d.]+ bits per step, half of the rest kept, mean of senders",
        GREEN,
        "o",
    ),
    "every 5": (
        r"local updates every 5, [\d.]+ bits per step, half of the rest kept, mean of senders",
        SKY,
        "D",
    ),
    "PowerSGD": (r"PowerSGD, rank \d+", OTHERS, "^"),
    "top-k as published": (r"top-k [\d.]+ % as published", PINK, "v"),
    "fp16, bf16": (r"fp16|bf16", ORANGE, "P"),
}
"""{name: (pattern of its systems, colour, mark)}."""
FALLEN = 0.15
"""Part of the steps whose losses may be above the panel: they would press the lines together."""
NUMBERS = 7.0
"""Size of the numbers and names of papers' methods, in points."""
MOST_SHOWN = 7.0
"""Distance from the best metric to the worst that is shown, in distances to the median."""


def draw(folder: Path, plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> list[Path]:
    """Draw training.png and training_loss.png; return the paths.

    Tasks without results of this library's own systems are left out: they are for one claim of a paper.
    """
    collected = [(task, collect_rows(plan, task, systems)) for task in tasks]
    found = [(task, rows) for task, rows in collected if any(row.system.group == OWN for row in rows)]
    if not found:
        return []
    paths = []
    for name, title, panel in PICTURES:
        with open_picture(folder / name, len(found), title=title, height=3.5) as axes:
            for axis, (task, rows) in zip(axes[:, 0], found, strict=True):
                panel(axis, task, rows)
        paths.append(folder / name)
    return paths


def _find_family(name: str) -> str | None:
    """Return the family of a system, or None."""
    for family, (pattern, _, _) in FAMILIES.items():
        if re.fullmatch(pattern, name):
            return family
    return None


def _draw_metric(axis: Any, task: Task, rows: Sequence[Row]) -> None:
    worst = _find_worst_shown(task, rows)
    sign = -1.0 if task.higher_is_better else 1.0
    shown = [row for row in rows if sign * row.test <= sign * worst]
    of_papers = [row for row in shown if row.system.group == "papers"]
    marks = [(row.best.bits, row.test) for row in of_papers]
    _draw_deviations(axis, of_papers, GREY)
    axis.plot(*zip(*marks, strict=True) if marks else ([], []), "D", color=PALE, markersize=5)
    lines = []
    for family, (_, color, mark) in FAMILIES.items():
        members = [row for row in shown if _find_family(row.system.name) == family]
        points = sorted((row.best.bits, row.test) for row in members)
        _draw_deviations(axis, [row for row in members if (row.best.bits, row.test) in points], color)
        if points:
            axis.plot(*zip(*points, strict=True), f"{mark}-", color=color, linewidth=1.6, markersize=7)
            lines.append((points, family, color))
    left_out = len(rows) - len(shown)
    note = f" ({left_out} of {len(rows)} systems are beyond the panel)" if left_out else ""
    better = "higher" if task.higher_is_better else "lower"
    axis.set_title(f"{task.name}: {better} is better{note}", loc="left")
    axis.set(xscale="log", xlabel="bits per parameter, worker and step", ylabel=f"test {task.metric}")
    axis.margins(x=0.3, y=0.2)
    dense = next((row for row in rows if row.system.name == "dense"), None)
    if dense is not None:
        axis.axhline(dense.test, color=DENSE, linewidth=1, linestyle=":")
        if len(dense.tests) > 1:
            ends = dense.test - dense.deviation, dense.test + dense.deviation
            axis.axhspan(*ends, color=DENSE, alpha=0.12, linewidth=0)
        axis.autoscale_view()
        left, right = axis.get_xlim()
        places = np.geomspace(left, right, 9)
        axis.set_xlim(left, right)
        lines.append(([(float(x), dense.test) for x in places], "dense, 32 bits", DENSE))
    points = [point for line, *_ in lines for point in line]
    bars = [
        (row.best.bits, row.test + part * row.deviation)
        for row in shown
        if len(row.tests) > 1
        for part in np.linspace(-1, 1, 9)
    ]
    numbers = _name_papers(axis, [row.system.name for row in of_papers], marks, [*points, *bars])
    label_lines(axis, lines, [*marks, *bars, *numbers])


def _draw_deviations(axis: Any, rows: Sequence[Row], color: str) -> None:
    """Draw a bar of one standard deviation at each system with several seeds."""
    several = [row for row in rows if len(row.tests) > 1]
    x, y, deviations = ([f(row) for row in several] for f in (_get_bits, _get_test, _get_deviation))
    axis.errorbar(x, y, deviations, fmt="none", ecolor=color, elinewidth=1.2, capsize=3, zorder=1)


_get_bits, _get_test, _get_deviation = attrgetter("best.bits"), attrgetter("test"), attrgetter("deviation")


def _name_papers(
    axis: Any,
    names: Sequence[str],
    marks: Sequence[tuple[float, float]],
    others: Sequence[tuple[float, float]],
) -> list[tuple[float, float]]:
    """Write a number beside each mark of a paper's method, and the list of their names beside the panel.

    Returns:
        The places of the numbers, in the units of the marks.
    """
    if not marks:
        return []
    names_below = "\n".join(f"{number}  {name}" for number, name in enumerate(names, 1))
    axis.text(1.01, 1.0, names_below, transform=axis.transAxes, va="top", fontsize=NUMBERS, color=DARK)
    axis.figure.canvas.draw()  # so that constrained layout has set the panel's size
    unit = 72 / axis.figure.dpi
    places = [tuple(unit * axis.transData.transform(mark)) for mark in (*marks, *others)]
    for number, (mark, place) in enumerate(zip(marks, places, strict=False), 1):
        offset = find_free_offset(place, places, 1.3 * NUMBERS)
        places.append((place[0] + offset[0], place[1] + offset[1]))
        axis.annotate(
            str(number),
            mark,
            offset,
            textcoords="offset points",
            fontsize=NUMBERS,
            color=DARK,
            ha="center",
            va="center",
        )
    to_data = axis.transData.inverted().transform
    return [tuple(to_data(np.array(place) / unit)) for place in places[-len(marks) :]]


def _find_worst_shown(task: Task, rows: Sequence[Row]) -> float:
    """Return the worst metric on the panel: outliers would press all others together."""
    named = [row.test for row in rows if _find_family(row.system.name) is not None]
    tests = np.array(named or [row.test for row in rows])
    best, middle = (tests.max() if task.higher_is_better else tests.min()), np.median(tests)
    limit = float(best + MOST_SHOWN * (middle - best))
    return max(limit, float(tests.min())) if task.higher_is_better else min(limit, float(tests.max()))


def _draw_losses(axis: Any, task: Task, rows: Sequence[Row]) -> None:
    ends, late = [], []
    for row in rows:
        if row.system.name not in CURVES:
            continue
        colour = CURVES[row.system.name]
        losses = np.array(row.best.losses)
        window = max(1, len(losses) // 30)
        smooth = np.convolve(losses, np.ones(window) / window, "valid")
        steps = np.arange(window, len(losses) + 1) * row.best.run.steps / len(losses)
        axis.plot(steps, smooth, color=colour, linewidth=1.2)
        ends.append((steps[-1], smooth[-1], f"{row.system.name}, {row.best.bits:.3g} bits", colour))
        late.append(smooth[steps >= FALLEN * steps[-1]])
    axis.set(xlabel="steps", yscale="log", ylabel="training loss")
    low, high = min(map(np.min, late)) / 1.03, max(map(np.max, late)) * 1.03
    axis.set_ylim(low, high)
    axis.set_yticks([tick for tick in LOSSES if low <= tick <= high])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.set_title(f"{task.name}: mean of the last {max(1, task.steps // 30)} steps", loc="left")
    axis.margins(x=0)
    label_ends(axis, ends, x=1.06)


PICTURES = (
    (
        "training.png",
        "How good is a model, by the bits that are sent? Numbers: methods of papers; bars: seeds",
        _draw_metric,
    ),
    ("training_loss.png", "How fast does the training loss fall with each system?", _draw_losses),
)
"""(file, title, function of a panel) of each picture."""

"""Pictures of the training benchmark: metric over bits, and loss over steps, one panel per task.

A panel has one line per family of systems, named at its end. Every system is in the table of the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from adjustText import adjust_text

from benchmarks.training.plan import Plan
from benchmarks.training.rows import Row, collect_rows
from benchmarks.training.systems.system import System
from benchmarks.training.tasks.task import Task

__all__ = ["draw"]

CURVES = ("dense", "budget 0.25", "budget 0.1", "budget 0.03", "top-k 1 % as published", "PowerSGD, rank 4")
OWN = "this library"
FAMILIES = {
    "budget, every step": (r"budget [\d.]+", "#D55E00", "s"),
    "local updates, the best": (r"local updates every .*", "#009E73", "o"),
    "PowerSGD": (r"PowerSGD, rank \d+", "#0072B2", "^"),
    "top-k as published": (r"top-k [\d.]+ % as published", "#CC79A7", "v"),
    "fp16, bf16": (r"fp16|bf16", "#555555", "P"),
}
"""{name: (pattern of its systems, colour, mark)}; the colours are Okabe and Ito's."""
BEST_ONLY = "local updates, the best"
"""Family of which only systems are on the line that none beats with fewer bits."""
PAPERS = "methods of papers"
MOST_SHOWN = 7.0
"""Distance from the best metric to the worst that is shown, in distances to the median."""


def draw(folder: Path, plan: Plan, tasks: Sequence[Task], systems: Sequence[System]) -> list[Path]:
    """Draw training.png and training_loss.png; return the paths.

    Tasks without results of this library's own systems are left out: they are for one claim of a paper.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    collected = [(task, collect_rows(plan, task, systems)) for task in tasks]
    found = [(task, rows) for task, rows in collected if any(row.system.group == OWN for row in rows)]
    if not found:
        return []
    paths = []
    for name, panel in (("training.png", _draw_metric), ("training_loss.png", _draw_losses)):
        with mpl.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
            fig, axes = plt.subplots(
                len(found), 1, figsize=(9, 4.4 * len(found)), layout="constrained", squeeze=False
            )
            for axis, (task, rows) in zip(axes[:, 0], found, strict=True):
                panel(axis, task, rows)
            fig.savefig(folder / name, dpi=100)
            plt.close(fig)
        paths.append(folder / name)
    return paths


def _find_family(name: str) -> str | None:
    """Return the family of a system, or None."""
    for family, (pattern, _, _) in FAMILIES.items():
        if re.fullmatch(pattern, name):
            return family
    return None


def _draw_metric(axis: Any, task: Task, rows: Sequence[Row]) -> None:
    worst, labels = _find_worst_shown(task, rows), []
    sign = -1.0 if task.higher_is_better else 1.0
    shown = [row for row in rows if sign * row.test <= sign * worst]
    papers = [row for row in shown if row.system.group == "papers"]
    axis.plot(
        [row.best.bits for row in papers],
        [row.test for row in papers],
        *("D",),
        color="#BBBBBB",
        markersize=5,
        label=f"{PAPERS}, by name in the table",
    )
    for family, (_, color, mark) in FAMILIES.items():
        members = [row for row in shown if _find_family(row.system.name) == family]
        points = sorted((row.best.bits, row.test) for row in members)
        if family == BEST_ONLY:
            points = _keep_front(points, sign)
        if not points:
            continue
        bits, tests = zip(*points, strict=True)
        axis.plot(bits, tests, f"{mark}-", color=color, linewidth=1.6, markersize=7)
        labels.append(axis.text(bits[0], tests[0], family, color=color))
    dense = next((row for row in rows if row.system.name == "dense"), None)
    if dense is not None:
        axis.axhline(dense.test, color="black", linewidth=1, linestyle=":")
        axis.annotate(
            "dense, 32 bits",
            (0.005, dense.test),
            xycoords=("axes fraction", "data"),
            va="bottom",
        )
    axis.set(xscale="log", xlabel="bits per parameter, worker and step", ylabel=f"test {task.metric}")
    left_out = len(rows) - len(shown)
    note = f" ({left_out} of {len(rows)} systems are beyond the panel)" if left_out else ""
    better = "higher" if task.higher_is_better else "lower"
    axis.set_title(f"{task.name}: {better} is better{note}", loc="left")
    axis.legend(frameon=False, loc="best", fontsize=10)
    axis.margins(x=0.25, y=0.15)
    axis.figure.canvas.draw()
    marks = [(row.best.bits, row.test) for row in shown]
    adjust_text(
        *(labels, *map(list, zip(*marks, strict=True))),
        ax=axis,
        expand=(1.1, 1.4),
        iter_lim=150,  # and no limit of time, so that the picture does not depend on the machine
        arrowprops={"arrowstyle": "-", "color": "grey", "lw": 0.6},
    )


def _keep_front(points: Sequence[tuple[float, float]], sign: float) -> list[tuple[float, float]]:
    """Return the points that none with fewer bits beats; ``points`` have ascending bits."""
    front: list[tuple[float, float]] = []
    for bits, test in points:
        if front and bits < 1.05 * front[-1][0]:
            if sign * test < sign * front[-1][1]:
                front[-1] = bits, test
        elif not front or sign * test < sign * front[-1][1]:
            front.append((bits, test))
    return front


def _find_worst_shown(task: Task, rows: Sequence[Row]) -> float:
    """Return the worst metric on the panel: outliers would press all others together."""
    named = [row.test for row in rows if _find_family(row.system.name) is not None]
    tests = np.array(named or [row.test for row in rows])
    best, middle = (tests.max() if task.higher_is_better else tests.min()), np.median(tests)
    limit = float(best + MOST_SHOWN * (middle - best))
    return max(limit, float(tests.min())) if task.higher_is_better else min(limit, float(tests.max()))


def _draw_losses(axis: Any, task: Task, rows: Sequence[Row]) -> None:
    for row in rows:
        if row.system.name not in CURVES:
            continue
        losses = np.array(row.best.losses)
        window = max(1, len(losses) // 30)
        smooth = np.convolve(losses, np.ones(window) / window, "valid")
        axis.plot(
            np.arange(window, len(losses) + 1) * row.best.run.steps / len(losses),
            smooth,
            label=f"{row.system.name}, {row.best.bits:.3g} bits",
        )
    axis.set(
        xlabel="steps",
        yscale="log",
        ylabel=f"training loss, mean of the last {max(1, task.steps // 30)} steps",
    )
    axis.set_title(task.name, loc="left")
    axis.legend(frameon=False, fontsize=10)

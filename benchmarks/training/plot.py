"""Pictures of the training benchmark: metric over bits, and loss over steps, one panel per task."""

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
MARKS = {"in use today": "o", OWN: "s", "papers": "D", "ablation": "^"}
"""Mark of each group; its place gives the color, so that both are the same on all panels."""
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
        fig, axes = plt.subplots(
            len(found), 1, figsize=(12, 6.5 * len(found)), layout="constrained", squeeze=False
        )
        for axis, (task, rows) in zip(axes[:, 0], found, strict=True):
            panel(axis, task, rows)
        fig.savefig(folder / name, dpi=100)
        plt.close(fig)
        paths.append(folder / name)
    return paths


def _draw_metric(axis: Any, task: Task, rows: Sequence[Row]) -> None:
    worst = _find_worst_shown(task, rows)
    points, names = [], []
    for row in rows:
        complete = row.tries == row.grid
        place, name = row.test, _shorten(row.system.name)
        if (place < worst) if task.higher_is_better else (place > worst):
            place, name = worst, f"{name}: {row.test:.4g}, beyond the panel"
        _mark(axis, row.system.group, [row.best.bits], [place], fillstyle="full" if complete else "none")
        points.append((row.best.bits, place))
        names.append(axis.text(row.best.bits, place, name, fontsize=7))
        if row.system.name == "dense":
            axis.axhline(row.test, color="grey", linewidth=0.8, linestyle=":")
    for group in dict.fromkeys(row.system.group for row in rows):
        _mark(axis, group, [], [], label=group)
    axis.set(xscale="log", xlabel="bits per parameter, worker and step", ylabel=f"test {task.metric}")
    legend = "“every …”: local updates; “inner”: their inner momentum; empty marks: grid incomplete"
    axis.set_title(f"{task.name} ({legend})", fontsize=10)
    axis.legend(fontsize=8)
    axis.margins(x=0.12)
    axis.figure.canvas.draw()
    bits, places = zip(*points, strict=True)
    adjust_text(
        *(names, bits, places),
        ax=axis,
        expand=(1.1, 2.0),
        force_static=(0.1, 0.4),
        force_text=(0.3, 0.5),
        iter_lim=150,  # and no limit of time, so that the picture does not depend on the machine
        arrowprops={"arrowstyle": "-", "color": "grey", "lw": 0.5},
    )


def _shorten(name: str) -> str:
    """Return a name without what the panel shows or its title says of local updates."""
    name = re.sub(r"local updates (every \d+), [\d.]+ bits per step", r"\1", name)
    return name.replace("inner momentum", "inner")


def _mark(axis: Any, group: str, x: Sequence[float], y: Sequence[float], **options: Any) -> None:
    color = f"C{list(MARKS).index(group)}"
    axis.plot(x, y, MARKS[group], color=color, **options)


def _find_worst_shown(task: Task, rows: Sequence[Row]) -> float:
    """Return the worst metric on the panel: outliers would press all others together."""
    tests = np.array([row.test for row in rows])
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
    axis.set(xlabel="steps", ylabel=f"training loss, mean of the last {max(1, task.steps // 30)} steps")
    axis.set_title(task.name, fontsize=10)
    axis.legend(fontsize=8)

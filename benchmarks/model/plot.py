"""Picture of whole models: time of each stage as a multiple of one flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.model.stages import RATES, STAGES, VALUES, StageTime, format_scheme
from benchmarks.model.targets import find_limit

__all__ = ["draw"]


def draw(path: Path, stages: Sequence[StageTime], machine: str) -> None:
    """Draw one panel per model, with the times on one thread and the targets.

    Args:
        path: path of the PNG.
        stages: times of all stages.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    models = list(dict.fromkeys(s.model for s in stages))
    fig, axes = plt.subplots(
        1, len(models), figsize=(5.5 * len(models), 5), layout="constrained", sharey=True, squeeze=False
    )
    for axis, model in zip(axes[0], models, strict=True):
        _draw_model(axis, model, [s for s in stages if s.model == model and s.threads == 1])
    axes[0, 0].set_ylabel("time / time of one flat vector")
    axes[0, 0].legend(fontsize=8)
    fig.suptitle("Whole calls on a model's tensors, relative to one flat vector: processor time, one thread")
    fig.text(0.995, 0.975, machine, fontsize=7, color="grey", ha="right")
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _draw_model(axis: Any, model: str, stages: Sequence[StageTime]) -> None:
    schemes = [(rate, values) for rate in RATES for values in VALUES]
    width = 1 / (len(schemes) + 1)
    for i, (rate, values) in enumerate(schemes):
        found = [s for s in stages if (s.rate, s.values) == (rate, values)]
        places = [STAGES.index(s.stage) + (i - (len(schemes) - 1) / 2) * width for s in found]
        bars = axis.bar(
            places, [s.ratio for s in found], width, label=format_scheme(rate, values), color=f"C{i}"
        )
        axis.bar_label(bars, fmt="%.1f", fontsize=7)
        for place, s in zip(places, found, strict=True):
            limit = find_limit(s)
            if limit is not None:
                axis.hlines(limit, place - width / 2, place + width / 2, color="black", lw=2)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.set_xticks(range(len(STAGES)), STAGES)
    axis.set_title(f"{model} (black: target)" if any(map(find_limit, stages)) else model, fontsize=10)
    axis.grid(axis="y", color="0.9")
    axis.set_axisbelow(True)

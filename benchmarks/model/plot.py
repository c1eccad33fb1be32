"""Picture of whole models: time of each stage as a multiple of one flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.pictures import BLUE, DARK, GREEN, ORANGE, RED, open_picture
from benchmarks.model.stages import RATES, STAGES, VALUES, StageTime, format_scheme
from benchmarks.model.targets import find_limit

__all__ = ["draw"]

COLOURS = (BLUE, GREEN, ORANGE, RED)


def draw(path: Path, stages: Sequence[StageTime]) -> None:
    """Draw one panel per model, with the times on one thread and the targets.

    Args:
        path: path of the PNG.
        stages: times of all stages.
    """
    models = list(dict.fromkeys(s.model for s in stages))
    title = "How many times as long as on one flat vector do calls on a model's tensors take?"
    with open_picture(path, len(models), title=title, height=2.7) as axes:
        for axis, model in zip(axes[:, 0], models, strict=True):
            _draw_model(axis, model, [s for s in stages if s.model == model and s.threads == 1])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(handles, labels, loc="outside lower center", ncols=2)


def _draw_model(axis: Any, model: str, stages: Sequence[StageTime]) -> None:
    schemes = [(rate, values) for rate in RATES for values in VALUES]
    width = 1 / (len(schemes) + 0.6)
    for i, ((rate, values), colour) in enumerate(zip(schemes, COLOURS, strict=True)):
        found = [s for s in stages if (s.rate, s.values) == (rate, values)]
        places = [STAGES.index(s.stage) + (i - (len(schemes) - 1) / 2) * width for s in found]
        label = format_scheme(rate, values)
        axis.bar(places, [s.ratio for s in found], 0.94 * width, label=label, color=colour)
        for place, s in zip(places, found, strict=True):
            limit = find_limit(s)
            if limit is not None:
                axis.hlines(limit, place - width / 2, place + width / 2, color=DARK, lw=2)
            text = f"{s.ratio:.1f}" if s.ratio < 10 else f"{s.ratio:.0f}"
            top = max(s.ratio, limit or 0.0)
            offset = {"xytext": (0, 2), "textcoords": "offset points"}
            axis.annotate(text, (place, top), ha="center", va="bottom", **offset)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set_yscale("log")
    axis.margins(y=0.12)
    low, high = axis.get_ylim()
    axis.set_yticks([tick for tick in (1, 2, 5, 10, 20, 50, 100) if low <= tick <= high])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.set_xticks(range(len(STAGES)), STAGES)
    note = " (black: target)" if any(map(find_limit, stages)) else ""
    axis.set_title(f"{model}, one thread{note}", loc="left")
    axis.set_ylabel("processor time / flat's")
    axis.grid(axis="y", color="0.92")
    axis.set_axisbelow(True)

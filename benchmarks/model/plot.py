"""Picture of whole models: time of each stage as a multiple of one flat vector."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common.palette import BLUE, DARK, GREEN, ORANGE, RED
from benchmarks.common.pictures import open_picture
from benchmarks.model.stages import RATES, STAGES, VALUES, StageTime, format_scheme
from benchmarks.model.targets import find_limit

__all__ = ["Bar", "draw", "list_bars"]

COLOURS = (BLUE, GREEN, ORANGE, RED)


@dataclass(frozen=True)
class Bar:
    """Bar of the picture: a stage on one thread.

    Attributes:
        model, rate, values, stage: as of a StageTime.
        ratio: processor time of the model, divided by that of the vector.
        limit: target of the ratio, or None.
    """

    model: str
    rate: float
    values: str
    stage: str
    ratio: float
    limit: float | None


def list_bars(stages: Sequence[StageTime]) -> list[Bar]:
    """List the bars of the picture."""
    return [Bar(s.model, s.rate, s.values, s.stage, s.ratio, find_limit(s)) for s in stages if s.threads == 1]


def draw(path: Path, bars: Sequence[Bar]) -> None:
    """Draw one panel per model, with the times on one thread and the targets.

    Args:
        path: path of the PNG.
        bars: of all panels.
    """
    models = list(dict.fromkeys(bar.model for bar in bars))
    title = "How many times as long as on one flat vector do calls on a model's tensors take?"
    with open_picture(path, len(models), title=title, height=2.7) as axes:
        for axis, model in zip(axes[:, 0], models, strict=True):
            _draw_model(axis, model, [bar for bar in bars if bar.model == model])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(handles, labels, loc="outside lower center", ncols=2)


def _draw_model(axis: Any, model: str, bars: Sequence[Bar]) -> None:
    schemes = [(rate, values) for rate in RATES for values in VALUES]
    width = 1 / (len(schemes) + 0.6)
    for i, ((rate, values), colour) in enumerate(zip(schemes, COLOURS, strict=True)):
        found = [bar for bar in bars if (bar.rate, bar.values) == (rate, values)]
        places = [STAGES.index(bar.stage) + (i - (len(schemes) - 1) / 2) * width for bar in found]
        label = format_scheme(rate, values)
        axis.bar(places, [bar.ratio for bar in found], 0.94 * width, label=label, color=colour)
        for place, bar in zip(places, found, strict=True):
            if bar.limit is not None:
                axis.hlines(bar.limit, place - width / 2, place + width / 2, color=DARK, lw=2)
            text = f"{bar.ratio:.1f}" if bar.ratio < 10 else f"{bar.ratio:.0f}"
            top = max(bar.ratio, bar.limit or 0.0)
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
    note = " (black: target)" if any(bar.limit for bar in bars) else ""
    axis.set_title(f"{model}, one thread{note}", loc="left")
    axis.set_ylabel("processor time / flat's")
    axis.grid(axis="y", color="0.92")
    axis.set_axisbelow(True)

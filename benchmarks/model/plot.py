"""Picture of whole models: time of each stage as a multiple of one flat vector, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common.palette import GREEN, LIMIT, OURS
from benchmarks.common.pictures import open_picture
from benchmarks.model.stages import RATES, STAGES, VALUES, StageTime, format_scheme
from benchmarks.model.targets import find_limit

__all__ = ["Bar", "draw", "list_bars"]

STYLES = dict(zip(product(RATES, VALUES), product("oD", (OURS, GREEN)), strict=True))
"""{scheme: (mark by rate, colour by values)}."""
NEAR = 1.35
"""A number is above the target instead of on it if the target is at most so many times the point."""


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
    width = 1 / (len(STYLES) + 0.6)
    for i, ((rate, values), (mark, colour)) in enumerate(STYLES.items()):
        found = [bar for bar in bars if (bar.rate, bar.values) == (rate, values)]
        places = [STAGES.index(bar.stage) + (i - (len(STYLES) - 1) / 2) * width for bar in found]
        style = {"ms": 7, "mec": colour, "mfc": colour if mark == "o" else "none"}
        axis.plot(places, [bar.ratio for bar in found], mark, label=format_scheme(rate, values), **style)
        for place, bar in zip(places, found, strict=True):
            if bar.limit is not None:
                axis.hlines(bar.limit, place - width / 2, place + width / 2, color=LIMIT, lw=2)
            text = f"{bar.ratio:.1f}" if bar.ratio < 10 else f"{bar.ratio:.0f}"
            near = bar.limit is not None and bar.ratio < bar.limit < NEAR * bar.ratio
            top = bar.limit if near and bar.limit else bar.ratio
            offset = {"xytext": (0, 5), "textcoords": "offset points"}
            axis.annotate(text, (place, top), ha="center", va="bottom", **offset)
    axis.axhline(1, color="0.6", lw=0.8)
    axis.set_yscale("log")
    axis.margins(y=0.2)
    low, high = axis.get_ylim()
    ticks = (1, 1.5, 2, 3, 4) if high < 6 else (1, 2, 5, 10, 20, 50, 100)
    axis.set_yticks([tick for tick in ticks if low <= tick <= high])
    axis.yaxis.set_major_formatter("{x:g}")
    axis.minorticks_off()
    axis.set_xticks(range(len(STAGES)), STAGES)
    note = " (black: target)" if any(bar.limit for bar in bars) else ""
    axis.set_title(f"{model}, one thread{note}", loc="left")
    axis.set_ylabel("processor time / flat's")
    axis.grid(axis="y", color="0.92")
    axis.set_axisbelow(True)

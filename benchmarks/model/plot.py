"""Picture of whole models: time of each stage as a multiple of one flat vector, on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.common.palette import GREEN, LIMIT, OURS
from benchmarks.common.pictures import open_picture
from benchmarks.model.report import StageRow
from benchmarks.model.stages import RATES, STAGES, VALUES, format_scheme

__all__ = ["draw"]

SCHEMES = [format_scheme(rate, values) for rate, values in product(RATES, VALUES)]
STYLES = dict(zip(SCHEMES, product("oD", (OURS, GREEN)), strict=True))
"""{scheme: (mark by rate, colour by values)}."""
NEAR = 1.35
"""A number is above the target instead of on it if the target is at most so many times the point."""


def draw(path: Path, rows: Sequence[StageRow]) -> None:
    """Draw one panel per model, with the times on one thread and the targets.

    Args:
        path: path of the PNG.
        rows: of all whole calls; those on one thread with the schemes of ``STYLES`` are drawn.
    """
    bars = [row for row in rows if row.threads == 1 and row.scheme in STYLES]
    models = list(dict.fromkeys(bar.model for bar in bars))
    title = "How many times as long as on one flat vector do calls on a model's tensors take?"
    with open_picture(path, len(models), title=title, height=2.7) as axes:
        for axis, model in zip(axes[:, 0], models, strict=True):
            _draw_model(axis, model, [bar for bar in bars if bar.model == model])
        handles, labels = axes[0, 0].get_legend_handles_labels()
        axes[0, 0].figure.legend(handles, labels, loc="outside lower center", ncols=2)


def _draw_model(axis: Any, model: str, bars: Sequence[StageRow]) -> None:
    width = 1 / (len(STYLES) + 0.6)
    for i, (scheme, (mark, colour)) in enumerate(STYLES.items()):
        found = [bar for bar in bars if bar.scheme == scheme]
        places = [STAGES.index(bar.stage) + (i - (len(STYLES) - 1) / 2) * width for bar in found]
        style = {"ms": 7, "mec": colour, "mfc": colour if mark == "o" else "none"}
        ratios = [bar.ratio or 0.0 for bar in found]
        axis.plot(places, ratios, mark, label=scheme, **style)
        for place, bar, ratio in zip(places, found, ratios, strict=True):
            if bar.limit is not None:
                axis.hlines(bar.limit, place - width / 2, place + width / 2, color=LIMIT, lw=2)
            text = f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"
            near = bar.limit is not None and ratio < bar.limit < NEAR * ratio
            top = bar.limit if near and bar.limit else ratio
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

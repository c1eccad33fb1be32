"""Picture of feeds: seconds until each version is served, and versions behind over the time."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.palette import DARK, DENSE, GREY, OTHERS, OURS, PALE, SKY
from benchmarks.common.pictures import open_picture
from benchmarks.feed.records import Published, Served
from benchmarks.feed.rows import find_delays, measure_lag
from benchmarks.feed.targets import PEER, READ, UNREAD, WHOLE

__all__ = ["draw"]

COLOURS = {WHOLE: DENSE, PEER: OTHERS, READ: OURS, UNREAD: SKY}
SHADES = ("#E8E8E8", "#B0B0B0", "#707070", DARK)
"""Of 0, 1, 2, and of more versions behind."""


def draw(
    path: Path,
    published: Sequence[Published],
    served: Sequence[Served],
    warm_up: int,
    transfer: float,
) -> None:
    """Draw a dot per version and rollout, and a bar of the time by versions behind.

    Args:
        path: of the PNG.
        published, served: of all runs.
        warm_up: first versions, which are left out.
        transfer: seconds that whole weights take on a link.
    """
    methods = list(dict.fromkeys(one.method for one in published))
    title = "How long after a step do rollouts have its weights?"
    with open_picture(path, 1, 2, title=title, height=1.5 + 0.42 * len(methods), sharey=True) as axes:
        for place, method in enumerate(methods):
            made = [one for one in published if one.method == method]
            updates = [one for one in served if one.method == method]
            _draw_delays(
                axes[0, 0],
                place,
                list(find_delays(made, updates, warm_up).values()),
                COLOURS.get(method, GREY),
            )
            _draw_lag(axes[0, 1], place, measure_lag(made, updates, warm_up))
        _finish(axes[0], methods, transfer)


def _draw_delays(axis: Any, place: int, delays: Sequence[float], colour: str) -> None:
    middle = statistics.median(delays)
    axis.barh(place, middle, 0.62, color=colour, alpha=0.35)
    spread = [place + 0.4 * (k / max(1, len(delays) - 1) - 0.5) for k in range(len(delays))]
    axis.plot(delays, spread, ".", color=colour, markersize=5)
    axis.annotate(
        f"{middle:.2f}", (max(delays), place), xytext=(6, 0), textcoords="offset points", va="center"
    )


def _draw_lag(axis: Any, place: int, lags: Mapping[int, float]) -> None:
    left = 0.0
    for group, shade in enumerate(SHADES):
        last = group == len(SHADES) - 1
        share = sum(part for lag, part in lags.items() if lag == group or (last and lag > group))
        axis.barh(place, 100 * share, 0.62, left=left, color=shade)
        if share > 0.08:
            ink = "white" if group > 1 else DARK
            axis.text(left + 50 * share, place, f"{100 * share:.0f}", ha="center", va="center", color=ink)
        left += 100 * share


def _finish(axes: Any, methods: Sequence[str], transfer: float) -> None:
    """Label the axes, and explain the shades."""
    from matplotlib.patches import Patch

    axes[0].axvline(transfer, color=DARK, lw=1, ls="--")
    axes[0].text(transfer, -0.62, "whole weights on the link", ha="center", va="bottom", fontsize=8)
    axes[0].set_yticks(range(len(methods)), methods)
    axes[0].set_ylim(len(methods) - 0.4, -0.6)
    axes[0].set_xlim(0, 1.15 * axes[0].get_xlim()[1])
    axes[0].set_xlabel("seconds, and their median")
    axes[0].grid(axis="x", color=PALE, lw=0.5)
    axes[0].set_axisbelow(True)
    axes[1].set_xlim(0, 100)
    axes[1].set_xlabel("% of the time, by versions behind")
    names = ("0", "1", "2", "more")
    axes[1].legend(
        handles=[Patch(color=shade, label=name) for shade, name in zip(SHADES, names, strict=True)],
        ncols=4,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        handlelength=1,
        columnspacing=1,
    )

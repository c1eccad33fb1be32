"""Picture of patches: bits per changed element of each format, one panel per kind of change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.palette import LIMIT, OTHERS, OURS, SKY
from benchmarks.common.pictures import open_picture
from benchmarks.patches.measurement import Cell, Pair
from benchmarks.patches.targets import READ, UNREAD

__all__ = ["draw"]

PANELS = 4
"""Cases of the picture, at most: two of steps, and two of others."""
MOST = 50.0


def choose_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Choose one step and the longest span at the first rate, the first fp8 codes, and the table."""
    words = ("1 step at", "32 steps at", "fp8", "table")
    chosen = [next((p for p in pairs if p.case.startswith(w) or w in p.case), None) for w in words]
    found = [pair for pair in chosen if pair is not None]
    return found or list(pairs[:PANELS])


def draw(path: Path, pairs: Sequence[Pair], cells: Sequence[Cell]) -> None:
    """Draw a bar per format and panel.

    Args:
        path: of the PNG.
        pairs: properties of the cases.
        cells: all measurements.
    """
    chosen = choose_pairs(pairs)
    title = "How many bits does a changed element take? With the share that changed"
    rows = -(-len(chosen) // 2)
    columns = min(2, len(chosen))
    with open_picture(path, rows, columns, title=title, height=3.3, sharey=True, sharex=True) as axes:
        for axis, pair in zip(axes.flat, chosen, strict=False):
            _draw_panel(axis, pair, [cell for cell in cells if cell.case == pair.case])
        for axis in axes[-1]:
            axis.set_xlabel("bits per changed element")


def _draw_panel(axis: Any, pair: Pair, cells: Sequence[Cell]) -> None:
    colours = {READ: OURS, UNREAD: SKY}
    for place, cell in enumerate(cells):
        bits = 8 * cell.patch / pair.changed
        axis.barh(place, min(bits, MOST), color=colours.get(cell.format, OTHERS), height=0.7)
        axis.text(min(bits, MOST) + 0.6, place, f"{bits:.1f}", va="center", fontsize=8)
    if not math.isnan(pair.bound):
        axis.axvline(pair.bound, color=LIMIT, lw=1, ls="--")
        axis.text(pair.bound + 0.6, len(cells) - 0.2, f"bound {pair.bound:.1f}", fontsize=8, va="center")
    axis.set_yticks(range(len(cells)), [cell.format for cell in cells])
    axis.set_xlim(0, MOST + 6)
    axis.set_ylim(len(cells) + 0.2, -0.7)
    share = 100 * pair.changed / pair.elements
    axis.set_title(f"{pair.case.partition(', 1')[0]}: {share:.2g} %", loc="left")

"""Pictures of collectives: times relative to the byte limit, and bytes and times over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.collectives.kept import Row
from benchmarks.collectives.report import HOSTS, SHOWN
from benchmarks.collectives.simulation import CASE, METHODS, Point
from benchmarks.common.palette import DENSE, LIMIT, OTHERS, OURS, SKY
from benchmarks.common.pictures import label_ends, open_picture

__all__ = ["draw"]

RATE = "1 Gbit"
COLORS = dict(zip(METHODS, (OURS, SKY, DENSE), strict=True))


def draw(folder: Path, rows: Sequence[Row], points: Sequence[Point]) -> None:
    """Draw collectives.png, if there are measurements for it, and collectives_ranks.png.

    Args:
        folder: of the PNGs.
        rows: measurements between hosts.
        points: of the simulation.
    """
    chosen = [row for row in rows if (row.kind, row.rate) == ("exchange", RATE)]
    compared = [row for row in chosen if row.ranks == HOSTS and row.ratio]
    most = max((row for row in compared if row.name == "CLT-k"), key=_compute_limit, default=None)
    if most is not None:
        bars = {row.name: row for row in compared if (row.mpi, row.case) == (most.mpi, most.case)}
        _draw_ratios(folder / "collectives.png", [bars[name] for name in SHOWN if name in bars])
    crosses = [row for row in chosen if (row.mpi, row.case) == ("Open MPI", CASE.name)]
    _draw_ranks(folder / "collectives_ranks.png", points, crosses)


def _compute_limit(row: Row) -> float:
    """Return the byte limit in milliseconds."""
    return row.milliseconds / (row.ratio or 1)


def _draw_ratios(path: Path, rows: Sequence[Row]) -> None:
    title = "How many times as long as its bytes on the link does an exchange take?"
    with open_picture(path, 1, title=title, height=4.0) as axes:
        axis = axes[0, 0]
        colors = [OTHERS if row.name.startswith("native") else OURS for row in rows]
        bars = axis.barh([row.name for row in rows], [row.ratio or 0.0 for row in rows], color=colors)
        axis.bar_label(bars, fmt="{:.2f}", padding=3)
        axis.axvline(1, color=LIMIT, lw=1)
        axis.margins(x=0.1)
        axis.invert_yaxis()
        axis.set_xlabel("time / byte limit")
        case = f"{RATE}, n = {HOSTS}, {rows[0].case}"
        axis.set_title(f"{case} (red: MPI's own, blue: this library)", loc="left")


def _draw_ranks(path: Path, points: Sequence[Point], measured: Sequence[Row]) -> None:
    title = "How do bytes and times of an exchange grow with the number of ranks?"
    with open_picture(path, 2, title=title, height=3.0, sharex=True) as axes:
        for axis, times in zip(axes[:, 0], (False, True), strict=True):
            ends = []
            for method, color in COLORS.items():
                those = [p for p in points if p.method == method]
                values = [1e3 * p.seconds if times else p.nbytes / 1e6 for p in those]
                axis.plot([p.ranks for p in those], values, "o-", color=color)
                ends.append((those[-1].ranks, values[-1], method, color))
                found = [(row.ranks, row.milliseconds) for row in measured if row.name == method]
                if times and found:
                    axis.plot(*zip(*found, strict=True), "x", color=color, ms=9, mew=2)
            axis.set_xscale("log", base=2)
            axis.set_yscale("log")
            axis.xaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.grid(color="0.92")
            axis.set_axisbelow(True)
            label_ends(axis, ends)
        axes[0, 0].set_ylabel("mean MB sent per rank")
        axes[0, 0].set_title(f"{CASE.name}: bytes in the simulation", loc="left")
        axes[1, 0].set_ylabel("ms per exchange")
        lines = "lines: model of 1 Gbit/s and 50 µs per message, without computation"
        crosses = "crosses: measured, on hosts that share one machine's cores"
        axes[1, 0].set_title(f"{lines}\n{crosses}", loc="left")
        axes[1, 0].set_xlabel("ranks")

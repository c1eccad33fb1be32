"""Pictures of collectives: times relative to the byte limit, and bytes and times over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.collectives.measurement import Measurement
from benchmarks.collectives.report import compute_ratios
from benchmarks.collectives.simulation import CASE, METHODS, Point
from benchmarks.common.palette import DENSE, LIMIT, OTHERS, OURS, SKY
from benchmarks.common.pictures import label_ends, open_picture

__all__ = ["Ratio", "Time", "draw", "list_ratios", "list_times"]

COLORS = dict(zip(METHODS, (OURS, SKY, DENSE), strict=True))


@dataclass(frozen=True)
class Ratio:
    """Bar of collectives.png.

    Attributes:
        case: text of the rate, the ranks and the gradients.
        name: of the exchange.
        ratio: its time relative to the byte limit.
    """

    case: str
    name: str
    ratio: float


@dataclass(frozen=True)
class Time:
    """Cross of collectives_ranks.png: an exchange between hosts.

    Attributes:
        method, ranks: of the exchange.
        seconds: that it took.
    """

    method: str
    ranks: int
    seconds: float


def list_ratios(measurements: Sequence[Measurement]) -> list[Ratio]:
    """List the bars of collectives.png."""
    ratios, case = compute_ratios(measurements)
    return [Ratio(case, name, ratio) for name, ratio in ratios.items()]


def list_times(measurements: Sequence[Measurement]) -> list[Time]:
    """List the crosses of collectives_ranks.png."""
    seen = [m for m in measurements if (m.kind, m.rate, m.mpi) == ("exchange", "1 Gbit", "Open MPI")]
    return [Time(m.name, m.ranks, m.seconds) for m in seen if m.case == CASE and m.name in METHODS]


def draw(folder: Path, ratios: Sequence[Ratio], points: Sequence[Point], times: Sequence[Time]) -> None:
    """Draw collectives.png, if there are bars, and collectives_ranks.png.

    Args:
        folder: of the PNGs.
        ratios: bars of the first picture.
        points: of the simulation.
        times: crosses of the second one.
    """
    if ratios:
        _draw_ratios(folder / "collectives.png", ratios)
    _draw_ranks(folder / "collectives_ranks.png", points, times)


def _draw_ratios(path: Path, ratios: Sequence[Ratio]) -> None:
    title = "How many times as long as its bytes on the link does an exchange take?"
    with open_picture(path, 1, title=title, height=4.0) as axes:
        axis = axes[0, 0]
        colors = [OTHERS if one.name.startswith("native") else OURS for one in ratios]
        bars = axis.barh([one.name for one in ratios], [one.ratio for one in ratios], color=colors)
        axis.bar_label(bars, fmt="{:.2f}", padding=3)
        axis.axvline(1, color=LIMIT, lw=1)
        axis.margins(x=0.1)
        axis.invert_yaxis()
        axis.set_xlabel("time / byte limit")
        axis.set_title(f"{ratios[0].case} (red: MPI's own, blue: this library)", loc="left")


def _draw_ranks(path: Path, points: Sequence[Point], measured: Sequence[Time]) -> None:
    title = "How do bytes and times of an exchange grow with the number of ranks?"
    with open_picture(path, 2, title=title, height=3.0, sharex=True) as axes:
        for axis, times in zip(axes[:, 0], (False, True), strict=True):
            ends = []
            for method, color in COLORS.items():
                those = [p for p in points if p.method == method]
                values = [1e3 * p.seconds if times else p.nbytes / 1e6 for p in those]
                axis.plot([p.ranks for p in those], values, "o-", color=color)
                ends.append((those[-1].ranks, values[-1], method, color))
                found = [(t.ranks, 1e3 * t.seconds) for t in measured if t.method == method]
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

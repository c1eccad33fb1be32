"""Pictures of collectives: times relative to the byte limit, and bytes and times over the number of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.collectives.measurement import Measurement
from benchmarks.collectives.report import compute_ratios
from benchmarks.collectives.simulation import CASE, METHODS, Point
from benchmarks.common.pictures import BLUE, DARK, GREY, RED, label_ends, open_picture

__all__ = ["draw", "draw_ranks", "draw_ratios"]

COLORS = dict(zip(METHODS, (BLUE, RED, GREY), strict=True))


def draw(folder: Path, measurements: Sequence[Measurement], points: Sequence[Point]) -> None:
    """Draw collectives.png and collectives_ranks.png.

    Args:
        folder: of the PNGs.
        measurements: between hosts.
        points: of the simulation.
    """
    draw_ratios(folder / "collectives.png", *compute_ratios(measurements))
    seen = [m for m in measurements if (m.kind, m.rate, m.mpi) == ("exchange", "1 Gbit", "Open MPI")]
    times = [(m.name, m.ranks, m.seconds) for m in seen if m.case == CASE]
    draw_ranks(folder / "collectives_ranks.png", points, times)


def draw_ratios(path: Path, ratios: dict[str, float], case_name: str) -> None:
    """Draw times relative to the byte limit.

    Args:
        path: of the PNG.
        ratios: by name of the exchange.
        case_name: text of their case.
    """
    title = "How many times as long as its bytes on the link does an exchange take?"
    with open_picture(path, 1, title=title, height=4.0) as axes:
        axis = axes[0, 0]
        colors = [RED if name.startswith("native") else BLUE for name in ratios]
        bars = axis.barh(list(ratios), list(ratios.values()), color=colors)
        axis.bar_label(bars, fmt="{:.2f}", padding=3)
        axis.axvline(1, color=DARK, lw=1)
        axis.margins(x=0.1)
        axis.invert_yaxis()
        axis.set_xlabel("time / byte limit")
        axis.set_title(f"{case_name} (red: MPI's own, blue: this library)", loc="left")


def draw_ranks(path: Path, points: Sequence[Point], measured: Sequence[tuple[str, int, float]]) -> None:
    """Draw bytes and times over the number of ranks.

    Args:
        path: of the PNG.
        points: of the simulation.
        measured: (method, ranks, seconds).
    """
    title = "How do bytes and times of an exchange grow with the number of ranks?"
    with open_picture(path, 2, title=title, height=3.0, sharex=True) as axes:
        for axis, times in zip(axes[:, 0], (False, True), strict=True):
            ends = []
            for method, color in COLORS.items():
                those = [p for p in points if p.method == method]
                values = [1e3 * p.seconds if times else p.nbytes / 1e6 for p in those]
                axis.plot([p.ranks for p in those], values, "o-", color=color)
                ends.append((those[-1].ranks, values[-1], method, color))
                found = [(ranks, 1e3 * seconds) for name, ranks, seconds in measured if name == method]
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
        axes[1, 0].set_title("1 Gbit/s, 50 µs per message: lines of the model, crosses measured", loc="left")
        axes[1, 0].set_xlabel("ranks")

"""The picture: bytes a rank against the number of ranks, and times against the byte limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.collectives.measurement import Figure
from benchmarks.collectives.simulation import CASE, METHODS, Point

__all__ = ["draw"]

COLORS = dict(zip(METHODS, ("#1f4e9c", "#c2571a", "#777777"), strict=True))
SHOWN = (
    "native dense",
    "dense",
    "native allgather, pairs",
    "allgather, pairs",
    "allgather",
    "native CLT-k, raw",
    "CLT-k, raw",
    "CLT-k",
    "split-pairs",
    "split-bitmap",
    "split-dense",
)


def draw(path: Path, figures: Sequence[Figure], points: Sequence[Point], machine: str) -> None:
    """Two panels of what was simulated, and measured up to 8 ranks; a third of times over the byte limit.

    Args:
        path: of the PNG.
        figures: measured.
        points: simulated.
        machine: its name.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(17, 5.5), layout="constrained")
    titles = ("bytes a rank sends", "milliseconds by the model: 50 µs a message, 1 Gbit/s")
    for number, (axis, title) in enumerate(zip(axes[:2], titles, strict=True)):
        for method, color in COLORS.items():
            those = [p for p in points if p.method == method]
            values = [1e3 * p.seconds if number else p.nbytes for p in those]
            axis.plot([p.ranks for p in those], values, "o-", color=color, label=f"{method}, simulated")
            seen = [f for f in figures if (f.name, f.kind, f.rate) == (method, "exchange", "1 Gbit")]
            seen = [f for f in seen if f.case == CASE and f.mpi == "Open MPI"]
            if seen:
                values = [1e3 * f.seconds if number else f.links for f in seen]
                axis.plot(
                    [f.ranks for f in seen], values, "x", color=color, ms=11, label=f"{method}, measured"
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel(f"ranks; {CASE.words}")
        axis.set_title(title)
        axis.grid(color="0.9")
        axis.legend(frameon=False)
    ratios, where = _ratios(figures)
    colors = ["#c2571a" if name.startswith("native") else "#1f4e9c" for name in ratios]
    bars = axes[2].barh(list(ratios), list(ratios.values()), color=colors)
    axes[2].bar_label(bars, fmt="{:.2f}×", padding=3)
    axes[2].axvline(1, color="black", lw=1)
    axes[2].margins(x=0.15)
    axes[2].invert_yaxis()
    axes[2].set_title(f"time over the byte limit: {where}")
    fig.text(0.995, 0.002, machine, fontsize=7, color="grey", ha="right")
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _ratios(figures: Sequence[Figure]) -> tuple[dict[str, float], str]:
    """Each method's ratio at 1 Gbit/s on 4 ranks, where CLT-k has most to send; and where that is."""
    there = [f for f in figures if f.kind == "exchange" and f.ranks == 4 and f.rate == "1 Gbit"]
    most = max((f for f in there if f.name == "CLT-k"), key=lambda f: f.nbytes, default=None)
    if most is None:
        return {}, "not measured"
    found = {f.name: f.ratio for f in there if f.key == most.key and f.nbytes}
    return {name: found[name] for name in SHOWN if name in found}, most.place

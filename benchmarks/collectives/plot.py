"""Picture of collectives: bytes and times over the number of ranks, and times relative to the byte limit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

from benchmarks.collectives.measurement import Measurement
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


def draw(path: Path, measurements: Sequence[Measurement], points: Sequence[Point], machine: str) -> None:
    """Draw two panels with the simulation and measurements up to 8 ranks, and one with byte limits.

    Args:
        path: path of the PNG.
        measurements: between hosts.
        points: of the simulation.
        machine: name of the machine.
    """
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(1, 3, figsize=(17, 5.5), layout="constrained")
    titles = ("mean bytes sent per rank", "milliseconds in the model: 50 µs per message, 1 Gbit/s")
    for number, (axis, title) in enumerate(zip(axes[:2], titles, strict=True)):
        for method, color in COLORS.items():
            those = [p for p in points if p.method == method]
            values = [1e3 * p.seconds if number else p.nbytes for p in those]
            axis.plot([p.ranks for p in those], values, "o-", color=color, label=f"{method}, simulated")
            seen = [m for m in measurements if (m.name, m.kind, m.rate) == (method, "exchange", "1 Gbit")]
            seen = [m for m in seen if m.case == CASE and m.mpi == "Open MPI"]
            if seen:
                values = [1e3 * m.seconds if number else m.links for m in seen]
                axis.plot(
                    [m.ranks for m in seen], values, "x", color=color, ms=11, label=f"{method}, measured"
                )
        axis.set_xscale("log", base=2)
        axis.set_yscale("log")
        axis.xaxis.set_major_formatter("{x:g}")
        axis.set_xlabel(f"ranks; {CASE.name}")
        axis.set_title(title)
        axis.grid(color="0.9")
        axis.legend(frameon=False)
    ratios, case_name = _compute_ratios(measurements)
    colors = ["#c2571a" if name.startswith("native") else "#1f4e9c" for name in ratios]
    bars = axes[2].barh(list(ratios), list(ratios.values()), color=colors)
    axes[2].bar_label(bars, fmt="{:.2f}×", padding=3)
    axes[2].axvline(1, color="black", lw=1)
    axes[2].margins(x=0.15)
    axes[2].invert_yaxis()
    axes[2].set_title(f"time relative to the byte limit: {case_name}")
    fig.text(0.995, 0.002, machine, fontsize=7, color="grey", ha="right")
    fig.savefig(path, dpi=100)
    plt.close(fig)


def _compute_ratios(measurements: Sequence[Measurement]) -> tuple[dict[str, float], str]:
    """Return the ratio of each method at 1 Gbit/s on 4 ranks, for the case with the most bytes of CLT-k."""
    chosen = [m for m in measurements if m.kind == "exchange" and m.ranks == 4 and m.rate == "1 Gbit"]
    most = max((m for m in chosen if m.name == "CLT-k"), key=lambda m: m.nbytes, default=None)
    if most is None:
        return {}, "not measured"
    found = {m.name: m.ratio for m in chosen if m.key == most.key and m.nbytes}
    return {name: found[name] for name in SHOWN if name in found}, most.case_name

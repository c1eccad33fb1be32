"""DeepReduce's pictures: policies over the false-positive rate, and a curve fit."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.common.palette import BLUE, DARK, GREY, ORANGE, OTHERS, OURS, PALE, PINK
from benchmarks.common.pictures import label_lines, open_picture
from benchmarks.papers import deepreduce

__all__ = ["draw"]

POLICIES = {"P0": ORANGE, "P1": PINK, "P2": OURS, deepreduce.PRINTED: OTHERS}
SAME_BYTES = f"P1, P2 and {deepreduce.PRINTED}: equal"
"""These three return as many elements as were inserted."""


def draw(folder: Path, found: deepreduce.Result) -> list[Path]:
    """Draw the two pictures into a folder; return their paths."""
    paths = [folder / f"papers_deepreduce{name}.png" for name in ("", "_fit")]
    _draw_policies(paths[0], found)
    _draw_fit(paths[1], found)
    return paths


def _draw_policies(path: Path, found: deepreduce.Result) -> None:
    title = "What does a larger false-positive rate cost: elements or bytes?"
    by_policy = {policy: [point for point in found.points if point.policy == policy] for policy in POLICIES}
    with open_picture(path, 2, title=title, height=3.2, sharex=True) as axes:
        kept, volume = axes[:, 0]
        arriving, bytes_sent = [], []
        for (policy, colour), points in zip(POLICIES.items(), by_policy.values(), strict=True):
            shares = [(point.rate, 100 * point.kept) for point in points]
            kept.plot(*zip(*shares, strict=True), "o-", color=colour, ms=5)
            arriving.append((shares, policy, colour))
            if policy in ("P0", "P2"):
                volumes = [(point.rate, point.volume) for point in points]
                volume.plot(*zip(*volumes, strict=True), "o-", color=colour, ms=5)
                bytes_sent.append((volumes, "P0" if policy == "P0" else SAME_BYTES, colour))
        refused = [(point.rate, 100 * point.kept) for point in found.points if point.refused]
        kept.plot(*zip(*refused, strict=True) if refused else ([], []), "x", color=DARK, ms=8, zorder=3)
        kept.set(ylim=(-5, 110), ylabel="selected elements that arrive, %")
        kept.set_title("elements (crosses: refused by readers)", loc="left")
        volume.axhline(1, color=GREY, lw=0.8)
        volume.set(xscale="log", yscale="log", ylabel="bytes / 8 per selected element")
        volume.set_xlabel("false-positive rate")
        volume.set_title("bytes", loc="left")
        volume.yaxis.set_major_formatter("{x:g}")
        volume.xaxis.set_major_formatter("{x:g}")
        label_lines(kept, arriving)
        label_lines(volume, bytes_sent)


def _draw_fit(path: Path, found: deepreduce.Result) -> None:
    title = "How close are 8 fitted pieces to the sorted values of a convolution's gradient?"
    with open_picture(path, 1, title=title, height=3.2) as axes:
        axis = axes[0, 0]
        axis.plot(found.sorted_values, color=PALE, lw=5)
        axis.plot(found.fitted, color=BLUE, lw=1.2)
        axis.set(xlabel="rank of the value", ylabel="value")
        axis.margins(x=0.02)
        places = np.linspace(0, len(found.fitted) - 1, 40).astype(int)
        error = f"fit, relative error {100 * found.convolution.error:.2f} %"
        for name, colour, values in (("values", GREY, found.sorted_values), (error, BLUE, found.fitted)):
            points = [(float(place), float(values[place])) for place in places]
            label_lines(axis, [(points, name, colour)], [(t.get_position()) for t in axis.texts])

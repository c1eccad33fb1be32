"""The picture of ``wirecodec advise --png``: each scheme's speed-up over bandwidth. Needs Matplotlib."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.advise import Advice, Verdict
from wirecodec.cli.cost_model import Network, fastest
from wirecodec.cli.output import open_output
from wirecodec.cli.picture import blank
from wirecodec.cli.units import bandwidth_text

__all__ = ["draw"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":")
_NEAR, _FAR = 30, 3000  # times the given bandwidth
_POINTS = 300


def draw(advice: Advice, name: str, path: Path) -> None:
    """Write a PNG; EncodeError where Matplotlib is not installed."""
    network = advice.network
    bandwidths = _bandwidths(advice)
    figure = blank(12, 6)
    axes = figure.subplots()
    axes.axhline(1, color="#333333", linewidth=1)
    axes.axvline(8 * network.bandwidth, color="#BBBBBB", linewidth=1)
    for number, verdict in enumerate(advice.verdicts):
        _line(axes, verdict, advice, bandwidths, number)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(8 * bandwidths[0], 8 * bandwidths[-1])
    axes.xaxis.set_major_formatter(lambda bits, _: bandwidth_text(bits / 8) if bits > 0 else "")
    axes.xaxis.set_minor_formatter(lambda bits, _: "")
    axes.yaxis.set_major_formatter(lambda speed_up, _: f"{speed_up:g}")
    axes.set_xlabel("bandwidth of a rank")
    axes.set_ylabel("times as fast as the dense all-reduce")
    axes.set_title(
        f"{name}: {advice.verdicts[0].measured.elements:,} elements, {network.ranks} ranks; "
        f"at {bandwidth_text(network.bandwidth)}:",
        loc="left",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    with open_output(path) as file:
        figure.savefig(file, format="png")


def _bandwidths(advice: Advice) -> Array:
    """Around the given one, and around those at which schemes break even, unless they are very far."""
    given = advice.network.bandwidth
    shown = [bound for bound in _bounds(advice.verdicts) if given / _FAR < bound < given * _FAR]
    found: Array = np.geomspace(min([given, *shown]) / _NEAR, max([given, *shown]) * _NEAR, _POINTS)
    return found


def _bounds(verdicts: Iterable[Verdict]) -> list[float]:
    """Where schemes break even."""
    ends = [end for verdict in verdicts for span in verdict.spans for end in span]
    return [end for end in ends if 0 < end < math.inf]


def _line(axes: Any, verdict: Verdict, advice: Advice, bandwidths: Array, number: int) -> None:
    """A scheme's curve, with dots where it breaks even."""
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    network = advice.network
    speed_ups = []
    for bandwidth in bandwidths:
        there = Network(network.ranks, float(bandwidth), network.latency)
        speed_ups.append(advice.dense.seconds(there) / fastest(verdict.ways, there).seconds(there))
    label = f"{verdict.speed_up:.2f}×  {verdict.measured.scheme}"
    axes.plot(8 * bandwidths, speed_ups, color=colour, linestyle=dash, linewidth=1.6, label=label)
    for bound in _bounds([verdict]):
        if bandwidths[0] < bound < bandwidths[-1]:
            axes.plot([8 * bound], [1], color=colour, marker="o", markersize=6)

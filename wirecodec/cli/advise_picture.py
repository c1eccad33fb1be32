"""Picture of ``wirecodec advise --png``: each scheme's speed-up over bandwidth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from wirecodec.arrays import Array
from wirecodec.cli.advise_prediction import Advice, Prediction
from wirecodec.cli.cost_model import find_fastest
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.cli.units import format_bandwidth

__all__ = ["draw_advice"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":")
_MARGIN = 30  # the axis extends to this many times the outermost bandwidth of interest
_MAX_DISTANCE = 3000  # a break-even point more than this factor away is not of interest
_POINTS = 300


def draw_advice(advice: Advice, name: str, path: Path) -> None:
    """Draw the speed-up of all schemes over bandwidth as a PNG file.

    Args:
        advice: the comparison.
        name: of the gradient.
        path: the file to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    network = advice.network
    bandwidths = _choose_bandwidths(advice)
    figure = new_figure(12, 6)
    axes = figure.subplots()
    axes.axhline(1, color="#333333", linewidth=1)
    axes.axvline(8 * network.bandwidth, color="#BBBBBB", linewidth=1)
    for number, prediction in enumerate(advice.predictions):
        _draw_scheme(axes, prediction, advice, bandwidths, number)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(8 * bandwidths[0], 8 * bandwidths[-1])
    axes.xaxis.set_major_formatter(lambda bits, _: format_bandwidth(bits / 8) if bits > 0 else "")
    axes.xaxis.set_minor_formatter(lambda bits, _: "")
    axes.yaxis.set_major_formatter(lambda speed_up, _: f"{speed_up:g}")
    axes.set_xlabel("bandwidth of a rank")
    axes.set_ylabel("speed-up over the dense all-reduce")
    axes.set_title(
        f"{name}: {advice.predictions[0].measurement.elements:,} elements, {network.ranks} ranks; "
        f"at {format_bandwidth(network.bandwidth)}:",
        loc="left",
        fontsize=11,
    )
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    save_png(figure, path)


def _choose_bandwidths(advice: Advice) -> Array:
    """Choose bandwidths around the given one and around the break-even points, unless these are far away."""
    given = advice.network.bandwidth
    low, high = given / _MAX_DISTANCE, given * _MAX_DISTANCE
    marks = [given, *(bandwidth for bandwidth in _break_even(advice.predictions) if low < bandwidth < high)]
    bandwidths: Array = np.geomspace(min(marks) / _MARGIN, max(marks) * _MARGIN, _POINTS)
    return bandwidths


def _break_even(predictions: Iterable[Prediction]) -> list[float]:
    """List the bandwidths at which schemes break even."""
    ends = [end for prediction in predictions for interval in prediction.intervals for end in interval]
    return [end for end in ends if 0 < end < math.inf]


def _draw_scheme(axes: Any, prediction: Prediction, advice: Advice, bandwidths: Array, number: int) -> None:
    """Draw the curve of one scheme, with a dot at each break-even point."""
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    speed_ups = []
    for bandwidth in bandwidths:
        network = dataclasses.replace(advice.network, bandwidth=float(bandwidth))
        fastest = find_fastest(prediction.costs, network)
        speed_ups.append(advice.dense.seconds(network) / fastest.seconds(network))
    label = f"{prediction.speed_up:.2f}×  {prediction.measurement.scheme}"
    axes.plot(8 * bandwidths, speed_ups, color=colour, linestyle=dash, linewidth=1.6, label=label)
    for bandwidth in _break_even([prediction]):
        if bandwidths[0] < bandwidth < bandwidths[-1]:
            axes.plot([8 * bandwidth], [1], color=colour, marker="o", markersize=6)

"""Picture of ``wirecodec advise --png``: each scheme's speed-up over bandwidth."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from collectives.advise.cost_model import find_fastest
from collectives.advise.prediction import Advice, Prediction
from collectives.local_updates.outer import Array
from wirecodec.cli.files import FileArgument
from wirecodec.cli.picture import new_figure, save_png
from wirecodec.cli.units import format_bandwidth, format_seconds

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":")
_MARGIN = 30  # the axis extends to this many times the outermost bandwidth of interest
_MAX_DISTANCE = 3000  # a break-even point more than this factor away is not of interest
_POINTS = 300
_COINCIDE = 0.05
"""Relative difference below which two curves coincide on the picture."""


@dataclass
class _Curve:
    """Curve of one scheme, and of the schemes whose curves coincide with it."""

    speed_ups: Array
    predictions: list[Prediction]


def draw_advice(advice: Advice, name: str, file: FileArgument) -> None:
    """Draw the speed-up of all schemes over bandwidth as a PNG file.

    Args:
        advice: the comparison.
        name: of the gradient.
        file: to write.

    Raises:
        ValueError: Matplotlib is not installed.
    """
    network = advice.network
    bandwidths = _choose_bandwidths(advice)
    figure = new_figure(12, 6)
    axes = figure.subplots()
    axes.axhline(1, color="#333333", linewidth=1)
    axes.axvline(8 * network.bandwidth, color="#BBBBBB", linewidth=1)
    for number, curve in enumerate(merge_curves(advice, bandwidths)):
        _draw_curve(axes, curve, advice, bandwidths, number)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(8 * bandwidths[0], 8 * bandwidths[-1])
    axes.xaxis.set_major_formatter(lambda bits, _: format_bandwidth(bits / 8) if bits > 0 else "")
    axes.xaxis.set_minor_formatter(lambda bits, _: "")
    axes.yaxis.set_major_formatter(lambda speed_up, _: f"{speed_up:g}")
    axes.set_xlabel("bandwidth of a rank")
    what = "a step with the dense all-reduce" if advice.step.compute else "the dense all-reduce"
    axes.set_ylabel(f"speed-up over {what}")
    axes.set_title(make_title(advice, name), loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    title = f"speed-up at {format_bandwidth(network.bandwidth)}, error, scheme"
    legend = figure.legend(loc="outside right center", frameon=False, fontsize=8, title=title)
    legend.set_alignment("left")
    save_png(figure, file)


def make_title(advice: Advice, name: str) -> str:
    """Make the title: the gradient and the network."""
    network = advice.network
    return (
        f"{name}: {advice.predictions[0].measurement.elements:,} elements; {network.ranks} ranks, "
        f"{format_seconds(network.latency)} per message"
    )


def merge_curves(advice: Advice, bandwidths: Array) -> list[_Curve]:
    """Compute the speed-ups of each scheme, and merge the curves that coincide on the picture."""
    curves: list[_Curve] = []
    for prediction in advice.predictions:
        speed_ups = np.array([_speed_up(prediction, advice, bandwidth) for bandwidth in bandwidths])
        for curve in curves:
            if np.allclose(speed_ups, curve.speed_ups, rtol=_COINCIDE, atol=0):
                curve.predictions.append(prediction)
                break
        else:
            curves.append(_Curve(speed_ups, [prediction]))
    return curves


def _speed_up(prediction: Prediction, advice: Advice, bandwidth: float) -> float:
    network, step = dataclasses.replace(advice.network, bandwidth=float(bandwidth)), advice.step
    exchange = find_fastest(prediction.costs, network).seconds(network)
    local = prediction.changes_training
    return step.seconds(advice.dense.seconds(network)) / step.seconds(exchange, local=local)


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


def _draw_curve(axes: Any, curve: _Curve, advice: Advice, bandwidths: Array, number: int) -> None:
    """Draw one curve, with a dot at each break-even point."""
    colour = _COLOURS[number % len(_COLOURS)]
    dash = _DASHES[number // len(_COLOURS) % len(_DASHES)]
    labels = []
    for prediction in curve.predictions:
        pick = "  (pick)" if prediction is advice.pick else ""
        measurement = prediction.measurement
        labels.append(f"{prediction.speed_up:.2f}×  {measurement.error:.3g}  {measurement.scheme}{pick}")
    width = 2.8 if advice.pick in curve.predictions else 1.4
    label = "\n".join(labels)
    axes.plot(8 * bandwidths, curve.speed_ups, color=colour, linestyle=dash, linewidth=width, label=label)
    for bandwidth in _break_even(curve.predictions[:1]):
        if bandwidths[0] < bandwidth < bandwidths[-1]:
            axes.plot([8 * bandwidth], [1], color=colour, marker="o", markersize=6)

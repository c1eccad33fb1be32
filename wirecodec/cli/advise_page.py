"""Page of ``wirecodec advise``."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from wirecodec.cli.advise_prediction import Advice, Prediction
from wirecodec.cli.cost_model import Network
from wirecodec.cli.formatting import format_table
from wirecodec.cli.units import format_bandwidth, format_seconds

__all__ = ["format_advice"]

_ALGORITHMS = {
    "allgather": "all-gather of the encodings; every rank decodes and sums them",
    "narrow": "all-reduce of the values in their shorter type",
    "decoded": "encode and decode, then a dense all-reduce",
}


def format_advice(advice: Advice, name: str, *, error: bool = False, other_ranks: Sequence[int] = ()) -> str:
    """Format a comparison as plain text.

    Args:
        advice: the comparison.
        name: of the gradient.
        error: whether to show each scheme's error.
        other_ranks: numbers of ranks for which to show the fastest scheme.

    Returns:
        Lines without a newline at the end.
    """
    network, dense, predictions = advice.network, advice.dense, advice.predictions
    columns = ["scheme", "ratio", "exchange", "speed-up", "algorithm", "pays", *(["error"] if error else [])]
    parts = ["scheme", "bytes", "select", "encode", "decode", "rest", "sending", "least ratio"]
    lines = [
        f"{name}: {predictions[0].measurement.elements:,} elements; {network.ranks} ranks at "
        f"{format_bandwidth(network.bandwidth)}, {format_seconds(network.latency)} per message",
        *format_table(columns, [_outcome(prediction, error=error) for prediction in predictions]),
        "",
        *format_table(parts, [_parts(prediction, network) for prediction in predictions]),
        "",
        f"dense all-reduce of {advice.gradient.nbytes:,} bytes: {format_seconds(dense.seconds(network))}, "
        f"{format_seconds(dense.nbytes / network.bandwidth)} of it sending",
        *_conclusion(advice),
        *_ranks_table(advice, other_ranks),
        *(f"excluded: {scheme}: {reason}" for scheme, reason in advice.excluded),
        *_legend({prediction.cost.algorithm for prediction in predictions}),
        f"Assumes that every rank is a machine like this one, with {_threads()} and no other load, and",
        "that it sends and receives at once. 'decode' covers all encodings that a rank decodes, 'rest' the",
        "vector of sums and the latencies. The comparison is about time; it does not consider accuracy.",
    ]
    return "\n".join(lines)


def _outcome(prediction: Prediction, *, error: bool) -> list[str]:
    """Format the row of a scheme: the exchange as a whole."""
    measurement = prediction.measurement
    return [
        measurement.scheme,
        f"{measurement.ratio:.1f}",
        format_seconds(prediction.seconds),
        f"{prediction.speed_up:.2f}",
        prediction.cost.algorithm,
        " and ".join(map(_format_interval, prediction.intervals)) or "nowhere",
        *([f"{measurement.error:.3g}"] if error else []),
    ]


def _parts(prediction: Prediction, network: Network) -> list[str]:
    """Format the row of a scheme: the parts of the exchange."""
    stages, cost = prediction.measurement.stages, prediction.cost
    decode = stages.decode * (network.ranks if cost.algorithm == "allgather" else 1)
    rest = cost.fixed_seconds(network.latency) - stages.select - stages.encode - decode
    return [
        prediction.measurement.scheme,
        f"{stages.nbytes:,}",
        format_seconds(stages.select),
        format_seconds(stages.encode),
        format_seconds(decode),
        format_seconds(max(rest, 0.0)),
        format_seconds(cost.nbytes / network.bandwidth),
        "none" if prediction.min_ratio == math.inf else f"{prediction.min_ratio:.2f}",
    ]


def _format_interval(interval: tuple[float, float]) -> str:
    low, high = interval
    ends = [f"above {format_bandwidth(low)}"] if low else []
    ends += [f"below {format_bandwidth(high)}"] if high < math.inf else []
    return ", ".join(ends) or "everywhere"


def _conclusion(advice: Advice) -> list[str]:
    """Say how many schemes pay, which is the fastest, and up to which bandwidth any pays."""
    best, tried = advice.predictions[0], len(advice.predictions)
    n = sum(prediction.pays for prediction in advice.predictions)
    if n:
        first = (
            f"{n} of {tried} schemes {'pays' if n == 1 else 'pay'}; fastest: {best.measurement.scheme}, "
            f"{best.speed_up:.2f} times as fast as the dense all-reduce."
        )
    else:
        first = f"{'The scheme does not pay' if tried == 1 else f'None of {tried} schemes pays'}. "
        first += _explain_nearest(advice)
    if advice.max_bandwidth == math.inf:
        return [first, "One pays at any bandwidth: it computes less than the dense all-reduce."]
    if advice.max_bandwidth:
        return [first, f"From {format_bandwidth(advice.max_bandwidth)} on none pays."]
    return [first, "None pays at any bandwidth."]


def _explain_nearest(advice: Advice) -> str:
    """Say which ratio the scheme needs that is nearest to paying."""
    near = min(advice.predictions, key=lambda p: (p.min_ratio / p.measurement.ratio, p.seconds))
    if near.min_ratio == math.inf:
        return "None would at any ratio: computing alone takes longer than the dense all-reduce."
    return (
        f"The nearest is {near.measurement.scheme}: with its times a ratio above {near.min_ratio:.1f} would "
        f"pay, and its ratio is {near.measurement.ratio:.1f}."
    )


def _ranks_table(advice: Advice, other_ranks: Sequence[int]) -> list[str]:
    """Format the fastest scheme per number of ranks."""
    if not other_ranks:
        return []
    rows = []
    for ranks in other_ranks:
        predictions = advice.with_ranks(ranks).predictions
        n = sum(prediction.pays for prediction in predictions)
        rows.append([str(ranks), str(n), f"{predictions[0].speed_up:.2f}", predictions[0].measurement.scheme])
    return ["", *format_table(["ranks", "schemes that pay", "speed-up", "fastest"], rows, {3}), ""]


def _legend(algorithms: Collection[str]) -> list[str]:
    """Explain the algorithms of the table, one line each."""
    return [f"{name}: {meaning}" for name, meaning in _ALGORITHMS.items() if name in algorithms]


def _threads() -> str:
    import numba

    n: Any = numba.get_num_threads()
    return f"{n} thread" + ("s" if n > 1 else "")

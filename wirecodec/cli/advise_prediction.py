"""Comparison of schemes over a network: which of them make an exchange faster than a dense all-reduce.

Each scheme is measured on the gradient (``measurement``), and the seconds of an exchange are computed
(``cost_model``). The comparison is about time alone. It does not consider accuracy, error feedback, or
exchanges that overlap with the computation of the next gradient.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wirecodec.arrays import Array
from wirecodec.cli.cost_model import (
    Cost,
    Gradient,
    Network,
    compute_costs,
    compute_dense_cost,
    compute_min_ratio,
    find_fastest,
    find_paying_bandwidths,
)
from wirecodec.cli.measurement import Measurement, TimedScheme, allocate_sums, measure
from wirecodec.cli.options import parse_scheme
from wirecodec.cli.progress import ProgressCallback, ignore_progress
from wirecodec.errors import EncodeError
from wirecodec.scheme import Scheme

__all__ = ["DEFAULT_SCHEMES", "Advice", "Prediction", "advise", "compare", "predict"]

DEFAULT_SCHEMES = (
    "all | raw-index | raw(bfloat16)",
    "all | raw-index | offset-float",
    "all | raw-index | 3lc",
    *(
        f"topk({ratio}) | auto-index | {value}"
        for ratio in (0.1, 0.01, 0.001)
        for value in ("raw", "raw(bfloat16)", "qsgd")
    ),
    "topk(0.01) | auto-index | error-bounded",
    "sidco(0.01) | auto-index | qsgd",
    "sidco(0.001) | auto-index | qsgd",
    "rfft | topk(0.15) | auto-index | offset-float(bits=10)",
    *("sketchml", "skcompress", "deepreduce-qsgd-bf-p0"),
)
"""Schemes and presets that are compared if none is given."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for one scheme over one network.

    Attributes:
        measurement: of the scheme on the gradient.
        costs: of all algorithms that can sum its encodings.
        cost: the fastest of them over this network.
        seconds: of an exchange.
        speed_up: over the dense all-reduce.
        min_ratio: the ratio above which a scheme with these times pays here; inf if it never does.
        intervals: bandwidths at which the scheme pays, as ``find_paying_bandwidths`` returns them.
    """

    measurement: Measurement
    costs: tuple[Cost, ...]
    cost: Cost
    seconds: float
    speed_up: float
    min_ratio: float
    intervals: tuple[tuple[float, float], ...]

    @property
    def pays(self) -> bool:
        """Return whether the exchange takes less time than the dense all-reduce."""
        return self.speed_up > 1


@dataclass(frozen=True)
class Advice:
    """Comparison of schemes for one gradient and one network.

    Attributes:
        gradient: its size and the seconds of summing it.
        network: that the predictions are for.
        predictions: one per scheme, the fastest first.
        excluded: (scheme, reason) of the default schemes that cannot encode the gradient.
    """

    gradient: Gradient
    network: Network
    predictions: tuple[Prediction, ...]
    excluded: tuple[tuple[str, str], ...] = ()

    def with_ranks(self, ranks: int) -> Advice:
        """Return the same comparison for another number of ranks."""
        network = dataclasses.replace(self.network, ranks=ranks)
        return compare(self.gradient, network, (p.measurement for p in self.predictions), self.excluded)

    @property
    def dense(self) -> Cost:
        """Return the cost of the dense all-reduce."""
        return compute_dense_cost(self.gradient, self.network.ranks)

    @property
    def max_bandwidth(self) -> float:
        """Return the bandwidth from which no scheme pays: 0 if none ever pays, inf if one always does."""
        return max((high for p in self.predictions for _, high in p.intervals), default=0.0)


def predict(measurement: Measurement, gradient: Gradient, network: Network) -> Prediction:
    """Predict the exchange of one scheme's encodings from its measurement."""
    dense = compute_dense_cost(gradient, network.ranks)
    costs = compute_costs(measurement.stages, gradient, network.ranks)
    cost = find_fastest(costs, network)
    return Prediction(
        measurement,
        costs,
        cost,
        cost.seconds(network),
        dense.seconds(network) / cost.seconds(network),
        compute_min_ratio(measurement.stages, gradient, network),
        find_paying_bandwidths(costs, dense, network.latency),
    )


def compare(
    gradient: Gradient,
    network: Network,
    measurements: Iterable[Measurement],
    excluded: tuple[tuple[str, str], ...] = (),
) -> Advice:
    """Compare schemes from their measurements."""
    predictions = [predict(measurement, gradient, network) for measurement in measurements]
    return Advice(gradient, network, tuple(sorted(predictions, key=lambda p: p.seconds)), excluded)


def advise(
    tensors: Mapping[str, Array],
    network: Network,
    schemes: Sequence[Scheme] | None = None,
    *,
    budget: float = 0.15,
    progress: ProgressCallback = ignore_progress,
) -> Advice:
    """Measure schemes on a gradient, and compare them over a network.

    Args:
        tensors: {name: array}, exchanged together.
        network: the ranks and the network between them.
        schemes: to measure; None for those of ``DEFAULT_SCHEMES`` that can encode the gradient.
        budget: seconds per timed call, approximately.
        progress: called with the completed fraction.

    Returns:
        The comparison, the fastest scheme first.

    Raises:
        EncodeError: one of ``schemes``, or every default scheme, cannot encode the gradient.

    Example:
        >>> import numpy as np
        >>> advice = advise({"w": np.ones(64, np.float32)}, Network(2, 1e6), [parse_scheme("dgc(ratio=0.5)")])
        >>> advice.predictions[0].measurement.scheme
        'dgc(0.5) | raw-index | raw'
    """
    prepared, failures, sums = [], [], allocate_sums(tensors)
    for scheme in map(parse_scheme, DEFAULT_SCHEMES) if schemes is None else schemes:
        try:
            prepared.append(TimedScheme.prepare(tensors, scheme, sums))
        except EncodeError as error:
            if schemes is not None:
                raise
            failures.append((str(scheme), error))
    if not prepared:
        raise failures[0][1] if failures else EncodeError("there is no scheme to measure")
    machine = measure(tensors, prepared, budget=budget, progress=progress)
    excluded = tuple((scheme, str(error)) for scheme, error in failures)
    return compare(machine.gradient, network, machine.measurements, excluded)

"""Comparison of schemes over a network: which of them make an exchange faster than a dense all-reduce.

Each candidate is measured on the gradient (``measurement``), and the seconds of an exchange are computed
(``cost_model``). The comparison is about time alone. It does not consider accuracy, error feedback, or
exchanges that overlap with the computation of the next gradient. Local updates are compared by the seconds of
an exchange per step, and are never the pick, because they change the training.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import wirecodec as wc
from collectives.advise.candidates import COMMON, MORE, Candidate, parse_candidate
from collectives.advise.cost_model import (
    EXCHANGE_ALONE,
    ExchangeCost,
    Network,
    Step,
    compute_costs,
    compute_dense_cost,
    compute_min_ratio,
    find_fastest,
    find_paying_bandwidths,
)
from collectives.advise.measurement import Gradient, Measurement, measure
from collectives.local_updates.outer import Array
from wirecodec.comparison.measurement import ProgressCallback, allocate_sums, ignore_progress

_ALIKE = 0.03
"""Relative difference in time and in error below which two schemes are alike."""
NEARLY = 0.05
"""Share of the fastest step by which the pick may be slower, if its error is smaller."""
_PREPARING = 0.7
"""Fraction of the progress that preparing the schemes takes, which compiles their kernels."""


@dataclass(frozen=True)
class Prediction:
    """Prediction for one scheme over one network.

    Attributes:
        measurement: of the scheme on the gradient.
        costs: of all algorithms that can sum its encodings.
        cost: the fastest of them over this network.
        seconds: of an exchange.
        step_seconds: of a step.
        speed_up: of a step, over one with the dense all-reduce.
        min_ratio: the ratio above which a scheme with these times pays here; inf if it never does.
        intervals: bandwidths at which the scheme pays, as ``find_paying_bandwidths`` returns them.
    """

    measurement: Measurement
    costs: tuple[ExchangeCost, ...]
    cost: ExchangeCost
    seconds: float
    step_seconds: float
    speed_up: float
    min_ratio: float
    intervals: tuple[tuple[float, float], ...]

    @property
    def changes_training(self) -> bool:
        """Return whether the exchange is not one of every step's gradients, as for local updates."""
        return self.measurement.stages.every > 1

    @property
    def pays(self) -> bool:
        """Return whether a step takes less time than one with the dense all-reduce."""
        return self.speed_up > 1


@dataclass(frozen=True)
class Advice:
    """Comparison of schemes for one gradient and one network.

    Attributes:
        gradient: its size and the seconds of summing it.
        network: that the predictions are for.
        step: what a step takes beside its exchange.
        predictions: one per scheme, the fastest first. Those with an error within the bound come before the
            others. Local updates are last.
        max_error: the bound.
        excluded: (scheme, reason) of the default schemes that cannot encode the gradient.
        alike: default schemes that are left out, because they are like one of ``predictions``.
    """

    gradient: Gradient
    network: Network
    step: Step
    predictions: tuple[Prediction, ...]
    max_error: float = math.inf
    excluded: tuple[tuple[str, str], ...] = ()
    alike: tuple[str, ...] = ()

    def with_ranks(self, ranks: int) -> Advice:
        """Return the same comparison for another number of ranks."""
        network = dataclasses.replace(self.network, ranks=ranks)
        measurements = (prediction.measurement for prediction in self.predictions)
        return compare(self.gradient, network, measurements, step=self.step, max_error=self.max_error)

    @property
    def pick(self) -> Prediction | None:
        """Return the scheme to take of those with an error within the bound; None if none has one.

        This is the fastest one. If whole steps are compared, it is the one with the least error of those
        whose step is nearly as short: a step computes, too, so that exchanges hardly change its time.
        """
        found = [p for p in self.predictions if self.accepts(p) and not p.changes_training]
        if not found or not self.step.compute:
            return found[0] if found else None
        longest = (1 + NEARLY) * found[0].step_seconds
        near = (p for p in found if p.step_seconds <= longest)
        return min(near, key=lambda p: math.inf if math.isnan(p.measurement.error) else p.measurement.error)

    def accepts(self, prediction: Prediction) -> bool:
        """Return whether the error of a scheme is within the bound; an unknown error (nan) is not."""
        return self.max_error == math.inf or prediction.measurement.error <= self.max_error

    @property
    def dense(self) -> ExchangeCost:
        """Return the cost of the dense all-reduce."""
        return compute_dense_cost(self.gradient, self.network.ranks)

    @property
    def max_bandwidth(self) -> float:
        """Return the bandwidth from which no scheme pays: 0 if none ever pays, inf if one always does."""
        return max((high for p in self.predictions for _, high in p.intervals), default=0.0)


def predict(
    measurement: Measurement, gradient: Gradient, network: Network, step: Step = EXCHANGE_ALONE
) -> Prediction:
    """Predict a step with the exchange of one scheme's encodings from its measurement."""
    dense, local = compute_dense_cost(gradient, network.ranks), measurement.stages.every > 1
    costs = compute_costs(measurement.stages, gradient, network.ranks)
    cost = find_fastest(costs, network)
    seconds = step.seconds(cost.seconds(network), local=local)
    return Prediction(
        measurement,
        costs,
        cost,
        cost.seconds(network),
        seconds,
        step.seconds(dense.seconds(network)) / seconds,
        compute_min_ratio(measurement.stages, gradient, network),
        find_paying_bandwidths(costs, dense, network.latency, step, local=local),
    )


def compare(
    gradient: Gradient,
    network: Network,
    measurements: Iterable[Measurement],
    *,
    step: Step = EXCHANGE_ALONE,
    max_error: float = math.inf,
) -> Advice:
    """Compare schemes from their measurements."""
    predictions = tuple(predict(measurement, gradient, network, step) for measurement in measurements)
    advice = Advice(gradient, network, step, predictions, max_error)
    ordered = sorted(
        predictions, key=lambda p: (p.changes_training, not advice.accepts(p), p.step_seconds, p.seconds)
    )
    return dataclasses.replace(advice, predictions=tuple(ordered))


def leave_out_alike(advice: Advice, keep: Collection[str] = ()) -> Advice:
    """Leave out each scheme whose time and error are like those of one before it; not those to ``keep``."""
    kept: list[Prediction] = []
    alike = []
    for prediction in advice.predictions:
        name = prediction.measurement.scheme
        if name not in keep and any(_are_alike(prediction, other) for other in kept):
            alike.append(name)
        else:
            kept.append(prediction)
    return dataclasses.replace(advice, predictions=tuple(kept), alike=tuple(alike))


def _are_alike(one: Prediction, other: Prediction) -> bool:
    return (
        one.changes_training == other.changes_training
        and math.isclose(one.seconds, other.seconds, rel_tol=_ALIKE)
        and math.isclose(one.measurement.error, other.measurement.error, rel_tol=_ALIKE)
    )


def advise(
    tensors: Mapping[str, Array],
    network: Network,
    candidates: Sequence[Candidate] | None = None,
    *,
    step: Step = EXCHANGE_ALONE,
    more: bool = False,
    also: Sequence[Candidate] = (),
    max_error: float = math.inf,
    scale: float = 1.0,
    budget: float = 0.06,
    progress: ProgressCallback = ignore_progress,
) -> Advice:
    """Measure candidates on a gradient, and compare them over a network.

    Args:
        tensors: {name: array}, exchanged together.
        network: the ranks and the network between them.
        step: what a training step takes beside its exchange.
        candidates: to measure; None for those of ``COMMON`` that can encode the gradient, without those that
            are alike.
        more: whether None also means ``MORE``.
        also: further candidates.
        max_error: bound on the error of the pick.
        scale: size of the gradient to compare for, in sizes of the measured one.
        budget: seconds per timed call, approximately.
        progress: called with the completed fraction.

    Returns:
        The comparison.

    Raises:
        EncodeError: one of ``candidates`` or ``also``, or every default one, cannot encode the gradient.

    Examples:
        >>> import numpy as np
        >>> dgc = parse_candidate("dgc(ratio=0.5)")
        >>> advice = advise({"w": np.ones(64, np.float32)}, Network(2, 1e6), [dgc])
        >>> advice.predictions[0].measurement.scheme
        'dgc(0.5) | raw-index | raw'
    """
    defaults = map(parse_candidate, COMMON + (MORE if more else ()))
    tried = [*(defaults if candidates is None else candidates), *also]
    prepared, failures, sums = [], [], allocate_sums(tensors)
    for number, candidate in enumerate(tried):
        progress(_PREPARING * number / len(tried))
        try:
            prepared.append(Measurement.prepare(tensors, candidate, sums))
        except wc.EncodeError as error:
            if candidates is not None or candidate in also:
                raise
            failures.append((candidate.name, error))
    if not prepared:
        raise failures[0][1] if failures else wc.EncodeError("there is no scheme to measure")
    gradient, measurements = measure(
        tensors,
        prepared,
        scale=scale,
        budget=budget,
        progress=lambda fraction: progress(_PREPARING + (1 - _PREPARING) * fraction),
    )
    advice = compare(gradient, network, measurements, step=step, max_error=max_error)
    excluded = tuple((name, str(error)) for name, error in failures)
    advice = dataclasses.replace(advice, excluded=excluded)
    return leave_out_alike(advice, [one.name for one in also]) if candidates is None else advice

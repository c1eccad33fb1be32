"""Budget for a time: the bits per element whose exchange takes that time, and the error of the budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import wirecodec as wc
from collectives.advise.candidates import Candidate
from collectives.advise.cost_model import Network, compute_costs
from collectives.advise.measurement import Measurement, measure
from collectives.local_updates.outer import Array
from wirecodec.cli.units import format_seconds
from wirecodec.comparison.measurement import ProgressCallback, allocate_sums, ignore_progress

_ROUNDS = 6
"""Most measurements; each measures the budget that follows from the times of the one before."""
_NEARLY = 0.9
"""Part of the time that a budget uses at which the search ends."""
_MAX_BITS = 16.0


@dataclass(frozen=True)
class BudgetAdvice:
    """Budget of an exchange.

    Attributes:
        seconds: of an exchange, as asked for.
        bits: per element, three significant digits at most; 0 if no budget is short enough.
        nbytes: of a container.
        predicted: seconds of an exchange, computing included.
        error: norm of the part of the gradient that one exchange loses, over the norm of the gradient.
    """

    seconds: float
    bits: float
    nbytes: int = 0
    predicted: float = 0.0
    error: float = 1.0


def find_budget(
    tensors: Mapping[str, Array],
    network: Network,
    seconds: float,
    *,
    scale: float = 1.0,
    progress: ProgressCallback = ignore_progress,
) -> BudgetAdvice:
    """Find the bits per element with which an all-gather takes a number of seconds.

    All tensors are one vector, as with ``scope="group"`` of a Compressor.

    Args:
        tensors: {name: array}.
        network: the ranks and the network between them.
        seconds: of an exchange, with selecting, encoding and decoding.
        scale: size of the gradient, in sizes of the measured one.
        progress: called with the completed fraction.

    Returns:
        The budget, whose predicted time is at most ``seconds``. Its bits are at most 16.

    Raises:
        EncodeError: an element is NaN or Inf.
    """
    joined = np.concatenate([np.asarray(x, np.float32).reshape(-1) for x in tensors.values()])
    vector, sums = {"all": joined}, allocate_sums({"all": joined})
    elements = joined.size * scale
    best, too_many = BudgetAdvice(seconds, 0.0), math.inf
    left = seconds - (network.ranks - 1) * network.latency
    for turn in range(_ROUNDS):
        progress(turn / _ROUNDS)
        nbytes = network.bandwidth * max(left, 0.0) / (network.ranks - 1)
        bits = min(8 * nbytes / elements, _MAX_BITS)
        if bits >= too_many:  # they take too long, although fewer leave the time for them
            bits = math.sqrt(best.bits * too_many) if best.bits else too_many / 4
        bits = _floor(bits)
        if bits <= best.bits:
            break
        try:
            scheme = wc.Scheme.parse(f"budget(bits={bits!r}) | rice | error-bounded")
            prepared = Measurement.prepare(vector, Candidate(scheme, str(scheme)), sums)
            gradient, (measured,) = measure(vector, [prepared], scale=scale, budget=0.1)
        except wc.EncodeError:
            if np.isfinite(joined).all():
                break  # the header alone takes longer
            raise
        cost = compute_costs(measured.stages, gradient, network.ranks)[0]
        assert cost.algorithm == "allgather"
        predicted = cost.seconds(network)
        if _NEARLY * seconds <= predicted <= seconds:
            return BudgetAdvice(seconds, bits, measured.stages.nbytes, predicted, measured.error)
        if predicted <= seconds:
            best = BudgetAdvice(seconds, bits, measured.stages.nbytes, predicted, measured.error)
            left *= seconds / predicted
        else:
            too_many = bits
            free = seconds - cost.fixed_seconds(network)
            left = free if free > 0 else math.inf
    return best


def _floor(bits: float) -> float:
    """Round a number of bits down to two significant digits; return 0 below 0.001."""
    if bits < 1e-3:
        return 0.0
    places = 1 - math.floor(math.log10(bits))
    unit = 10.0**places
    return round(math.floor(bits * unit + 1e-9) / unit, max(places, 0))


def format_budget(advice: BudgetAdvice) -> list[str]:
    """Format a budget as lines of the page."""
    if not advice.bits:
        return [f"No budget is exchanged in {format_seconds(advice.seconds)}: computing alone takes longer."]
    return [
        f"An exchange of {format_seconds(advice.seconds)} carries {advice.nbytes:,} bytes per rank: "
        f"budget(bits={advice.bits:.3g}) | rice | error-bounded,",
        f'as Compressor(…, scope="group"); predicted {format_seconds(advice.predicted)}, '
        f"error {advice.error:.3g}.",
    ]

"""Break-even points of the cost model: bandwidths and ratios at which compression pays.

Compression pays if an algorithm takes less time than ``dense``. On two ranks without latency this is the
condition of the FFT paper (section 3.3, equation 4), which ``published_min_ratio`` computes.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

from wirecodec.cli.cost_model import Cost, Gradient, Network, Stages, compute_costs, compute_dense_cost


def find_paying_bandwidths(
    costs: Sequence[Cost], dense: Cost, latency: float = 0.0
) -> tuple[tuple[float, float], ...]:
    """Find the bandwidths at which an algorithm takes less time than the dense sum.

    Args:
        costs: of the algorithms of a scheme.
        dense: the cost of the dense sum.
        latency: seconds per message.

    Returns:
        Intervals (low, high) in bytes per second, ends excluded, within 0 to inf. They ascend and do not
        overlap. Usually there is one, from 0.
    """
    network = Network(2, 1.0, latency)
    intervals = sorted(found for cost in costs if (found := _find_interval(cost, dense, network)))
    union: list[tuple[float, float]] = []
    for low, high in intervals:
        if union and low < union[-1][1]:
            union[-1] = union[-1][0], max(high, union[-1][1])
        else:
            union.append((low, high))
    return tuple(union)


def _find_interval(cost: Cost, dense: Cost, network: Network) -> tuple[float, float] | None:
    """Return the bandwidths at which the gain over ``dense`` is positive; it is linear in 1 / bandwidth."""
    seconds_saved = dense.fixed_seconds(network) - cost.fixed_seconds(network)
    bytes_saved = dense.nbytes - cost.nbytes
    if bytes_saved > 0:
        return 0.0, bytes_saved / -seconds_saved if seconds_saved < 0 else math.inf
    if seconds_saved > 0:  # more bytes, but less of everything else
        return -bytes_saved / seconds_saved, math.inf
    return None


def compute_min_ratio(stages: Stages, gradient: Gradient, network: Network) -> float:
    """Compute the ratio M/m above which a scheme with these times pays; inf if it never does."""
    available = compute_dense_cost(gradient, network.ranks).seconds(network)
    ratio = math.inf
    index_bytes = stages.index_bytes and stages.index_bytes * gradient.nbytes // stages.nbytes
    whole = dataclasses.replace(stages, nbytes=gradient.nbytes, index_bytes=index_bytes, pairs=None)
    for cost in compute_costs(whole, gradient, network.ranks):
        seconds = available - cost.fixed_seconds(network)  # that remain for sending
        if cost.compressed and seconds > 0:
            ratio = min(ratio, cost.nbytes / network.bandwidth / seconds)
    return ratio


def published_min_ratio(
    bandwidth: float, *, conversion: float, transform: float, packing: float, selection: float
) -> float:
    """Compute the ratio above which the pipeline of the FFT paper pays (equation 4).

    All arguments have the same unit, such as bytes per second, and count uncompressed bytes. The paper
    assumes that decompression takes as long as compression.

    Args:
        bandwidth: T_comm, of one message between two ranks.
        conversion: T_m, to a shorter float, which is done twice.
        transform: T_f.
        packing: T_p.
        selection: T_s.

    Returns:
        The ratio; inf if no ratio pays.

    Examples:
        >>> published_min_ratio(1, conversion=float("inf"), transform=8, packing=8, selection=float("inf"))
        2.0
    """
    compressing = 2 / conversion + 1 / transform + 1 / packing + 1 / selection
    remaining = 1 - 2 * bandwidth * compressing
    return 1 / remaining if remaining > 0 else math.inf

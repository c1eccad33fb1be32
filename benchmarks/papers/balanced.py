"""Ok-Topk's balanced split: ranges of equal counts against equal ranges and all-gather, on simulated links.

``split-pairs`` balances its ranges by the counts of the last call on the same Channel. A new Channel for each
call has equal ranges.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.papers.networks import NETWORKS, build_demo
from benchmarks.papers.parts import Part

__all__ = ["ALPHA", "BETA", "ELEMENTS", "RANKS", "Point", "collect", "list_parts"]

Array = Any
RANKS = (4, 8, 16)
ALPHA, BETA = 5e-5, 8e-9
"""Seconds per message and per byte: 1 Gbit/s."""
RATIO = 0.01
CALLS, WARM = 8, 4
"""Measured calls, and those before them, in which the ranges adapt."""
ELEMENTS = 1_000_000
HOT, FACTOR, NOISE = 0.05, 8, 0.5
"""Skewed gradients: the last part of the elements has this factor; the ranks differ by this noise."""
INPUTS = ("the demo's training", "skewed")


@dataclass(frozen=True)
class Point:
    """All-reduce of one input.

    Attributes:
        inputs: one of ``INPUTS``.
        ranks: number of ranks.
        seconds: {method: simulated seconds of a call}.
        nbytes: {method: bytes that the busiest rank sends per call}.
    """

    inputs: str
    ranks: int
    seconds: dict[str, float]
    nbytes: dict[str, float]


def list_parts(steps: int) -> list[Part]:
    """List all inputs and numbers of ranks; ``steps``: of the training before the measured calls."""
    return [Part(_name(*key), measure, (*key, steps // 4)) for key in _list_cases()]


def collect(found: Mapping[str, Any]) -> list[Point]:
    """Collect the results of all parts."""
    return [found[_name(*key)] for key in _list_cases()]


def _list_cases() -> list[tuple[str, int]]:
    return [(inputs, ranks) for inputs in INPUTS for ranks in RANKS]


def _name(inputs: str, ranks: int) -> str:
    return f"ScaleCom: balanced split, {inputs}, {ranks} ranks"


def measure(inputs: str, ranks: int, steps: int) -> Point:
    """Measure the three methods."""
    calls = _train(ranks, steps) if inputs == INPUTS[0] else _draw(ranks)
    results = {
        "all-gather": _reduce(calls, ranks, "allgather", keep=False),
        "equal ranges": _reduce(calls, ranks, "split-pairs", keep=False),
        "balanced ranges": _reduce(calls, ranks, "split-pairs", keep=True),
    }
    sums = {found[2] for found in results.values()}
    assert len(sums) == 1, "all methods have the same sums"
    seconds = {name: found[0] for name, found in results.items()}
    return Point(inputs, ranks, seconds, {name: found[1] for name, found in results.items()})


def _reduce(
    calls: list[list[Array]], ranks: int, algorithm: Any, *, keep: bool
) -> tuple[float, float, bytes]:
    """Sum all calls; return seconds and bytes of the measured ones, and the last sum.

    Args:
        calls: per call, each rank's vector.
        ranks: number of ranks.
        algorithm: of the all-reduce.
        keep: whether all calls use one Channel.
    """

    def run(comm: Any) -> tuple[list[float], list[int], bytes]:
        channel, clocks, sent, total = co.Channel(comm), [comm.clock], [comm.bytes_sent], b""
        for vectors in calls:
            channel = channel if keep else co.Channel(comm)
            mean = co.allreduce(channel, vectors[comm.rank], "nonzero | rice | raw", algorithm=algorithm)
            total = np.asarray(mean).tobytes()
            clocks.append(comm.clock)
            sent.append(comm.bytes_sent)
        return clocks, sent, total

    results = co.simulate(ranks, run, alpha=ALPHA, beta=BETA)
    clocks = np.max([clocks for clocks, _, _ in results], axis=0)
    sent = np.max([np.diff(sent)[WARM:] for _, sent, _ in results], axis=0)
    measured = len(calls) - WARM
    return float(clocks[-1] - clocks[WARM]) / measured, float(np.mean(sent)), results[0][2]


def _sparsify(x: Array) -> Array:
    kept = np.zeros_like(x)
    indices = wc.selectors.TopK(RATIO).select(x).indices
    kept[indices] = x[indices]
    return kept


def _train(ranks: int, steps: int) -> list[list[Array]]:
    """Train with top-k and feedback; return what every rank sends in the last steps."""
    networks = [build_demo(16, rank, ranks) for rank in range(ranks)]
    rate, parameters = np.float32(NETWORKS["demo"].rate), networks[0].start
    residuals = [np.zeros_like(parameters) for _ in networks]
    calls: list[list[Array]] = []
    for step in range(steps + CALLS + WARM):
        sent = []
        for rank, network in enumerate(networks):
            x = residuals[rank] + network.compute(parameters, step)[1]
            sent.append(_sparsify(x))
            residuals[rank] = x - sent[-1]
        parameters = parameters - rate * np.mean(sent, axis=0)
        calls = [*calls, sent][-CALLS - WARM :]
    return calls


def _draw(ranks: int) -> list[list[Array]]:
    """Draw Laplace elements of which the ranks have a part in common; the last ones are larger."""
    rng = np.random.default_rng(0)
    scale = np.ones(ELEMENTS, np.float32)
    scale[-int(HOT * ELEMENTS) :] = FACTOR

    def draw() -> Array:
        return rng.laplace(size=ELEMENTS).astype(np.float32) * scale

    calls = []
    for _ in range(CALLS + WARM):
        common = draw()
        calls.append([_sparsify(common + np.float32(NOISE) * draw()) for _ in range(ranks)])
    return calls

"""ScaleCom's Table 1 in numbers: the demo's network, trained on 4 ranks with the methods that it compares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.common.powersgd import PowerSGD
from benchmarks.common.sketchsgd import SketchSGD
from benchmarks.demo import model
from benchmarks.papers.networks import Network, build_demo, flatten, unflatten
from benchmarks.papers.parts import Part

__all__ = ["BATCH", "RANKS", "RATE", "Comparison", "collect", "list_parts"]

Array = Any
RANKS, BATCH, RATE = 4, 16, 0.05
RATIO = 0.01


@dataclass(frozen=True)
class Comparison:
    """Training with one method.

    Attributes:
        method: its name.
        nbytes: bytes that a rank sends per step, mean over ranks and steps.
        loss: mean of the last tenth of the steps.
        error: test error after the last step.
    """

    method: str
    nbytes: float
    loss: float
    error: float


def list_parts(steps: int) -> list[Part]:
    """List a training with each method; ``steps``: of each."""
    return [Part(_name(name), train, (name, steps)) for name in (*EXCHANGES, *BASELINES)]


def collect(found: Mapping[str, Any]) -> list[Comparison]:
    """Collect the results of all parts."""
    return [found[_name(name)] for name in (*EXCHANGES, *BASELINES)]


def _name(method: str) -> str:
    return f"ScaleCom: Table 1, {method}"


def _dense(channel: co.Channel, grads: model.Params) -> Any:
    return co.allreduce(channel, grads, "all | raw-index | raw", algorithm="dense")


def _with_compressor(scheme: str) -> Callable[..., Any]:
    compressor = wc.Compressor(scheme)
    return lambda channel, grads: co.allreduce(channel, grads, compressor, algorithm="allgather")


EXCHANGES: dict[str, Callable[[], Callable[..., Any]]] = {
    "dense all-reduce": lambda: _dense,
    f"top-k {RATIO:g}, all-gather": lambda: _with_compressor(f"topk({RATIO}) | rice | raw"),
    f"top-k {RATIO:g}, 4 bits, all-gather": lambda: _with_compressor(f"topk({RATIO}) | rice | qsgd"),
    f"CLT-k {RATIO:g} (ScaleCom)": lambda: co.CLTk(RATIO).allreduce,
    f"gTop-k {RATIO:g}": lambda: co.GTopK(RATIO).allreduce,
}
"""This library's methods."""
BASELINES: dict[str, Callable[[], PowerSGD | SketchSGD]] = {
    "PowerSGD, rank 1": lambda: PowerSGD(1),
    "PowerSGD, rank 4": lambda: PowerSGD(4),
    "SketchSGD 0.001, 5 × 1,000": lambda: SketchSGD(5, 1000, 0.001),
    f"SketchSGD {RATIO:g}, 5 × 5,000": lambda: SketchSGD(5, 5000, RATIO),
}
"""Methods that this library does not have, all ranks in one process."""


def train(name: str, steps: int) -> Comparison:
    """Train with one method."""
    run = _train if name in EXCHANGES else _train_baseline
    nbytes, losses, error = run(name, steps)
    return Comparison(name, nbytes, float(np.mean(losses[-max(1, steps // 10) :])), error)


def _build(rank: int) -> Network:
    return build_demo(BATCH, rank, RANKS)


def _train(name: str, steps: int) -> tuple[float, Array, float]:
    """Train on simulated ranks; return the bytes per rank and step, the losses, and the test error."""

    def run(comm: Any) -> tuple[int, list[float], float]:
        channel, exchange, network = co.Channel(comm), EXCHANGES[name](), _build(comm.rank)
        parameters, losses = network.start, []
        for step in range(steps):
            loss, gradient = network.compute(parameters, step)
            losses.append(loss)
            mean = exchange(channel, unflatten(gradient))
            parameters = parameters - np.float32(RATE) * flatten(mean)
        return channel.bytes_sent, losses, 1 - network.evaluate(parameters) if comm.rank == 0 else 0.0

    results = co.simulate(RANKS, run)
    losses = np.mean([losses for _, losses, _ in results], axis=0)
    return float(np.mean([sent for sent, _, _ in results])) / steps, losses, results[0][2]


def _train_baseline(name: str, steps: int) -> tuple[float, Array, float]:
    """Train in one process; a ring all-reduce of b bytes sends 2 (n-1)/n · b per rank."""
    method, networks = BASELINES[name](), [_build(rank) for rank in range(RANKS)]
    parameters, losses = networks[0].start, []
    for step in range(steps):
        pairs = [network.compute(parameters, step) for network in networks]
        losses.append(float(np.mean([loss for loss, _ in pairs])))
        mean = method.allreduce([unflatten(gradient) for _, gradient in pairs])
        parameters = parameters - np.float32(RATE) * flatten(mean)
    nbytes = 2 * (RANKS - 1) / RANKS * method.nbytes / steps
    return nbytes, np.array(losses), 1 - networks[0].evaluate(parameters)

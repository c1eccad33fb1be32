"""ScaleCom's Table 1 in numbers: the demo's network, trained on 4 ranks with the methods that it compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.common.powersgd import PowerSGD
from benchmarks.common.results import format_markdown
from benchmarks.demo import data, model
from benchmarks.papers.training import test_error

__all__ = ["Comparison", "format_comparison", "measure"]

Array = Any
RANKS, BATCH, RATE = 4, 16, 0.05
RATIO = 0.01
POWER_RANKS = (1, 4)


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


def measure(steps: int, step: Callable[[str], None]) -> list[Comparison]:
    """Train with each method.

    Args:
        steps: of each training.
        step: called with the name of each measurement before it starts.
    """
    found = []
    for name, build in {
        "dense all-reduce": lambda: _dense,
        f"top-k {RATIO:g}, all-gather": lambda: _with_compressor(f"topk({RATIO}) | rice | raw"),
        f"top-k {RATIO:g}, 4 bits, all-gather": lambda: _with_compressor(f"topk({RATIO}) | rice | qsgd"),
        f"CLT-k {RATIO:g} (ScaleCom)": lambda: co.CLTk(RATIO).allreduce,
        f"gTop-k {RATIO:g}": lambda: co.GTopK(RATIO).allreduce,
    }.items():
        step(f"comparators: {name}")
        found.append(_train(name, build, steps))
    for rank in POWER_RANKS:
        step(f"comparators: PowerSGD, rank {rank}")
        found.append(_train_powersgd(rank, steps))
    return found


def _dense(channel: co.Channel, grads: model.Params) -> Any:
    return co.allreduce(channel, grads, "all | raw-index | raw", algorithm="dense")


def _with_compressor(scheme: str) -> Callable[..., Any]:
    compressor = wc.Compressor(scheme)
    return lambda channel, grads: co.allreduce(channel, grads, compressor, algorithm="allgather")


def _batches(rank: int) -> Any:
    training, _ = data.load()
    return data.generate_batches(data.shard(training, rank, RANKS), BATCH, seed=0, rank=rank)


def _apply(params: model.Params, mean: Any) -> model.Params:
    return {name: p - np.float32(RATE) * mean[name] for name, p in params.items()}


def _train(name: str, build: Callable[[], Any], steps: int) -> Comparison:
    def run(comm: Any) -> tuple[int, list[float], float]:
        channel, exchange, batches = co.Channel(comm), build(), _batches(comm.rank)
        params, losses = model.initialise(0), []
        for _ in range(steps):
            batch = next(batches)
            loss, grads = model.compute_gradients(params, batch.images, batch.labels)
            losses.append(loss)
            params = _apply(params, exchange(channel, grads))
        return channel.bytes_sent, losses, test_error(params) if comm.rank == 0 else 0.0

    results = co.simulate(RANKS, run)
    losses = np.mean([losses for _, losses, _ in results], axis=0)
    nbytes = float(np.mean([sent for sent, _, _ in results])) / steps
    return Comparison(name, nbytes, float(losses[-max(1, steps // 10) :].mean()), results[0][2])


def _train_powersgd(rank: int, steps: int) -> Comparison:
    """Train in one process; a ring all-reduce of b bytes sends 2 (n-1)/n · b per rank."""
    method, params = PowerSGD(rank), model.initialise(0)
    batches, losses = [_batches(r) for r in range(RANKS)], []
    for _ in range(steps):
        drawn = [next(each) for each in batches]
        pairs = [model.compute_gradients(params, batch.images, batch.labels) for batch in drawn]
        losses.append(float(np.mean([loss for loss, _ in pairs])))
        params = _apply(params, method.allreduce([grads for _, grads in pairs]))
    nbytes = 2 * (RANKS - 1) / RANKS * method.nbytes / steps
    name = f"PowerSGD, rank {rank}"
    return Comparison(name, nbytes, float(np.mean(losses[-max(1, steps // 10) :])), test_error(params))


def format_comparison(found: list[Comparison], steps: int) -> str:
    """Format the table of methods."""
    rows = [
        [
            each.method,
            f"{each.nbytes / 1e3:,.1f}",
            f"{found[0].nbytes / each.nbytes:.0f}×",
            f"{each.loss:.3f}",
            f"{each.error:.1%}",
        ]
        for each in found
    ]
    header = ["method", "kB per rank and step", "less than dense", "loss", "test error"]
    return f"""### Table 1: the methods that ScaleCom is compared with

{RANKS} ranks, {BATCH} images per rank and step, {steps} steps, plain gradient descent, rate {RATE:g}, one
ratio for all tensors. All but dense keep what they do not send. Bytes are counted, PowerSGD's computed for a
ring all-reduce. SketchSGD is not implemented.

{format_markdown(header, rows)}"""

"""ScaleCom's figures: build-up, similarity of the ranks, overlap of selections, and the performance model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import collectives as co
from benchmarks.common.results import format_markdown
from benchmarks.demo import data, model
from benchmarks.papers import comparators
from benchmarks.papers.table import Row, format_rows
from benchmarks.papers.training import flatten, unflatten

__all__ = ["MINIBATCHES", "RUNS", "WORKERS", "Result", "Run", "compute_shares", "format_section", "measure"]

Array = Any
RATIO = 0.01
BATCH = 32
RUNS = {
    "2 ranks": (2, 0.01, 1.0),
    "4 ranks": (4, 0.01, 1.0),
    "8 ranks": (8, 0.01, 1.0),
    "4 ranks, rate 0.2": (4, 0.2, 1.0),
    "4 ranks, rate 0.2, β 0.1": (4, 0.2, 0.1),
}
"""(ranks, learning rate, β) of Figures 2 and 3."""
EVERY = 5
"""Steps between two measurements."""

WORKERS = (8, 16, 32, 64, 128)
MINIBATCHES = (8, 32)
TERAFLOPS = (100, 300)
PARAMETERS, FLOPS = 25.6e6, 3 * 2 * 4.1e9
"""ResNet-50: parameters, and operations of one image forward and backward."""
EFFICIENCY = 0.5
"""Fraction of the peak at which the model computes; the paper does not state its own."""
BANDWIDTH = 32e9
"""Bytes per second of the server and of a worker."""


@dataclass(frozen=True, eq=False)
class Run:
    """Similarity over a training.

    Attributes:
        name: of the run.
        steps: at which it was measured.
        distances: cosine distance of the residuals.
        hamming: d/k of the next leader.
        contraction, top, bound: of the next leader, of the true top k, and equation 7.
        last: the last measurement, with its histogram.
        loss: of the last step, mean over ranks.
    """

    name: str
    steps: Array
    distances: Array = field(repr=False)
    hamming: Array = field(repr=False)
    contraction: Array = field(repr=False)
    top: Array = field(repr=False)
    bound: Array = field(repr=False)
    last: co.Similarity = field(repr=False)
    loss: float


@dataclass(frozen=True, eq=False)
class Result:
    """Results of all figures.

    Attributes:
        runs: Figures 2 and 3.
        steps: of each training.
        comparisons: Table 1.
        sent: per number of ranks, bytes a rank sends by all-gather and by CLT-k.
    """

    runs: list[Run]
    steps: int
    comparisons: list[comparators.Comparison]
    sent: list[tuple[int, int, int]]


def measure(steps: int, step: Callable[[str], None]) -> Result:
    """Train on simulated ranks, and count bytes.

    Args:
        steps: of each training.
        step: called with the name of each measurement before it starts.
    """
    runs = []
    for name, (ranks, rate, beta) in RUNS.items():
        step(f"ScaleCom: {name}")
        runs.append(_train(name, ranks, rate, beta, steps))
    sent = []
    for ranks in (2, 4, 8, 16):
        step(f"ScaleCom: bytes of {ranks} ranks")
        sent.append((ranks, *_count_bytes(ranks)))
    return Result(runs, steps, comparators.measure(steps, step), sent)


def _train(name: str, ranks: int, rate: float, beta: float, steps: int) -> Run:
    """Train with CLT-k; all parameters are one tensor."""
    training, _ = data.load()

    def run(comm: Any) -> tuple[list[tuple[int, co.Similarity]], float]:
        batches = data.generate_batches(data.shard(training, comm.rank, ranks), BATCH, seed=0, rank=comm.rank)
        params, cltk, found, loss = model.initialise(0), co.CLTk(RATIO, beta), [], 0.0
        for step in range(steps):
            batch = next(batches)
            loss, grads = model.compute_gradients(params, batch.images, batch.labels)
            gradient = flatten(grads)
            if step % EVERY == EVERY - 1:
                measured = co.similarity(comm, cltk, gradient)
                assert isinstance(measured, co.Similarity)
                found.append((step + 1, measured))
            change = unflatten(cltk.allreduce(comm, gradient), params)
            params = {key: p - np.float32(rate) * change[key] for key, p in params.items()}
        return found, loss

    with np.errstate(all="ignore"):
        results = co.simulate(ranks, run)
    found = results[0][0]
    leaders = [(step - 1) % ranks for step, _ in found]
    each = [(s, leader) for (_, s), leader in zip(found, leaders, strict=True)]
    return Run(
        name,
        np.array([step for step, _ in found]),
        np.array([s.cosine_distance for s, _ in each]),
        np.array([s.hamming[leader] for s, leader in each]),
        np.array([s.contraction[leader] for s, leader in each]),
        np.array([s.top_contraction for s, _ in each]),
        np.array([s.bounds[leader] for s, leader in each]),
        found[-1][1],
        float(np.mean([loss for _, loss in results])),
    )


def _count_bytes(ranks: int, d: int = 2_000_000) -> tuple[int, int]:
    """Count the bytes that a rank sends for one gradient of Laplace elements: all-gather, CLT-k."""

    def run(comm: Any) -> tuple[int, int]:
        x = np.random.default_rng(comm.rank).laplace(size=d).astype(np.float32)
        channel = co.Channel(comm)
        co.allreduce(channel, x, f"topk({RATIO}) | rice | raw", algorithm="allgather")
        before = channel.bytes_sent
        co.CLTk(RATIO).allreduce(channel, x)
        return before, channel.bytes_sent - before

    sent = co.simulate(ranks, run)
    return max(a for a, _ in sent), max(b for _, b in sent)


def compute_shares(workers: int, minibatch: int, teraflops: float, method: str) -> tuple[float, float]:
    """Compute the seconds of computing and of communication of a step by the paper's model.

    A parameter server has the bandwidth of one worker's link. It receives each worker's gradient and sends
    the sum. Links work at once, so a gradient takes its bytes over the bandwidth, in either direction. The
    sum of top-k gradients has as many elements as all of them, at most all; CLT-k's has k.

    Args:
        workers: number of workers.
        minibatch: images per worker.
        teraflops: peak of a worker.
        method: "dense", "top-k" or "ScaleCom".
    """
    computing = minibatch * FLOPS / (teraflops * 1e12 * EFFICIENCY)
    nbytes = 4 * PARAMETERS
    up = down = nbytes
    if method != "dense":
        up = down = nbytes / 112
        if method == "top-k":
            down = min(workers * up, 2 * nbytes)
        else:
            up += nbytes / 112 / 2  # the leader's indices
    return computing, (up + down) / BANDWIDTH


def format_section(found: Result) -> str:
    """Format ScaleCom's part of the page."""
    runs = [
        [
            run.name,
            f"{run.distances[0]:.2f} → {run.distances[-1]:.2f}",
            f"{run.hamming.min():.2f}-{run.hamming.max():.2f}",
            f"{run.contraction[-1]:.3f}",
            f"{run.top[-1]:.3f}",
            f"{run.bound[-1]:.3f}",
            f"{_overlap(run):.0%}",
            f"{run.loss:.2g}",
        ]
        for run in found.runs
    ]
    sent = [[str(n), f"{gather / 1e3:,.0f}", f"{clt_k / 1e3:,.0f}"] for n, gather, clt_k in found.sent]
    model_rows = []
    for teraflops in TERAFLOPS:
        for minibatch in MINIBATCHES:
            for workers in WORKERS[::2]:
                times = {m: compute_shares(workers, minibatch, teraflops, m) for m in METHODS}
                totals = {m: sum(t) for m, t in times.items()}
                model_rows.append(
                    [
                        f"{teraflops} TFLOPs, {minibatch} images, {workers} workers",
                        *(f"{times[m][1] / totals[m]:.0%}" for m in METHODS),
                        *(f"{totals['dense'] / totals[m]:.2f}×" for m in METHODS[1:]),
                    ]
                )
    steps = int(found.runs[0].steps[-1])
    return f"""## ScaleCom (Chen et al., 2020)

{format_rows(_list_rows(found))}
### Figures 2 and 3: similarity of the ranks

CLT-k at a ratio of {RATIO:g} on the demo's network, {BATCH} images per rank and step, {steps} steps, all
parameters as one tensor. *Distance* is the mean cosine distance of the ranks' residuals, first and last; d/k,
contraction and bound (equation 7) are the next leader's; γ₀ is the contraction of the true top k. The overlap
is the fraction of the true top k that the next leader selects. `co.similarity` measures all of it.

{
        format_markdown(
            ["run", "distance", "d/k", "contraction", "γ₀", "bound", "overlap", "loss"],
            runs,
        )
    }
![cosine distance, Hamming distance, overlap, performance model](papers_scalecom.png)

### Figure 1a: build-up

Bytes a rank sends for 2,000,000 elements at a ratio of {RATIO:g}, in kB. CLT-k's include the indices.

{format_markdown(["ranks", "all-gather of top-k", "CLT-k"], sent)}
### Figures 1b and 6: performance model

A parameter server with 32 GB/s, ResNet-50, a compression of 112×. Columns: part of a step's time that is
communication, and speed-up over dense. Computing is {
        EFFICIENCY:.0%} of the peak; the paper does not state its
efficiency.

{format_markdown(["", *METHODS, *(f"speed-up, {m}" for m in METHODS[1:])], model_rows)}
{comparators.format_comparison(found.comparisons, found.steps)}"""


METHODS = ("dense", "top-k", "ScaleCom")


def _overlap(run: Run) -> float:
    return float(1 - run.hamming[-1])


def _list_rows(found: Result) -> list[Row]:
    by_name = {run.name: run for run in found.runs}
    plain, high, filtered = (by_name[name] for name in list(RUNS)[1:2] + list(RUNS)[3:])
    ranks, gather, clt_k = found.sent[-1]
    _, gather_2, clt_k_2 = found.sent[0]

    def share(minibatch: int) -> str:
        computing, sending = compute_shares(64, minibatch, 100, "dense")
        return f"{sending / (computing + sending):.0%}"

    def speed_up(minibatch: int, teraflops: float) -> str:
        dense = sum(compute_shares(64, minibatch, teraflops, "dense"))
        return f"{dense / sum(compute_shares(64, minibatch, teraflops, 'ScaleCom')):.2f}×"

    scalecom = compute_shares(128, 8, 100, "ScaleCom")
    return [
        Row(
            "Figure 1a: build-up",
            "the gather grows with the workers, ScaleCom does not",
            f"all-gather ×{gather / gather_2:.1f}, CLT-k ×{clt_k / clt_k_2:.2f} from 2 to {ranks} ranks",
            "CLT-k's ring all-reduce sends 2 (n-1)/n of the values, which approaches 2.",
        ),
        Row(
            "Figure 1b: bottleneck of the server",
            "top-k's communication grows with the workers",
            "table below",
            "The same model, with assumptions that the paper does not state.",
        ),
        Row(
            "Figure 2a: cosine distance of the memories",
            "falls quickly, to about 0; alike for all numbers of workers",
            f"{plain.distances[0]:.2f} → {plain.distances[-1]:.2f} (4 ranks)",
            "Ours falls first and then rises: the digits are soon learnt, and the ranks' "
            "gradients then differ. It is the mean over all pairs, theirs that of workers 0 and "
            "1.",
        ),
        Row(
            "Figure 2b: overlap with the true top k",
            "more than 70 %",
            f"{_overlap(plain):.0%}",
            "Late in the training, as above. Theirs is an area in a histogram of magnitudes; ours "
            "counts elements.",
        ),
        Row(
            "Figure 2c: high rate, filter",
            "the distance grows at 100 times the rate; β = 0.1 reduces it",
            f"{high.distances[-1]:.2f} at rate 0.2, {filtered.distances[-1]:.2f} with β 0.1",
            "The rate is 20 times larger here; the filter helps in the first 100 steps only.",
        ),
        Row(
            "Figure 2d: overlap at the high rate with the filter",
            "sufficient",
            f"{_overlap(filtered):.0%}; without it {_overlap(high):.0%}",
            "As in 2b.",
        ),
        Row(
            "Figure 3: d/k",
            "0.6-0.8",
            f"{plain.hamming.min():.2f}-{plain.hamming.max():.2f}",
            "The upper end is late in the training.",
        ),
        Row(
            "Figure 6a: part of the communication, 64 workers, 100 TFLOPs",
            "56 % at 8 images, 20 % at 32",
            f"{share(8)}, {share(32)}",
            "Depends on the efficiency that is assumed.",
        ),
        Row(
            "Figure 6a: speed-up of ScaleCom at 8 and 32 images",
            "2× and 1.23× at 100 TFLOPs; 4.1× and 1.75× at 300",
            f"{speed_up(8, 100)}, {speed_up(32, 100)}; {speed_up(8, 300)}, {speed_up(32, 300)}",
            "As above.",
        ),
        Row(
            "Figure 6b: 128 workers, 8 images",
            "ScaleCom below 3 %",
            f"{scalecom[1] / sum(scalecom):.1%}",
            "As above.",
        ),
        Row(
            "Table 1: comparison of methods",
            "gTop-k, SketchSGD, PowerSGD and others by their properties",
            "table below",
            "Bytes and errors of a small training instead of properties; times: [model.md](model.md).",
        ),
        Row("Figures 1c, 4, 5, Tables 2, 3: training", "accuracy", "–", "Not on this page."),
    ]

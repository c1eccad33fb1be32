"""Rates of this machine: seconds of everything that a rank computes in a step, measured on a whole model.

    python -m benchmarks.scale.rates '{"model": "ResNet-50", "options": {…}, "budget": …}'

prints one line of JSON. Each time is the shortest of several calls on one thread, as that of a real run is
(``rank``), in the states of a running training: with residuals, and with memory that is kept. It is processor
time, which other programs affect less. Selection and residuals run in one pass, so they are one time. The
program is a process of its own, because its environment decides about threads and memory.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.scale.library import copy, limit_threads
from benchmarks.scale.models import MODELS, Subject
from benchmarks.scale.powersgd import PowerSGD
from benchmarks.scale.steps import STEPS, Trainee
from benchmarks.scale.systems import LOCAL, Options, Worker, build_exchange
from collectives.advise.measurement import Gradient, Owned, Pairs, Stages
from collectives.advise.powersgd import count_factor_bytes
from collectives.oktopk.costs import make_calls
from collectives.sums.pieces import PIECES
from wirecodec.interop import decode_sum

__all__ = ["Half", "Rates", "combine", "measure_model", "measure_rates", "read_rates"]

Array = Any
CONTAINERS = 4
"""Containers that are added up, so that the time of one is a difference without the fixed part."""
FIRST_CALLS, CALLS = 3, 9


@dataclass(frozen=True)
class Half:
    """Times of a gradient in float16.

    Attributes:
        cast: seconds to round the gradient, and to widen the mean.
        add: seconds to add one such vector to a sum in float32.
        finish: seconds to set the sum to zero, to divide and to round it.
    """

    cast: float
    add: float
    finish: float


@dataclass(frozen=True)
class Rates:
    """Times and sizes of a whole model.

    Attributes:
        gradient: sizes and times of dense vectors.
        half: of vectors in float16.
        factors: of PowerSGD.
        stages: of the scheme, with its pairs.
        leader: of CLT-k.
        owned: of Ok-Topk.
        local: of local updates, every so many steps.
    """

    gradient: Gradient
    half: Half
    factors: Stages
    stages: Stages
    leader: Stages
    owned: Stages
    local: Stages


def measure_model(name: str, options: Options, *, budget: float = 1.0) -> Rates:
    """Measure all rates of a model, or of one in training.

    Args:
        name: of ``MODELS``, or of ``STEPS``.
        options: of the systems.
        budget: approximate seconds per call.
    """
    if name in STEPS:
        trainees = Trainee(name, 0), Trainee(name, 1)
        shapes = tuple(trainees[0].shapes.values())
        return measure_rates(Subject(name, shapes, shapes), trainees, options, budget=budget)
    subject = MODELS[name]
    workers = Worker(subject.measured, 0), Worker(subject.measured, 1)
    return measure_rates(subject, workers, options, budget=budget)


def measure_rates(
    subject: Subject, workers: tuple[Worker, Worker], options: Options, *, budget: float = 1.0
) -> Rates:
    """Measure all rates, and scale them from the measured part to the whole model.

    Args:
        subject: the model.
        workers: with gradients of two ranks.
        options: of the systems.
        budget: approximate seconds per call.
    """
    worker = workers[0]
    gradient = _measure_dense(worker, budget)
    stages, owned, move = _measure_scheme(worker, options, budget)
    leader = _measure_leader(workers, options, gradient.finish)
    half = _measure_half(worker, budget)
    seconds = _measure_factors(worker, options, budget)
    factor = subject.scale
    assert stages.pairs is not None
    scaled = stages.scaled(factor)
    return Rates(
        dataclasses.replace(gradient, move=move).scaled(factor),
        Half(factor * half.cast, factor * half.add, factor * half.finish),
        Stages(count_factor_bytes(subject.shapes, options.rank), encode=factor * seconds, factored=True),
        scaled,
        leader.scaled(factor),
        dataclasses.replace(scaled, pairs=None, owned=owned.scaled(factor)),
        dataclasses.replace(scaled, every=options.every),
    )


def read_rates(text: str) -> Rates:
    """Read the rates that the program prints."""
    found = json.loads(text)
    stages = {name: _read_stages(found[name]) for name in ("factors", "stages", "leader", "owned", "local")}
    return Rates(
        **(found | stages | {"gradient": Gradient(**found["gradient"]), "half": Half(**found["half"])})
    )


def _read_stages(found: dict[str, Any]) -> Stages:
    pairs, owned = found["pairs"], found["owned"]
    parts = {"pairs": pairs and Pairs(**pairs), "owned": owned and Owned(**owned)}
    return Stages(**(found | parts))


def combine(rates: Sequence[Rates], choose: Callable[[Sequence[float]], float]) -> Rates:
    """Combine several measurements of a model.

    Args:
        rates: the measurements, with equal sizes.
        choose: computes a time from the measured ones, such as ``min``.
    """

    def fold(values: Sequence[Any]) -> Any:
        if isinstance(values[0], dict):
            return {name: fold([each[name] for each in values]) for name in values[0]}
        return choose(values) if isinstance(values[0], float) else values[0]

    return read_rates(json.dumps(fold([dataclasses.asdict(each) for each in rates])))


def _measure_dense(worker: Worker, budget: float) -> Gradient:
    x, total = worker.flat, worker.out_flat

    def finish() -> None:
        total.fill(0)
        np.divide(total, np.float32(3), out=total)

    add, end = _measure([lambda: np.add(total, x, out=total), finish], budget)
    return Gradient(x.nbytes, add, end)


def _measure_half(worker: Worker, budget: float) -> Half:
    half, total = np.empty(worker.flat.size, np.float16), worker.out_flat

    def cast() -> None:
        copy(half, worker.flat)
        copy(total, half)

    def add() -> None:
        np.add(total, half, out=total)

    def finish() -> None:
        total.fill(0)
        np.divide(total, np.float32(3), out=total)
        half[:] = total

    return Half(*_measure([cast, add, finish], budget))


def _measure_factors(worker: Worker, options: Options, budget: float) -> float:
    """Measure the arithmetic of PowerSGD: a step whose sums are those of one rank."""
    power = PowerSGD(worker.shapes, options.rank)
    return _measure([lambda: power.step(worker.tensors, lambda vector: vector, worker.out)], budget)[0]


def _measure_scheme(worker: Worker, options: Options, budget: float) -> tuple[Stages, Owned, float]:
    """Measure whole exchanges of one simulated rank, and the parts that are repeated per rank or element.

    Returns:
        The stages: ``encode`` is everything that an exchange by all-gather computes, without the parts that
        the model adds. What Ok-Topk computes, with the selection. And the seconds that an exchange of local
        updates computes beyond an all-gather.
    """
    blobs = _encode_for_ranks(worker, options.scheme)
    schema = {name: (x.shape, x.dtype) for name, x in worker.tensors.items()}
    sums = {name: x.reshape(-1) for name, x in worker.out.items()}
    sent = wc.decode_many(blobs[0], schema=schema)
    pairs = wc.encode_many(sent, PIECES, names=False)
    _, piece, piece_bytes = make_calls(sent, wc.Scheme.parse(options.scheme))
    one, several, encode_pairs, add_pairs, of_piece = _measure(
        [
            lambda: decode_sum(blobs[:1], sums, schema=schema),
            lambda: decode_sum(blobs, sums, schema=schema),
            lambda: wc.encode_many(sent, PIECES, names=False),
            lambda: wc.decode_add(pairs, sums, schema=schema),
            piece,
        ],
        budget,
    )
    decode = (several - one) / (CONTAINERS - 1)
    gathered, split, owned, local = _measure_exchanges(
        worker, options, ("allgather", "split", "Ok-Topk", LOCAL)
    )
    scan = max(0.0, split - gathered + decode - 2 * (encode_pairs + add_pairs))
    stored = sum(tensor.nnz for tensor in sent.values())
    found = Pairs(worker.flat.size, stored, pairs.nbytes, encode_pairs, add_pairs, scan)
    once = max(0.0, gathered - one)  # one rank fills the sums with zeros, and does not divide them
    owners = Owned(stored, max(0.0, owned - of_piece), of_piece, piece_bytes)
    return Stages(blobs[0].nbytes, 0.0, once, decode, pairs=found), owners, max(0.0, local - gathered)


def _encode_for_ranks(worker: Worker, scheme: str) -> list[Array]:
    """Encode the gradients of several ranks: one gradient, rotated."""
    blobs = []
    for rank in range(CONTAINERS):
        turned, start = {}, 0
        flat = np.roll(worker.flat, 999_983 * rank)
        for name, x in worker.tensors.items():
            turned[name] = flat[start : start + x.size].reshape(x.shape)
            start += x.size
        blobs.append(wc.encode_many(turned, scheme, seed=rank, names=False))
    return blobs


def _measure_exchanges(worker: Worker, options: Options, names: Sequence[str]) -> list[float]:
    """Measure the exchanges of systems by one simulated rank, after the first ones, which allocate memory."""

    def run(comm: Any) -> list[float]:
        shortest = []
        for name in names:
            call, _ = build_exchange(name, worker, co.Channel(comm), options)
            times = [_time_thread(call) for _ in range(FIRST_CALLS + CALLS)]
            shortest.append(min(times[FIRST_CALLS:]))
        return shortest

    return co.simulate(1, run)[0]


def _time_thread(call: Callable[[], Any]) -> float:
    before = time.thread_time()
    call()
    return time.thread_time() - before


def _measure_leader(workers: tuple[Worker, Worker], options: Options, finish: float) -> Stages:
    """Measure CLT-k on two simulated ranks, which lead in turn; each one is a thread with its own time."""

    def run(comm: Any) -> tuple[float, float, int, int]:
        mine = workers[comm.rank]
        call, _ = build_exchange("CLT-k", mine, co.Channel(comm), options)
        times = [_time_thread(call) for _ in range(2 * (FIRST_CALLS + CALLS))]
        support = {}
        for name, x in mine.out.items():
            found = np.flatnonzero(x)
            support[name] = wc.SparseTensor(found, np.ones(found.size, np.float32), (x.size,))
        indices = wc.encode_many(support, "all | auto-index | mean", names=False).nbytes
        values = 4 * sum(each.nnz for each in support.values())
        leading, following = times[comm.rank :: 2][FIRST_CALLS:], times[1 - comm.rank :: 2][FIRST_CALLS:]
        return min(leading), min(following), indices, values

    leader, follower, indices, values = co.simulate(2, run)[0]
    return Stages(
        indices + values,
        max(0.0, leader - follower),
        0.0,
        max(0.0, follower - finish),
        index_bytes=indices,
    )


def _measure(calls: Sequence[Callable[[], Any]], budget: float) -> list[float]:
    """Measure the shortest time of each call, in turns, after one untimed call."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    stop = time.perf_counter() + budget * len(calls)
    while len(times[0]) < CALLS or time.perf_counter() < stop:
        for call, found in zip(calls, times, strict=True):
            found.append(_time_thread(call))
    return [min(found) for found in times]


def main() -> None:
    """Measure with the settings of the JSON argument, and print the rates."""
    import numba

    given = json.loads(sys.argv[1])
    numba.set_num_threads(1)
    limit_threads()
    rates = measure_model(given["model"], Options(**given["options"]), budget=given["budget"])
    print(json.dumps(dataclasses.asdict(rates)))


if __name__ == "__main__":
    main()

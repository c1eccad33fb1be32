"""Program of each rank of a real run: measures the exchange of each system, and the network before each.

    mpirun … python -m benchmarks.scale.rank '{"model": "ResNet-50", "options": {…}, "systems": […], …}'

Rank 0 prints lines of JSON. A time is that of the slowest rank, and the shortest of several turns, like the
rates of the machine. Training steps take turns with steps without exchange. The network's times are medians,
because a sum takes many messages.
"""

from __future__ import annotations

import gc
import json
import os
import time
from collections.abc import Mapping
from statistics import median
from typing import Any

import collectives as co
from benchmarks.collectives.rank import time_call
from benchmarks.common.rank import run_rank
from benchmarks.scale.library import limit_threads
from benchmarks.scale.models import MODELS
from benchmarks.scale.steps import COMPUTING, STEPS, Trainee, build_step
from benchmarks.scale.systems import Options, Worker, build_exchange
from collectives.tuning.calibration import pass_right

__all__ = ["main", "measure_network", "run"]

SHORT, SHORT_TURNS = 16, 5
"""Short messages per turn, and turns."""
BLOCK, BLOCK_TURNS = 2**23, 5
"""Bytes of a long message, and turns."""
FIRST_CALLS = 2
TURNS, LONGEST = 6, 5
"""Turns of a system, and the budgets after which there may be fewer."""


def main() -> int:
    """Measure the plan in the argument, on one thread."""
    limit_threads()
    return run_rank(run)


def _take_core(rank: int) -> None:
    """Stay on one core, so that each core has as many ranks as the model computes with."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[rank % len(cores)]})


def run(comm: Any, plan: Mapping[str, Any]) -> None:
    """Measure all systems, and the network before each.

    Args:
        comm: communicator of all ranks.
        plan: ``model``, of ``MODELS`` for exchanges or of ``STEPS`` for training steps; ``options``,
            ``systems``, and ``budget``: seconds per system.
    """
    _take_core(comm.rank)
    model, options = plan["model"], Options(**plan["options"])
    worker = Trainee(model, comm.rank) if model in STEPS else Worker(MODELS[model].measured, comm.rank)
    for name in plan["systems"]:
        latency, per_byte = measure_network(comm)
        channel = co.Channel(comm.Dup(), timeout=300)
        alone = None
        if isinstance(worker, Trainee):
            call, steps = build_step(name, worker, comm, channel, options), 1
            alone = build_step(COMPUTING, worker, comm, channel, options)
        else:
            call, steps = build_exchange(name, worker, channel, options)
        for _ in range(FIRST_CALLS):  # load kernels, and allocate residuals and buckets
            call()
        times: list[float] = []
        computing: list[float] = [] if alone else [0.0]
        begin, spent = time.perf_counter(), 0.0
        while spent < plan["budget"] or (len(times) < TURNS and spent < LONGEST * plan["budget"]):
            if alone:
                computing.append(time_call(comm, alone)[0])
            times.append(time_call(comm, call)[0] / steps)
            spent = comm.bcast(time.perf_counter() - begin)
        found = {"seconds": min(times), "computing": min(computing)}
        _print_record(comm, name=name, **found, latency=latency, bandwidth=1 / per_byte)
        del call
        gc.collect()


def measure_network(comm: Any) -> tuple[float, float]:
    """Measure the seconds per message and per byte, while all ranks send to their right neighbours."""
    channel = co.Channel(comm.Dup(), timeout=300)
    pass_right(channel, BLOCK)
    short = median(_time_messages(comm, channel, 1, SHORT) for _ in range(SHORT_TURNS))
    long = median(_time_messages(comm, channel, BLOCK, 1) for _ in range(BLOCK_TURNS))
    return short, max(long - short, long / 2) / BLOCK


def _time_messages(comm: Any, channel: co.Channel, nbytes: int, count: int) -> float:
    def call() -> None:
        for _ in range(count):
            pass_right(channel, nbytes)

    return time_call(comm, call)[0] / count


def _print_record(comm: Any, **fields: Any) -> None:
    if comm.rank == 0:
        print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

"""Program of each rank of a real run: measures the exchange of each system, and the network before each.

    mpirun … python -m benchmarks.scale.rank '{"model": "ResNet-50", "options": {…}, "systems": […], …}'

Rank 0 prints lines of JSON. A time is that of the slowest rank, and the shortest of several turns, like the
rates of the machine.
"""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Mapping
from typing import Any

import collectives as co
from benchmarks.collectives.rank import time_call
from benchmarks.common.rank import run_rank
from benchmarks.scale.library import limit_threads
from benchmarks.scale.models import MODELS
from benchmarks.scale.systems import Options, Worker, build_exchange
from collectives.tuning.calibration import pass_right

__all__ = ["main", "measure_network", "run"]

SHORT, SHORT_TURNS = 16, 5
"""Short messages per turn, and turns."""
BLOCK, BLOCK_TURNS = 2**23, 3
"""Bytes of a long message, and turns."""
TURNS, LONGEST = 6, 5
"""Turns of a system, and the budgets after which there may be fewer."""


def main() -> int:
    """Measure the plan in the argument, on one thread."""
    limit_threads()
    return run_rank(run)


def run(comm: Any, plan: Mapping[str, Any]) -> None:
    """Measure all systems, and the network before each.

    Args:
        comm: communicator of all ranks.
        plan: ``model``, ``options``, ``systems``, and ``budget``: seconds per system.
    """
    worker = Worker(MODELS[plan["model"]].measured, seed=comm.rank)
    options = Options(**plan["options"])
    for name in plan["systems"]:
        latency, per_byte = measure_network(comm)
        channel = co.Channel(comm.Dup(), timeout=300)
        call, steps = build_exchange(name, worker, channel, options)
        call()  # loads kernels, and allocates residuals
        times: list[float] = []
        begin, spent = time.perf_counter(), 0.0
        while spent < plan["budget"] or (len(times) < TURNS and spent < LONGEST * plan["budget"]):
            times.append(time_call(comm, call)[0] / steps)
            spent = comm.bcast(time.perf_counter() - begin)
        _print_record(comm, name=name, seconds=min(times), latency=latency, bandwidth=1 / per_byte)
        del call
        gc.collect()


def measure_network(comm: Any) -> tuple[float, float]:
    """Measure the seconds per message and per byte, while all ranks send to their right neighbours."""
    channel = co.Channel(comm.Dup(), timeout=300)
    pass_right(channel, BLOCK)
    short = min(_time_messages(comm, channel, 1, SHORT) for _ in range(SHORT_TURNS))
    long = min(_time_messages(comm, channel, BLOCK, 1) for _ in range(BLOCK_TURNS))
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

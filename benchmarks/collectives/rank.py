"""Program of each rank: measures times and link bytes of collectives; rank 0 prints them as lines of JSON.

    mpirun … python -m benchmarks.collectives.rank '{"cases": […], "seconds": …, "min_turns": …, …}'

A time is that of the slowest rank. Methods to compare are measured in turns, so that disturbances affect all
of them. The order of each turn is random, because the previous method affects caches and memory.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mpi4py import MPI

from benchmarks.collectives.cases import Case
from benchmarks.collectives.methods import build_exchanges, build_whole_calls
from benchmarks.common.rank import run_rank

__all__ = ["main"]

_COUNTERS = Path("/sys/class/net/eth0/statistics")
_START_DELAY = 2e-3  # seconds for all ranks to receive the start time
_PORT = 47000
_BLOCK = 1 << 18


def main() -> int:
    """Measure the plan in the argument."""
    return run_rank(run)


def run(comm: Any, plan: Mapping[str, Any]) -> None:
    """Measure all cases of one rate and rank count, with the goodput before and after each.

    Args:
        comm: communicator of all ranks.
        plan: ``Job.plan``. ``seconds`` is the duration of a goodput measurement. Each method is measured in
            ``min_turns`` turns of its kind at least and in ``max_turns`` at most, and no further turn starts
            after ``budget`` seconds.
    """
    for given in plan["cases"]:
        case = Case(**given["case"])
        before = measure_goodput(comm, plan["seconds"])
        for kind, make in (("exchange", build_exchanges), ("whole", build_whole_calls)):
            if kind in given["kinds"]:
                _measure(comm, kind, case, make(comm, case, dense=kind in given["dense"]), plan)
        after = measure_goodput(comm, plan["seconds"])
        _print_record(
            comm,
            kind="goodput",
            case=given["case"],
            alone=max(before[0], after[0]),
            together=max(before[1], after[1]),
        )


def _measure(comm: Any, kind: str, case: Case, methods: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    times: dict[str, list[float]] = {name: [] for name in methods}
    sent: dict[str, list[list[float]]] = {name: [] for name in methods}
    begin = time.perf_counter()
    turn = 0
    while True:
        for name, method in random.Random(turn).sample(list(methods.items()), len(methods)):
            seconds, nbytes = time_call(comm, method.call)
            if turn:
                times[name].append(seconds)
                sent[name].append(nbytes)
            _print_record(comm, kind="tick", name=name)
        turn += 1
        spent = comm.bcast(time.perf_counter() - begin)
        if turn > plan["min_turns"][kind] and (spent > plan["budget"] or turn > plan["max_turns"]):
            break
    for name, method in methods.items():
        gathered = comm.gather(method.nbytes)
        if comm.rank == 0 and times[name]:
            _print_record(
                comm,
                kind=kind,
                case=case.__dict__,
                name=name,
                times=times[name],
                link=[statistics.median(column) for column in zip(*sent[name], strict=True)],
                nbytes=max(gathered),
                note=method.note(),
            )


def time_call(comm: Any, call: Callable[[], Any]) -> tuple[float, list[float]]:
    """Return the seconds until the slowest rank returns, and the mean and maximum bytes on the links."""
    _synchronise(comm)
    before = _read_link_bytes()
    begin = time.perf_counter()
    call()
    seconds = time.perf_counter() - begin
    _synchronise(comm)
    nbytes = _read_link_bytes() - before
    gathered = comm.allgather((seconds, nbytes))
    return max(t for t, _ in gathered), [statistics.mean(b for _, b in gathered), max(b for _, b in gathered)]


def measure_goodput(comm: Any, seconds: float) -> tuple[float, float]:
    """Measure plain TCP in bytes per second: on one link alone, and on all links at once around a ring."""
    rank, n = comm.rank, comm.size
    listener = socket.create_server(("", _PORT + rank))
    names = comm.allgather(socket.gethostname())
    right = (rank + 1) % n
    out = socket.create_connection((names[right], _PORT + right))
    into, _ = listener.accept()
    listener.close()
    with out, into:
        alone = _measure_stream(comm, out if rank == 0 else None, into if rank == 1 % n else None, seconds)
        together = _measure_stream(comm, out, into, seconds)
    return alone, together


def _measure_stream(
    comm: Any, out: socket.socket | None, into: socket.socket | None, seconds: float
) -> float:
    """Return the bytes per second at the slowest receiver, without the first 30 % of the time."""
    block = bytes(_BLOCK)
    comm.Barrier()
    end = time.perf_counter() + seconds

    def send() -> None:
        assert out is not None
        while time.perf_counter() < end:
            out.sendall(block)
        out.sendall(b"\1")

    sender = threading.Thread(target=send, daemon=True)
    if out is not None:
        sender.start()
    rate = float("inf")
    if into is not None:
        buffer = bytearray(4 * _BLOCK)
        settled = end - seconds * 0.7
        begin, counted = None, 0
        while True:
            received = into.recv_into(buffer)
            now = time.perf_counter()
            if begin is None and now >= settled:
                begin, counted = now, 0
            elif begin is not None and now <= end:
                counted += received
                rate = counted / (now - begin)
            if buffer[received - 1] == 1 or received == 0:
                break
    if out is not None:
        sender.join()
    return float(comm.allreduce(rate, MPI.MIN))


def _synchronise(comm: Any) -> None:
    """Synchronise the start of all ranks: they share one clock, and sleep until the agreed time."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(100e-6)
    start = comm.bcast(time.perf_counter() + _START_DELAY)
    time.sleep(max(0.0, start - time.perf_counter()))


def _read_link_bytes() -> int:
    try:
        return int((_COUNTERS / "tx_bytes").read_text())
    except OSError:
        return 0


def _print_record(comm: Any, **fields: Any) -> None:
    if comm.rank == 0:
        print(json.dumps(fields), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

"""What each rank runs: times of collectives, and bytes on its link; rank 0 prints them as lines of JSON.

    mpirun … python -m benchmarks.collectives.rank '{"cases": […], "seconds": …, "least": …, …}'

A time is that of the slowest rank. What is compared with each other takes turns, so that all of it sees the
same disturbances, and in another order each time: what went before leaves its traces in caches and memory.
"""

from __future__ import annotations

import json
import random
import socket
import statistics
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mpi4py import MPI

from benchmarks.collectives.methods import exchanges, whole_calls
from benchmarks.collectives.workload import Case

__all__ = ["main"]

_COUNTERS = Path("/sys/class/net/eth0/statistics")
_AGREED = 2e-3  # seconds in which all ranks hear of a time
_PORT = 47000
_BLOCK = 1 << 18


def main() -> int:
    """Measure what the argument says; an exception on one rank ends all."""
    try:
        run(MPI.COMM_WORLD, json.loads(sys.argv[1]))
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        MPI.COMM_WORLD.Abort(1)
    return 0


def run(comm: Any, plan: Mapping[str, Any]) -> None:
    """All cases of one rate and rank count; the goodput before and after each.

    Args:
        comm: of all ranks.
        plan: ``Job.plan``: its cases; ``seconds`` of a goodput; how often things are measured: ``least``, of
            each kind, and ``most`` turns, of which no more begins after ``budget`` seconds.
    """
    for given in plan["cases"]:
        case = Case(**given["case"])
        before = goodput(comm, plan["seconds"])
        for kind, make in (("exchange", exchanges), ("whole", whole_calls)):
            if kind in given["kinds"]:
                _measure(comm, kind, case, make(comm, case, dense=given["dense"]), plan)
        after = goodput(comm, plan["seconds"])
        _say(
            comm,
            kind="goodput",
            case=given["case"],
            alone=max(before[0], after[0]),
            together=max(before[1], after[1]),
        )


def _measure(comm: Any, kind: str, case: Case, subjects: Mapping[str, Any], plan: Mapping[str, Any]) -> None:
    times: dict[str, list[float]] = {name: [] for name in subjects}
    sent: dict[str, list[list[float]]] = {name: [] for name in subjects}
    begin = time.perf_counter()
    turn = 0
    while True:
        for name, subject in random.Random(turn).sample(list(subjects.items()), len(subjects)):
            taken, moved = timed(comm, subject.call)
            if turn:
                times[name].append(taken)
                sent[name].append(moved)
            _say(comm, kind="tick", name=name)
        turn += 1
        spent = comm.bcast(time.perf_counter() - begin)
        if turn > plan["least"][kind] and (spent > plan["budget"] or turn > plan["most"]):
            break
    for name, subject in subjects.items():
        every = comm.gather(subject.nbytes)
        if comm.rank == 0 and times[name]:
            _say(
                comm,
                kind=kind,
                case=case.__dict__,
                name=name,
                times=times[name],
                link=[statistics.median(column) for column in zip(*sent[name], strict=True)],
                nbytes=max(every),
                note=subject.note(),
            )


def timed(comm: Any, call: Callable[[], Any]) -> tuple[float, list[float]]:
    """Seconds until the slowest rank has returned, and bytes on the links (mean, most) of all ranks."""
    _meet(comm)
    before = _counted()
    begin = time.perf_counter()
    call()
    taken = time.perf_counter() - begin
    _meet(comm)
    moved = _counted() - before
    every = comm.allgather((taken, moved))
    return max(t for t, _ in every), [statistics.mean(b for _, b in every), max(b for _, b in every)]


def goodput(comm: Any, seconds: float) -> tuple[float, float]:
    """Bytes a second of plain TCP: of one link alone, and of all links at once, around a ring."""
    rank, n = comm.rank, comm.size
    listener = socket.create_server(("", _PORT + rank))
    names = comm.allgather(socket.gethostname())
    right = (rank + 1) % n
    out = socket.create_connection((names[right], _PORT + right))
    into, _ = listener.accept()
    listener.close()
    with out, into:
        alone = _stream(comm, out if rank == 0 else None, into if rank == 1 % n else None, seconds)
        together = _stream(comm, out, into, seconds)
    return alone, together


def _stream(comm: Any, out: socket.socket | None, into: socket.socket | None, seconds: float) -> float:
    """Bytes a second that arrive at the slowest receiver, but for the first 30 % of the time."""
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
        room = bytearray(4 * _BLOCK)
        settled = end - seconds * 0.7
        begin, counted = None, 0
        while True:
            got = into.recv_into(room)
            now = time.perf_counter()
            if begin is None and now >= settled:
                begin, counted = now, 0
            elif begin is not None and now <= end:
                counted += got
                rate = counted / (now - begin)
            if room[got - 1] == 1 or got == 0:
                break
    if out is not None:
        sender.join()
    return float(comm.allreduce(rate, MPI.MIN))


def _meet(comm: Any) -> None:
    """Let all ranks go on at the same moment: they share one clock, and are asleep until then."""
    request = comm.Ibarrier()
    while not request.Test():
        time.sleep(100e-6)
    start = comm.bcast(time.perf_counter() + _AGREED)
    time.sleep(max(0.0, start - time.perf_counter()))


def _counted() -> int:
    try:
        return int((_COUNTERS / "tx_bytes").read_text())
    except OSError:
        return 0


def _say(comm: Any, **words: Any) -> None:
    if comm.rank == 0:
        print(json.dumps(words), flush=True)


if __name__ == "__main__":
    raise SystemExit(main())

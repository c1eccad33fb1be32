"""What is measured, as calls that all ranks make together: communication alone, and whole calls.

Communication alone moves bytes that were prepared before; it is held against the byte limit. Whole calls
choose, encode, communicate, decode and sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.networking.cases import Case
from collectives.agreement import agree
from collectives.chain import broadcast
from collectives.header import Algorithm, Header, Operand, Operation
from collectives.pairwise import alltoall_ragged, exchange_counts
from collectives.ring import allgather_joined
from collectives.split import SECOND_PHASE
from collectives.sums import bounds_of, sum_dense
from wirecodec.arrays import as_bytes

__all__ = ["Subject", "exchanges", "whole_calls"]

_PAIR = np.dtype([("index", "<u4"), ("value", "<f4")])
ALGORITHMS = ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense")


@dataclass
class Subject:
    """One thing to measure.

    Attributes:
        call: what all ranks call.
        nbytes: that this rank has to send, at least.
        note: what there is to say afterwards.
    """

    call: Callable[[], Any]
    nbytes: float
    note: Callable[[], str] = lambda: ""


def exchanges(comm: Any, case: Case) -> dict[str, Subject]:
    """Communication alone."""
    n, rank, d = comm.size, comm.rank, case.elements
    share = (n - 1) / n
    where = case.support(rank)
    values = np.random.default_rng(rank).random(where.size, np.float32)
    k = where.size
    channel = co.Channel(comm.Dup(), timeout=120)
    subjects: dict[str, Subject] = {}

    # ---- dense ----
    dense = np.ones(d, np.float32)
    out = np.empty_like(dense)
    subjects["native dense"] = Subject(lambda: comm.Allreduce(dense, out), 2 * share * 4 * d)
    subjects["dense"] = Subject(lambda: sum_dense(channel, dense, 1), 2 * share * 4 * d)

    # ---- allgather ----
    pairs = np.empty(k, _PAIR)
    pairs["index"], pairs["value"] = where, values
    raw = pairs.view(np.uint8)
    sparse = wc.SparseTensor(where, values, (d,))
    blob = as_bytes(wc.encode(sparse, "nonzero | rice | raw"))

    def native_allgather() -> None:
        counts = np.empty(n, np.int64)
        comm.Allgather(np.array([raw.size], np.int64), counts)
        room = np.empty(int(counts.sum()), np.uint8)
        comm.Allgatherv([raw, MPI_BYTE()], [room, counts, None, MPI_BYTE()])

    def ours(block: Any) -> Subject:
        counts = comm.allgather(len(block))
        return Subject(lambda: allgather_joined(channel, block, counts), _passed(counts, rank))

    subjects["native allgather, pairs"] = Subject(native_allgather, _passed(comm.allgather(raw.size), rank))
    subjects["allgather, pairs"] = ours(raw)
    subjects["allgather"] = ours(blob)

    # ---- CLT-k: rank 0's choice, with every rank's values there ----
    chosen = case.support(0)
    mine = np.random.default_rng(rank).random(chosen.size, np.float32)
    total = np.empty_like(mine)
    indices = as_bytes(
        wc.encode(
            wc.SparseTensor(chosen, np.ones(chosen.size, np.float32), (d,)), "nonzero | auto-index | mean"
        )
    )

    def native_cltk() -> None:
        comm.Bcast(chosen, 0)
        comm.Allreduce(mine, total)

    def cltk(block: Any) -> Callable[[], None]:
        def call() -> None:
            broadcast(channel, block, len(block), 0)
            sum_dense(channel, mine, n)

        return call

    summed = 2 * share * 4 * chosen.size
    subjects["native CLT-k, raw"] = Subject(native_cltk, chosen.nbytes + summed)
    subjects["CLT-k, raw"] = Subject(cltk(chosen.view(np.uint8)), chosen.nbytes + summed)
    subjects["CLT-k"] = Subject(cltk(indices), len(indices) + summed)
    subjects["CLT-k: broadcast"] = Subject(lambda: broadcast(channel, indices, len(indices), 0), len(indices))
    subjects["CLT-k: sum"] = Subject(lambda: sum_dense(channel, mine, n), summed)

    # ---- split: pieces to their ranges' ranks, then the ranges' sums ----
    edges = bounds_of(d, n)
    cuts = np.searchsorted(where, edges)
    pieces = [
        as_bytes(
            wc.encode(
                wc.SparseTensor(where[a:b] - np.uint32(lo), values[a:b], (hi - lo,)), "nonzero | rice | raw"
            )
        )
        for a, b, lo, hi in zip(cuts, cuts[1:], edges, edges[1:], strict=False)
    ]
    union = np.zeros(edges[rank + 1] - edges[rank], np.float32)
    for other in range(n):
        support = case.support(other).astype(np.int64)
        support = support[(support >= edges[rank]) & (support < edges[rank + 1])]
        union[support - edges[rank]] = 1 + other
    for algorithm, scheme in SECOND_PHASE.items():
        sums = as_bytes(wc.encode(union, scheme))
        counts = comm.allgather(len(sums))

        def split(sums: Any = sums, counts: list[int] = counts) -> None:
            rows = exchange_counts(channel, [len(piece) for piece in pieces])
            alltoall_ragged(channel, pieces, [row[rank] for row in rows])
            allgather_joined(channel, sums, counts)

        nbytes = sum(map(len, pieces)) - len(pieces[rank]) + _passed(counts, rank)
        subjects[Algorithm(algorithm).name.lower().replace("_", "-")] = Subject(split, nbytes)

    # ---- what agreeing costs ----
    operand = Operand.of({"0": ((d,), "float32")}, bare=True, scheme="x")
    proposal = Header(operation=Operation.ALLGATHER, payload_len=len(blob))
    subjects["agreement"] = Subject(lambda: agree(channel, proposal, operand), 64 * (n - 1))
    return subjects


def whole_calls(comm: Any, case: Case) -> dict[str, Subject]:
    """Choose, encode, communicate, decode, sum."""
    x = case.gradient(comm.rank)
    scheme = f"topk({case.density}) | rice | raw"
    channel = co.Channel(comm.Dup(), timeout=120)
    out = np.empty_like(x)
    subjects = {
        "native dense": Subject(lambda: comm.Allreduce(x, out), 0),
        "select, encode": Subject(lambda: wc.encode(x, scheme), 0),
        "allgather": Subject(lambda: co.allgather(channel, x, scheme), 0),
    }
    for algorithm in ALGORITHMS:
        subjects[f"allreduce {algorithm}"] = Subject(
            lambda algorithm=algorithm: co.allreduce(channel, x, scheme, algorithm=algorithm), 0
        )
    picked: list[str] = []

    def auto() -> None:
        from collectives import allreduce as module

        before = module.choose

        def noted(*given: Any) -> Any:
            chosen = before(*given)
            picked.append(chosen.name.lower().replace("_", "-"))
            return chosen

        module.choose = noted
        try:
            co.allreduce(channel, x, scheme)
        finally:
            module.choose = before

    subjects["allreduce auto"] = Subject(auto, 0, lambda: picked[-1] if picked else "")
    cltk = co.CLTk(case.density)
    subjects["CLT-k"] = Subject(lambda: cltk.allreduce(channel, x), 0)
    return subjects


def _passed(counts: list[int], rank: int) -> int:
    return sum(counts) - counts[(rank + 1) % len(counts)]


def MPI_BYTE() -> Any:
    from mpi4py import MPI

    return MPI.BYTE

"""What is measured, as calls that all ranks make together: communication alone, and whole calls.

Communication alone moves bytes that were prepared before; it is held against the byte limit. Whole calls
choose, encode, communicate, decode and sum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

import collectives as co
import wirecodec as wc
from benchmarks.collectives.workload import Case
from collectives.agreement import agree
from collectives.chain import broadcast
from collectives.channel import ring_bytes
from collectives.choice import Workload, choose, union_by_chance
from collectives.header import Algorithm, Header, Operand, Operation
from collectives.pairwise import alltoall_ragged, exchange_counts
from collectives.ring import allgather_joined
from collectives.split import SECOND_PHASE
from collectives.sums import bounds_of, sum_dense
from wirecodec.arrays import as_bytes

__all__ = ["ALGORITHMS", "AUTO", "Subject", "exchanges", "whole_calls"]

_PAIR = np.dtype([("index", "<u4"), ("value", "<f4")])
ALGORITHMS = ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense")
AUTO = "auto"
_PAIRS = "nonzero | rice | raw"


@dataclass
class Subject:
    """One thing to measure.

    Attributes:
        call: what all ranks call.
        nbytes: that this rank has to send, at least; 0 where that is not the question.
        note: what there is to say afterwards.
    """

    call: Callable[[], Any]
    nbytes: float = 0
    note: Callable[[], str] = lambda: ""


def exchanges(comm: Any, case: Case, *, dense: bool = True) -> dict[str, Subject]:
    """Communication alone; ``dense`` says whether that of dense vectors is among it."""
    channel = co.Channel(comm.Dup(), timeout=120)
    where = case.support(comm.rank)
    values = np.random.default_rng(comm.rank).random(where.size, np.float32)
    sparse = wc.SparseTensor(where, values, (case.elements,))
    return {
        **(_dense(channel, case) if dense else {}),
        **_gathers(channel, sparse),
        **_cltk(channel, case),
        **_splits(channel, case, sparse),
        "agreement": _agreement(channel, case),
    }


def _dense(channel: co.Channel, case: Case) -> dict[str, Subject]:
    comm: Any = channel.comm
    x = np.ones(case.elements, np.float32)
    out = np.empty_like(x)
    nbytes = 2 * (channel.size - 1) / channel.size * x.nbytes
    return {
        "native dense": Subject(lambda: comm.Allreduce(x, out), nbytes),
        "dense": Subject(lambda: sum_dense(channel, x, 1, out), nbytes),
    }


def _gathers(channel: co.Channel, sparse: wc.SparseTensor) -> dict[str, Subject]:
    """Of raw pairs, as MPI has it and as the ring has it, and of encodings."""
    from mpi4py import MPI

    comm: Any = channel.comm
    pairs = np.empty(sparse.values.size, _PAIR)
    pairs["index"], pairs["value"] = sparse.indices, sparse.values
    raw = pairs.view(np.uint8)

    def native() -> None:
        counts = np.empty(channel.size, np.int64)
        comm.Allgather(np.array([raw.size], np.int64), counts)
        room = np.empty(int(counts.sum()), np.uint8)
        comm.Allgatherv([raw, MPI.BYTE], [room, counts, None, MPI.BYTE])

    def ring(block: Any) -> Subject:
        counts = comm.allgather(len(block))
        return Subject(lambda: allgather_joined(channel, block, counts), ring_bytes(counts, channel.rank))

    found = {"allgather, pairs": ring(raw), "allgather": ring(as_bytes(wc.encode(sparse, _PAIRS)))}
    return {"native allgather, pairs": Subject(native, found["allgather, pairs"].nbytes), **found}


def _cltk(channel: co.Channel, case: Case) -> dict[str, Subject]:
    """Rank 0's choice for all ranks, then the sum of every rank's values there."""
    comm: Any = channel.comm
    chosen = case.support(0)
    mine = np.random.default_rng(channel.rank).random(chosen.size, np.float32)
    total = np.empty_like(mine)
    ones = np.ones(chosen.size, np.float32)
    indices = as_bytes(
        wc.encode(wc.SparseTensor(chosen, ones, (case.elements,)), "nonzero | auto-index | mean")
    )
    summed = 2 * (channel.size - 1) / channel.size * mine.nbytes

    def native() -> None:
        comm.Bcast(chosen, 0)
        comm.Allreduce(mine, total)

    def ours(block: Any) -> Subject:
        def call() -> None:
            broadcast(channel, block, len(block), 0)
            sum_dense(channel, mine, channel.size)

        return Subject(call, len(block) + summed)

    return {
        "native CLT-k, raw": Subject(native, chosen.nbytes + summed),
        "CLT-k, raw": ours(chosen.view(np.uint8)),
        "CLT-k": ours(indices),
    }


def _splits(channel: co.Channel, case: Case, sparse: wc.SparseTensor) -> dict[str, Subject]:
    """Pieces to their ranges' ranks, then the ranges' sums, in each of the forms these can have."""
    comm: Any = channel.comm
    n, rank = channel.size, channel.rank
    edges = bounds_of(case.elements, n)
    cuts = np.searchsorted(sparse.indices, edges)
    pieces = []
    for (first, last), (low, high) in zip(pairwise(cuts), pairwise(edges), strict=True):
        indices = sparse.indices[first:last] - sparse.indices.dtype.type(low)
        piece = wc.SparseTensor(indices, sparse.values[first:last], (high - low,))
        pieces.append(as_bytes(wc.encode(piece, _PAIRS)))
    union = np.zeros(edges[rank + 1] - edges[rank], np.float32)
    for other in range(n):
        support = case.support(other).astype(np.int64) - edges[rank]
        union[support[(support >= 0) & (support < union.size)]] = 1 + other
    scattered = sum(map(len, pieces)) - len(pieces[rank])

    def of(scheme: str) -> Subject:
        sums = as_bytes(wc.encode(union, scheme))
        counts = comm.allgather(len(sums))

        def call() -> None:
            rows = exchange_counts(channel, [len(piece) for piece in pieces])
            alltoall_ragged(channel, pieces, [row[rank] for row in rows])
            allgather_joined(channel, sums, counts)

        return Subject(call, scattered + ring_bytes(counts, rank))

    return {_name(algorithm): of(scheme) for algorithm, scheme in SECOND_PHASE.items()}


def _agreement(channel: co.Channel, case: Case) -> Subject:
    operand = Operand.of({"0": ((case.elements,), "float32")}, bare=True, scheme=_PAIRS)
    return Subject(lambda: agree(channel, Header(operation=Operation.ALLGATHER), operand))


def whole_calls(comm: Any, case: Case, *, dense: bool = True) -> dict[str, Subject]:
    """Choose, encode, communicate, decode, sum; ``dense`` says whether MPI's own all-reduce is beside it."""
    x = case.gradient(comm.rank)
    scheme = f"topk({case.density}) | rice | raw"
    channel = co.Channel(comm.Dup(), timeout=120)
    out = np.empty_like(x)
    cltk = co.CLTk(case.density)
    subjects = {"native dense": Subject(lambda: comm.Allreduce(x, out))} if dense else {}
    subjects |= {
        "select, encode": Subject(lambda: wc.encode(x, scheme)),
        "allgather": Subject(lambda: co.allgather(channel, x, scheme)),
        "CLT-k": Subject(lambda: cltk.allreduce(channel, x)),
    }
    for algorithm in (*ALGORITHMS, AUTO):
        subjects[f"allreduce {algorithm}"] = Subject(
            partial(co.allreduce, channel, x, scheme, algorithm=algorithm)
        )
    blobs = tuple(comm.allgather(wc.encode(x, scheme).nbytes))

    def chosen() -> str:
        """By the same rule, from the same numbers."""
        signature = Operand.of({"0": (x.shape, "float32")}, bare=True, scheme=scheme).signature
        stored = (case.kept,) * comm.size
        union = channel.union_of(signature) or union_by_chance(x.size, stored)
        return _name(choose(channel, Workload(comm.size, x.size, x.nbytes, blobs, stored, union)))

    subjects[f"allreduce {AUTO}"].note = chosen
    return subjects


def _name(algorithm: Algorithm) -> str:
    return algorithm.name.lower().replace("_", "-")

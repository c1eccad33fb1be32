"""Methods to measure, as calls that all ranks make together: exchanges and whole calls.

An exchange moves prepared bytes and is compared with the byte limit. A whole call selects, encodes,
communicates, decodes and sums.
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
from benchmarks.collectives.cases import Case
from collectives.agreement.agree import agree
from collectives.agreement.header import Algorithm, Header, Operand, Operation
from collectives.communicator import count_ring_bytes
from collectives.cost_model import Workload
from collectives.sums.split import SPLITS
from collectives.transport.allgather import allgather_concatenated
from collectives.transport.alltoall import alltoall_ragged, exchange_counts
from collectives.transport.broadcast import broadcast
from collectives.transport.reduce import compute_bounds, sum_dense
from collectives.transport.weights import Weights
from collectives.tuning.choice import choose_algorithm

__all__ = ["ALGORITHMS", "AUTO", "Method", "build_exchanges", "build_whole_calls"]

_PAIR = np.dtype([("index", "<u4"), ("value", "<f4")])
ALGORITHMS = ("allgather", "dense", "split-pairs", "split-bitmap", "split-dense")
AUTO = "auto"
_PAIRS = "nonzero | rice | raw"


@dataclass
class Method:
    """One method.

    Attributes:
        call: the function that all ranks call.
        nbytes: smallest number of bytes that this rank must send, or 0 if not compared with the limit.
        note: returns a remark after the measurement.
    """

    call: Callable[[], Any]
    nbytes: float = 0
    note: Callable[[], str] = lambda: ""


def build_exchanges(comm: Any, case: Case, *, dense: bool = True) -> dict[str, Method]:
    """Build the exchanges; ``dense`` includes those of dense vectors."""
    channel = co.Channel(comm.Dup(), timeout=120)
    support = case.support(comm.rank)
    values = np.random.default_rng(comm.rank).random(support.size, np.float32)
    sparse = wc.SparseTensor(support, values, (case.elements,))
    return {
        **(_build_dense(channel, case) if dense else {}),
        **_build_allgathers(channel, sparse),
        **_build_cltk(channel, case),
        **_build_splits(channel, case, sparse),
        "agreement": _build_agreement(channel, case),
    }


def _build_dense(channel: co.Channel, case: Case) -> dict[str, Method]:
    comm: Any = channel.comm
    x = np.ones(case.elements, np.float32)
    out = np.empty_like(x)
    nbytes = 2 * (channel.size - 1) / channel.size * x.nbytes
    return {
        "native dense": Method(lambda: comm.Allreduce(x, out), nbytes),
        "dense": Method(lambda: sum_dense(channel, x, Weights(), out), nbytes),
    }


def _build_allgathers(channel: co.Channel, sparse: wc.SparseTensor) -> dict[str, Method]:
    """Build all-gathers of raw pairs, by MPI and by the ring, and of encodings."""
    from mpi4py import MPI

    comm: Any = channel.comm
    pairs = np.empty(sparse.values.size, _PAIR)
    pairs["index"], pairs["value"] = sparse.indices, sparse.values
    raw = pairs.view(np.uint8)

    def native() -> None:
        counts = np.empty(channel.size, np.int64)
        comm.Allgather(np.array([raw.size], np.int64), counts)
        buffer = np.empty(int(counts.sum()), np.uint8)
        comm.Allgatherv([raw, MPI.BYTE], [buffer, counts, None, MPI.BYTE])

    def ring(block: Any) -> Method:
        counts = comm.allgather(len(block))
        return Method(
            lambda: allgather_concatenated(channel, block, counts), count_ring_bytes(counts, channel.rank)
        )

    found = {"allgather, pairs": ring(raw), "allgather": ring(wc.encode(sparse, _PAIRS))}
    return {"native allgather, pairs": Method(native, found["allgather, pairs"].nbytes), **found}


def _build_cltk(channel: co.Channel, case: Case) -> dict[str, Method]:
    """Build CLT-k: broadcast rank 0's selection, then sum every rank's values at those indices."""
    comm: Any = channel.comm
    chosen = case.support(0)
    mine = np.random.default_rng(channel.rank).random(chosen.size, np.float32)
    total = np.empty_like(mine)
    ones = np.ones(chosen.size, np.float32)
    indices = wc.encode(wc.SparseTensor(chosen, ones, (case.elements,)), "nonzero | auto-index | mean")
    summed = 2 * (channel.size - 1) / channel.size * mine.nbytes

    def native() -> None:
        comm.Bcast(chosen, 0)
        comm.Allreduce(mine, total)

    def build(block: Any) -> Method:
        def call() -> None:
            broadcast(channel, block, len(block), 0)
            sum_dense(channel, mine, Weights(channel.size))

        return Method(call, len(block) + summed)

    return {
        "native CLT-k, raw": Method(native, chosen.nbytes + summed),
        "CLT-k, raw": build(chosen.view(np.uint8)),
        "CLT-k": build(indices),
    }


def _build_splits(channel: co.Channel, case: Case, sparse: wc.SparseTensor) -> dict[str, Method]:
    """Build the split all-reduce in each form of its second phase: pieces to ranks, then sums of ranges."""
    comm: Any = channel.comm
    n, rank = channel.size, channel.rank
    edges = compute_bounds(case.elements, n)
    cuts = np.searchsorted(sparse.indices, edges)
    pieces = []
    for (first, last), (low, high) in zip(pairwise(cuts), pairwise(edges), strict=True):
        indices = sparse.indices[first:last] - sparse.indices.dtype.type(low)
        piece = wc.SparseTensor(indices, sparse.values[first:last], (high - low,))
        pieces.append(wc.encode(piece, _PAIRS))
    union = np.zeros(edges[rank + 1] - edges[rank], np.float32)
    for other in range(n):
        support = case.support(other).astype(np.int64) - edges[rank]
        union[support[(support >= 0) & (support < union.size)]] = 1 + other
    scattered = sum(map(len, pieces)) - len(pieces[rank])

    def build(scheme: str) -> Method:
        sums = wc.encode(union, scheme)
        counts = comm.allgather(len(sums))

        def call() -> None:
            rows = exchange_counts(channel, [len(piece) for piece in pieces])
            alltoall_ragged(channel, pieces, [row[rank] for row in rows])
            allgather_concatenated(channel, sums, counts)

        return Method(call, scattered + count_ring_bytes(counts, rank))

    return {_format_algorithm(split.code): build(split.scheme) for split in SPLITS}


def _build_agreement(channel: co.Channel, case: Case) -> Method:
    operand = Operand.of({"0": ((case.elements,), "float32")}, bare=True, scheme=_PAIRS)
    return Method(lambda: agree(channel, Header(operation=Operation.ALLGATHER), operand))


def build_whole_calls(comm: Any, case: Case, *, dense: bool = True) -> dict[str, Method]:
    """Build the whole calls; ``dense`` includes MPI's own all-reduce."""
    x = case.gradient(comm.rank)
    scheme = f"topk({case.density}) | rice | raw"
    channel = co.Channel(comm.Dup(), timeout=120)
    out = np.empty_like(x)
    cltk, owners, merged = co.CLTk(case.density), co.OkTopK(case.density), co.GTopK(case.density)
    methods = {"native dense": Method(lambda: comm.Allreduce(x, out))} if dense else {}
    methods |= {
        "select, encode": Method(lambda: wc.encode(x, scheme)),
        "allgather": Method(lambda: co.allgather(channel, x, scheme)),
        "CLT-k": Method(lambda: cltk.allreduce(channel, x, out=out)),
        "Ok-Topk": Method(lambda: owners.allreduce(channel, x, out=out)),
        "gTop-k": Method(lambda: merged.allreduce(channel, x)),
    }
    for algorithm in (*ALGORITHMS, AUTO):
        methods[f"allreduce {algorithm}"] = Method(
            partial(co.allreduce, channel, x, scheme, algorithm=algorithm)
        )
    blobs = tuple(comm.allgather(wc.encode(x, scheme).nbytes))

    def repeat_choice() -> str:
        """Repeat the automatic choice from the same numbers."""
        signature = Operand.of({"0": (x.shape, "float32")}, bare=True, scheme=scheme).signature
        stored = (case.count,) * comm.size
        work = Workload.of(x.size, x.nbytes, blobs, stored, channel.get_union(signature))
        return _format_algorithm(choose_algorithm(channel, work))

    methods[f"allreduce {AUTO}"].note = repeat_choice
    return methods


def _format_algorithm(algorithm: Algorithm) -> str:
    return algorithm.name.lower().replace("_", "-")

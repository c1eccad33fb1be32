"""Sparse all-reduce: every rank gets the sum, or the mean, of what all ranks' encodings decode to.

Whatever the algorithm, each element is summed in rank order, from +0, so that all ranks hold the same
bits and a run can be repeated. MPI_Allreduce promises neither.
"""

from __future__ import annotations

from math import prod
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.exchange import ONLY, SchemeArgument, Shared, Tensors, exchanged, refusal
from collectives.header import Algorithm, Header, Operation, Reduction

__all__ = ["allreduce"]

Dense: TypeAlias = npt.NDArray[Any]

_ALGORITHMS = {"auto": Algorithm.AUTO, "allgather": Algorithm.ALLGATHER}
_REDUCTIONS = {"sum": Reduction.SUM, "mean": Reduction.MEAN}


def allreduce(
    comm: Communicator | Channel,
    tensor: Tensors,
    scheme: SchemeArgument = None,
    *,
    algorithm: str = "auto",
    op: Literal["mean", "sum"] = "mean",
    seed: int = 0,
) -> Dense | dict[str, Dense]:
    """The mean or the sum over the ranks of decode(encode(tensor)), dense.

    Args:
        comm, tensor, scheme, seed: as for allgather.
        algorithm: "auto", or "allgather": exchange the encodings whole, and sum them on every rank.
        op: "mean" divides the sum by the number of ranks.

    Returns an array of the tensor's shape and type, or {name: array}; the same bits on every rank.
    float16 and bfloat16 are summed (and divided) in float32 and rounded once.

    Raises ValueError for another algorithm or op, before any exchange; otherwise what allgather raises.
    """
    if algorithm not in _ALGORITHMS:
        raise ValueError(f"algorithm is {algorithm!r}; the choices are {', '.join(map(repr, _ALGORITHMS))}")
    if op not in _REDUCTIONS:
        raise ValueError(f"op is {op!r}; the choices are {', '.join(map(repr, _REDUCTIONS))}")
    proposal = Header(
        operation=Operation.ALLREDUCE, reduction=_REDUCTIONS[op], algorithm=_ALGORITHMS[algorithm]
    )
    with exchanged(comm, tensor, scheme, seed, proposal) as shared:
        sums = _sum(shared)
        dense = {
            name: _finish(sums[name], len(shared.blobs) if op == "mean" else 1, dtype).reshape(shape)
            for name, (shape, dtype) in shared.forms.items()
        }
        return dense[ONLY] if shared.bare else dense


def _sum(shared: Shared) -> dict[str, Dense]:
    """Flat sums by name, in rank order. Nothing is seen of them until the last blob proved valid."""
    sums = {name: np.zeros(prod(shape), _accumulator(dtype)) for name, (shape, dtype) in shared.forms.items()}
    for rank, blob in enumerate(shared.blobs):
        try:
            if shared.named:
                wc.decode_add(blob, sums, limits=shared.limits, schema=shared.forms)
            else:
                wc.decode_add(blob, sums[ONLY], limits=shared.limits, schema=shared.forms[ONLY])
        except wc.WireError as error:
            raise refusal(rank, error) from error
    return sums


def _accumulator(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype.itemsize >= 4 else np.dtype(np.float32)


def _finish(total: Dense, ranks: int, dtype: np.dtype[Any]) -> Dense:
    """Divide in the type of the sum, then round once."""
    if ranks > 1:
        np.divide(total, total.dtype.type(ranks), out=total)
    return total.astype(dtype, copy=False)

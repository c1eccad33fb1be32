"""Sparse all-reduce: every rank gets the sum, or the mean, of what all ranks' encodings decode to.

Whatever the algorithm, each element is summed in rank order, from +0, so that all ranks hold the same
bits and a run can be repeated. MPI_Allreduce promises neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Literal, TypeAlias, overload

import numpy as np
import numpy.typing as npt

import wirecodec as wc
from collectives.agreement import Failure
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.exchange import ONLY, SchemeArgument, Shared, Tensors, exchanged, refusal
from collectives.header import Algorithm, Header, Operation, Reduction, Status

__all__ = ["allreduce"]

Dense: TypeAlias = npt.NDArray[Any]

_ALGORITHMS = {"auto": Algorithm.AUTO, "allgather": Algorithm.ALLGATHER}
_REDUCTIONS = {"sum": Reduction.SUM, "mean": Reduction.MEAN}


@overload
def allreduce(
    comm: Communicator | Channel,
    tensor: Mapping[str, Any],
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
) -> dict[str, Dense]: ...


@overload
def allreduce(
    comm: Communicator | Channel,
    tensor: Any,
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
) -> Dense: ...


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

    Raises what allgather raises. Another algorithm or op, on one rank or on all, is a CollectiveError on all.
    """
    proposal = Header(operation=Operation.ALLREDUCE)
    failure = None
    try:
        proposal = proposal._replace(
            reduction=_choice("op", op, _REDUCTIONS), algorithm=_choice("algorithm", algorithm, _ALGORITHMS)
        )
    except Exception as error:  # for all ranks to hear of
        failure = Failure(Status.ARGUMENT, error)
    with exchanged(comm, tensor, scheme, seed, proposal, failure) as shared:
        sums = _sum(shared)
        dense = {
            name: _finish(sums[name], len(shared.blobs) if op == "mean" else 1, dtype).reshape(shape)
            for name, (shape, dtype) in shared.forms.items()
        }
        return dense[ONLY] if shared.bare else dense


def _choice(name: str, given: Any, known: Mapping[str, int]) -> int:
    """The code of an argument's value; ValueError where it is none.

    Args:
        name: of the argument, for the error.
        given: its value.
        known: {value: code}.
    """
    if not isinstance(given, str) or given not in known:
        raise ValueError(f"{name} is {given!r}; the choices are {', '.join(map(repr, known))}")
    return known[given]


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
    """Divide in the type of the sum, then round once.

    Args:
        total: overwritten.
        ranks: what to divide by.
        dtype: what to round to.
    """
    with np.errstate(all="ignore"):  # NaN, Inf and overflow pass as IEEE 754 has them
        if ranks > 1:
            np.divide(total, total.dtype.type(ranks), out=total)
        return total.astype(dtype, copy=False)

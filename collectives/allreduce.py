"""Sparse all-reduce: every rank gets the sum, or the mean, of what all ranks' encodings decode to.

Whatever the algorithm, each element is summed in rank order, from +0, so that all ranks hold the same
bits and a run can be repeated. MPI_Allreduce promises neither. The algorithms differ in what travels:

    allgather                    every rank's encoding, to every rank
    dense                        the decoded vectors: a reduce-scatter, then the sums
    split-pairs, -bitmap, -dense the decoded elements, to the rank that sums their range; then the sums, with
                                 coded indices, with a bitmap, or all of them
    auto                         whichever ``choice`` expects to take the least time
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Literal, overload

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import Algorithm, Header, Operation, Reduction, Status
from collectives.channel import Channel
from collectives.communicator import Communicator
from collectives.device import is_on_device, like
from collectives.exchange import ONLY, Encoding, SchemeArgument, Tensors, encoded, failed_decoding, refusal
from collectives.split import split
from collectives.transport.reduce import Dense, accumulator, finish, sum_named
from collectives.transport.segments import Octets
from collectives.tuning.cost_model import Workload, choose
from wirecodec.interop import gpu_count_nonzero, gpu_mean, gpu_zeros

__all__ = ["allreduce"]

_ALGORITHMS = {algorithm.name.lower().replace("_", "-"): algorithm for algorithm in Algorithm}
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
        algorithm: "auto", "allgather", "dense", "split-pairs", "split-bitmap" or "split-dense", the same on
            all ranks. It changes the bytes that travel and the time, never the result.
        op: "mean" divides the sum by the number of ranks.

    Returns an array of the tensor's shape and type, or {name: array}; the same bits on every rank.
    float16 and bfloat16 are summed (and divided) in float32 and rounded once. Where a tensor lies on a GPU,
    its result does, too. Where all lie on one GPU they are encoded there; under "allgather" they are decoded
    and added there as well, under the other algorithms on the host, from the bytes that left the GPU.

    Raises what allgather raises. Another algorithm or op, on one rank or on all, is a CollectiveError on all.
    Under "auto", the first exchange and every 64th also count the elements of the sum, by which all ranks
    choose the next algorithm. An error on one rank before it has counted closes its channel. The step is then
    taken.
    """
    proposal = Header(operation=Operation.ALLREDUCE)
    failure = None
    try:
        proposal = proposal._replace(
            reduction=_choice("op", op, _REDUCTIONS), algorithm=_choice("algorithm", algorithm, _ALGORITHMS)
        )
    except Exception as error:  # for all ranks to hear of
        failure = Failure(Status.ARGUMENT, error)
    with encoded(comm, tensor, scheme, seed, proposal, failure) as (channel, local):
        divisor = channel.size if op == "mean" else 1
        chosen = Algorithm(proposal.algorithm)
        if chosen == Algorithm.AUTO:
            chosen = choose(channel, Workload.of(channel, local.table, local.forms))
        learn = chosen != Algorithm(proposal.algorithm) and channel.due(local.operand.signature)
        channel.call.learning = learn
        if chosen == Algorithm.ALLGATHER:
            sums = _by_gathering(channel, local, divisor)
        elif chosen == Algorithm.DENSE:
            sums = _by_dense_sums(channel, local, divisor, proposal)
        else:
            sums = split(channel, local, divisor, proposal._replace(algorithm=chosen))
            learn = False  # the headers have said it already
        if learn:
            channel.remember_union(local.operand.signature, sum(map(_nonzeros, sums.values())))
            channel.call.learning = False
        dense = {name: sums[name].reshape(shape) for name, (shape, _) in local.forms.items()}
        found: Dense | dict[str, Dense] = like(tensor, dense[ONLY] if local.bare else dense)
        return found


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


def _nonzeros(vector: Any) -> int:
    """How many elements are not 0; of words on a GPU, but for their sign."""
    if not is_on_device(vector):
        return int(np.count_nonzero(vector))
    return gpu_count_nonzero(vector)


def _by_gathering(channel: Channel, local: Encoding, divisor: int) -> dict[str, Any]:
    """Flat sums by name, as words where the tensors lie on a GPU: there, that is.

    Nothing is seen of them until the last blob proved valid.
    """
    blobs = local.gather(channel)
    if local.place is None:
        sums = _added(local, blobs, np.zeros)
        return {name: finish(sums[name], divisor, dtype) for name, (_, dtype) in local.forms.items()}
    with local.place.current():
        sums = _added(local, blobs, gpu_zeros)
        return {name: gpu_mean(sums[name], divisor, dtype) for name, (_, dtype) in local.forms.items()}


def _added(
    local: Encoding, blobs: Sequence[Octets], zeros: Callable[[int, np.dtype[Any]], Any]
) -> dict[str, Any]:
    """What all ranks sent, added in rank order to flat ``zeros(size, dtype)``, by name."""
    limits = local.limits(blobs)
    sums = {name: zeros(prod(shape), accumulator(dtype)) for name, (shape, dtype) in local.forms.items()}
    for rank, blob in enumerate(blobs):
        try:
            if local.named:
                wc.decode_add(blob, sums, limits=limits, schema=local.forms)
            else:
                wc.decode_add(blob, sums[ONLY], limits=limits, schema=local.forms[ONLY])
        except wc.WireError as error:
            raise refusal(rank, error) from error
    return sums


def _by_dense_sums(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Dense]:
    """Flat sums by name; tensors of one type are summed as one vector.

    Args:
        channel: open; all ranks call this together.
        local: this rank's side, agreed on.
        divisor: 1, or the number of ranks.
        proposal: what was asked for. Where that was no algorithm in particular, no rank has yet tried to read
            what it encoded itself, and they tell each other.
    """
    flat: dict[str, Dense] = {}
    failure = None
    try:
        flat = {name: tensor.to_dense().reshape(-1) for name, tensor in local.sent().items()}
    except Exception as error:
        failure = failed_decoding(error, channel.rank)
    if Algorithm(proposal.algorithm) == Algorithm.AUTO:
        agree(channel, proposal, local.operand, failure)
    elif failure is not None:
        raise failure.error  # a rank that has no room for them leaves the others waiting
    return sum_named(channel, {name: flat[name] for name in sorted(flat, key=str.encode)}, divisor)

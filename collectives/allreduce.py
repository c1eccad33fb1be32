"""Sparse all-reduce: every rank gets the sum, or the mean, of all ranks' encoded tensors.

Every algorithm sums each element in rank order, from +0. So all ranks have the same bits, and runs are
reproducible. MPI_Allreduce guarantees neither. The algorithms differ in what they send:

    allgather                    every rank's container, to every rank
    dense                        the decoded vectors: a reduce-scatter, then the sums
    split-pairs, -bitmap, -dense the decoded elements, to the rank that sums their range; then the sums, with
                                 coded indices, with a bitmap, or all of them
    auto                         the fastest one by ``collectives.tuning.cost_model``
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, Literal, overload

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.compilation import rehearse_together, run_announced
from collectives.agreement.header import Algorithm, Header, Operation, Reduction, Status
from collectives.agreement.nonfinite import check_results, check_setting, fill_with_nan, is_propagated
from collectives.channel import ByteArray, Channel
from collectives.communicator import Communicator
from collectives.device import is_on_gpu, match_devices
from collectives.errors import CollectiveError
from collectives.exchange import (
    ONLY,
    Encoding,
    SchemeArgument,
    Tensors,
    error_of_container,
    failure_of_decoding,
    open_exchange,
)
from collectives.simulation.communicator import simulate
from collectives.split import SECOND_PHASE, split_allreduce
from collectives.transport.reduce import Dense, accumulator_dtype, divide_and_round, sum_named
from collectives.tuning.calibration import rehearse_calibration
from collectives.tuning.cost_model import Workload, choose_algorithm
from wirecodec.interop import gpu_count_nonzero, gpu_mean, gpu_zeros

__all__ = ["allreduce"]

_ALGORITHMS = {algorithm.name.lower().replace("_", "-"): algorithm for algorithm in Algorithm}
_REDUCTIONS = {"sum": Reduction.SUM, "mean": Reduction.MEAN}

MAX_DECODED = 16
"""Containers that are decoded before they are added; it bounds the memory for their values."""


@overload
def allreduce(
    comm: Communicator | Channel,
    tensor: Mapping[str, Any],
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
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
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
) -> Dense: ...


def allreduce(
    comm: Communicator | Channel,
    tensor: Tensors,
    scheme: SchemeArgument = None,
    *,
    algorithm: str = "auto",
    op: Literal["mean", "sum"] = "mean",
    seed: int = 0,
    nonfinite: Literal["raise", "propagate"] = "raise",
    hold_zeros: bool = False,
) -> Dense | dict[str, Dense]:
    """Average or sum tensors over the ranks, encoded by a scheme.

    Each element of the result is the sum in rank order of decode(encode(tensor)), from +0. float16 and
    bfloat16 are summed and divided in float32, and rounded once.

    Args:
        comm: a communicator or its Channel; all ranks call this together.
        tensor: an array of float32, float16, bfloat16 or float64, a SparseTensor, or {name: tensor}. Names,
            shapes and types must be the same on all ranks.
        scheme: a Scheme or its string, {glob: scheme} for named tensors, a Compressor, or None for lossless;
            the same on all ranks.
        algorithm: "auto", "allgather", "dense", "split-pairs", "split-bitmap" or "split-dense", the same on
            all ranks. It changes the traffic and the time, never the result.
        op: "sum", or "mean", which divides the sum by the number of ranks.
        seed: as for allgather.
        nonfinite: the effect of NaN or Inf in a rank's gradient, the same on all ranks. "raise" is an error
            if the scheme cannot carry it. With "propagate", all results of this call are NaN on every rank if
            any result would not be finite. A value that is too large for its codec also counts. The state of
            a Compressor is then unchanged, so a program that skips this step loses no gradient.
        hold_zeros: as for ``Compressor.prepare``, for a Compressor.

    Returns:
        A dense array of the tensor's shape and type, or {name: array}; the same bits on every rank. The
        result of a tensor on a GPU is on that GPU.

    Raises:
        CollectiveError: a rank cannot encode, ranks differ, an argument is invalid, or a rank's container
            cannot be decoded; the same on all ranks. The state of a Compressor is unchanged.
        Timeout: a rank does not take part.

    Other exceptions have the effects that allgather describes. With "auto", the first exchange and every 64th
    also count the nonzero elements of the sum, from which all ranks predict the next algorithm. An error on
    one rank during this count closes its channel, and the step is taken.

    Tensors that are all on one GPU are encoded there. "allgather" also decodes and adds them there; the other
    algorithms use the host.

    Source:
        Renggli et al., 2019, SparCML: sparse all-reduce by gathering or by splitting.

    Examples:
        >>> import numpy as np, collectives as co
        >>> grad = np.array([0, 3, 0, -5], np.float32)
        >>> co.simulate(2, lambda comm: co.allreduce(comm, grad * comm.rank, "topk(0.5) | rice | raw"))[0]
        array([ 0. ,  1.5,  0. , -2.5], dtype=float32)
    """
    proposal = Header(operation=Operation.ALLREDUCE)
    failure = None
    try:
        check_setting(nonfinite)
        proposal = proposal._replace(
            reduction=_parse("op", op, _REDUCTIONS), algorithm=_parse("algorithm", algorithm, _ALGORITHMS)
        )
    except Exception as error:  # reported to all ranks
        failure = Failure(Status.ARGUMENT, error)
    finite = nonfinite == "propagate"
    rehearsal = partial(_rehearse, proposal)
    try:
        with open_exchange(
            comm,
            tensor,
            scheme,
            seed,
            proposal,
            failure,
            hold_zeros=hold_zeros,
            finite=finite,
            rehearsal=rehearsal,
        ) as (channel, local):
            sums = _sum(channel, local, channel.size if op == "mean" else 1, proposal)
            if finite:
                check_results(sums, {name: dtype for name, (_, dtype) in local.specs.items()})
            dense = {name: sums[name].reshape(shape) for name, (shape, _) in local.specs.items()}
            result: Dense | dict[str, Dense] = match_devices(tensor, dense[ONLY] if local.bare else dense)
            return result
    except CollectiveError as error:
        if not is_propagated(error, nonfinite):
            raise
    nan: Dense | dict[str, Dense] = fill_with_nan(tensor)
    return nan


def _sum(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Any]:
    """Sum all ranks' tensors by the proposed algorithm.

    Args:
        channel: open; all ranks call this together.
        local: this rank's side, after the agreement.
        divisor: 1, or the number of ranks.
        proposal: the requested operation.

    Returns {name: (size,)}, divided by ``divisor``; on a GPU, raw bits.
    """
    choice = Algorithm(proposal.algorithm)
    if choice == Algorithm.AUTO:
        choice = choose_algorithm(channel, Workload.of(channel, local.table, local.specs))
    signature = local.operand.signature
    counts_union = choice != Algorithm(proposal.algorithm) and channel.is_union_due(signature)
    channel.call.update_pending = counts_union
    if choice == Algorithm.ALLGATHER:
        sums = _sum_gathered(channel, local, divisor)
    elif choice == Algorithm.DENSE:
        sums = _sum_dense(channel, local, divisor, proposal)
    else:
        chosen = proposal._replace(algorithm=choice)
        if choice != Algorithm(proposal.algorithm):
            work = partial(_rehearse, chosen, channel, local)
            rehearse_together(channel, (choice, local.dtypes), work, chosen, local.operand)
        sums = split_allreduce(channel, local, divisor, chosen)
        counts_union = False  # the headers of the second phase contain the count
    if counts_union:
        channel.remember_union(signature, sum(map(_count_nonzero, sums.values())))
        channel.call.update_pending = False
    return sums


def _parse(name: str, value: Any, codes: Mapping[str, int]) -> int:
    """Convert the value of an argument to its code; raise ValueError if there is none.

    Args:
        name: of the argument, for the error.
        value: of the argument.
        codes: {value: code}.
    """
    if not isinstance(value, str) or value not in codes:
        raise ValueError(f"{name} is {value!r}; the choices are {', '.join(map(repr, codes))}")
    return codes[value]


def _count_nonzero(vector: Any) -> int:
    """Count the nonzero elements of a vector, or of raw bits on a GPU; -0 counts as zero."""
    if not is_on_gpu(vector):
        return int(np.count_nonzero(vector))
    return gpu_count_nonzero(vector)


def _sum_gathered(channel: Channel, local: Encoding, divisor: int) -> dict[str, Any]:
    """Gather every rank's container and add them to flat sums, by name; on a GPU, sums are raw bits."""
    blobs = local.gather(channel)
    if local.gpu is None:
        sums = _add_blobs(local, blobs, np.zeros)
        return {
            name: divide_and_round(sums[name], divisor, dtype) for name, (_, dtype) in local.specs.items()
        }
    with local.gpu.current():
        sums = _add_blobs(local, blobs, gpu_zeros)
        return {name: gpu_mean(sums[name], divisor, dtype) for name, (_, dtype) in local.specs.items()}


def _add_blobs(
    local: Encoding, blobs: Sequence[ByteArray], zeros: Callable[[int, np.dtype[Any]], Any]
) -> dict[str, Any]:
    """Add all containers in rank order to flat ``zeros(size, dtype)``, by name."""
    limits = local.get_limits(blobs)
    sums = {
        name: zeros(prod(shape), accumulator_dtype(dtype)) for name, (shape, dtype) in local.specs.items()
    }
    for first in range(0, len(blobs), MAX_DECODED):
        some = blobs[first : first + MAX_DECODED]
        try:
            if local.named:
                wc.decode_add(some, sums, limits=limits, schema=local.specs)
            else:
                wc.decode_add(some, sums[ONLY], limits=limits, schema=local.specs[ONLY])
        except wc.WireError as error:
            rank, error.container = first + (error.container or 0), None
            raise error_of_container(rank, error) from error
    return sums


def _rehearse(proposal: Header, channel: Channel, local: Encoding) -> None:
    """Call the kernels that the call needs after its headers, with this rank's tensors only.

    Args:
        proposal: the operation, with the algorithm.
        channel: of the call.
        local: this rank's side, with its container.
    """
    algorithm = Algorithm(proposal.algorithm)
    if algorithm in (Algorithm.AUTO, Algorithm.ALLGATHER):
        _add_blobs(local, [local.blob], np.zeros)
    if algorithm == Algorithm.DENSE:
        for tensor in local.decode_own().values():
            tensor.to_dense()
    if algorithm == Algorithm.AUTO and channel.rates is None:
        rehearse_calibration()
    if algorithm in SECOND_PHASE:
        simulate(1, lambda alone: split_allreduce(Channel(alone), local, 1, proposal))


def _sum_dense(channel: Channel, local: Encoding, divisor: int, proposal: Header) -> dict[str, Dense]:
    """Decode this rank's container, and sum all ranks' dense vectors by name.

    Args:
        channel: open; all ranks call this together.
        local: this rank's side, after the agreement.
        divisor: 1, or the number of ranks.
        proposal: the requested operation. With "auto", no rank has tried to decode its own container before
            the agreement, so the ranks exchange the results here.
    """
    flat: dict[str, Dense] = {}

    def densify() -> Failure | None:
        try:
            flat.update({name: x.to_dense().reshape(-1) for name, x in local.decode_own().items()})
        except Exception as error:
            return failure_of_decoding(error, channel.rank)
        return None

    if Algorithm(proposal.algorithm) == Algorithm.AUTO:
        agree(
            channel,
            proposal,
            local.operand,
            run_announced(channel, densify, lambda: (proposal, local.operand)),
        )
    elif (failure := densify()) is not None:
        raise failure.error  # out of memory: the other ranks will time out
    return sum_named(channel, {name: flat[name] for name in sorted(flat, key=str.encode)}, divisor)

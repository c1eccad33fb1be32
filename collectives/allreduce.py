"""Sparse all-reduce: every rank gets the sum, or the mean, of all ranks' encoded tensors.

Every algorithm sums each element in rank order, from +0. So all ranks have the same bits, and runs are
reproducible. MPI_Allreduce guarantees neither. The algorithms differ in what they send:

    allgather                    every rank's container, to every rank
    dense                        the decoded vectors: a reduce-scatter, then the sums
    split-pairs, -bitmap, -dense the decoded elements, to the rank that sums their range; then the sums, with
                                 coded indices, with a bitmap, or all of them
    auto                         the fastest one by ``collectives.cost_model``
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, overload

import wirecodec as wc
from collectives.agreement.agree import Failure
from collectives.agreement.header import Algorithm, Header, Operation, Reduction, Status
from collectives.agreement.nonfinite import check_results, check_setting, is_propagated, make_nan
from collectives.algorithms import ALGORITHMS
from collectives.call import counted
from collectives.channel import Channel, find_ends
from collectives.communicator import Communicator
from collectives.device import stage_on_host
from collectives.errors import CollectiveError
from collectives.exchange.encoding import Encoding, Inputs, MakeInputs, SummingCompressor, get_text
from collectives.exchange.session import open_exchange
from collectives.exchange.specs import SchemeArgument, Tensors
from collectives.exchange.targets import fill_with_nan
from collectives.exchange.transaction import Pending, Transaction
from collectives.exchange.union import move_sums
from collectives.sites.exchange import reduce_over_sites
from collectives.sites.sites import Sites
from collectives.store.communicator import StoreComm
from collectives.store.sums import reduce as reduce_over_store
from collectives.transport.reduce import Dense
from collectives.transport.weights import check_weight, weigh
from collectives.tuning.choice import Way
from wirecodec.interop import TensorLike

_CODES = {code.name.lower().replace("_", "-"): code for code in Algorithm}
_REDUCTIONS = {"sum": Reduction.SUM, "mean": Reduction.MEAN}


@overload
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: Mapping[str, TensorLike],
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
    out: Mapping[str, Any] | None = ...,
    sparse: Literal[False] = ...,
    weight: float = ...,
    commit: Literal[True] = ...,
) -> dict[str, Dense]: ...


@overload
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: Mapping[str, TensorLike],
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
    sparse: Literal[True],
    weight: float = ...,
    commit: Literal[True] = ...,
) -> dict[str, wc.SparseTensor]: ...


@overload
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: TensorLike,
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
    out: Any = ...,
    sparse: Literal[False] = ...,
    weight: float = ...,
    commit: Literal[True] = ...,
) -> Dense: ...


@overload
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: TensorLike,
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
    sparse: Literal[True],
    weight: float = ...,
    commit: Literal[True] = ...,
) -> wc.SparseTensor: ...


@overload
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: TensorLike | Mapping[str, TensorLike],
    scheme: SchemeArgument = ...,
    *,
    algorithm: str = ...,
    op: Literal["mean", "sum"] = ...,
    seed: int = ...,
    nonfinite: Literal["raise", "propagate"] = ...,
    hold_zeros: bool = ...,
    out: Any = ...,
    sparse: bool = ...,
    weight: float = ...,
    commit: Literal[False],
) -> Pending[Any]: ...


@counted(lambda comm, *_, **__: find_ends(comm), replaces="comm")
def allreduce(
    comm: Communicator | Channel | Sites | StoreComm,
    tensor: Tensors,
    scheme: SchemeArgument = None,
    *,
    algorithm: str = "auto",
    op: Literal["mean", "sum"] = "mean",
    seed: int = 0,
    nonfinite: Literal["raise", "propagate"] = "raise",
    hold_zeros: bool = False,
    out: Any = None,
    sparse: bool = False,
    weight: float = 1.0,
    commit: bool = True,
) -> Any:
    """Average or sum tensors over the ranks, encoded by a scheme.

    Each element of the result is the sum in rank order of decode(encode(tensor)), from +0. float16 and
    bfloat16 are summed and divided in float32, and rounded once.

    Args:
        comm: a communicator, its Channel, Sites, or a StoreComm; all ranks call this together.
            Over a StoreComm, the sum is over the members in the order of their names, and ``nonfinite`` and
            ``commit`` have their defaults.
        tensor: an array of float32, float16, bfloat16 or float64, a SparseTensor, or {name: tensor}. Names,
            shapes and types must be the same on all ranks. Of a DTensor, this rank's shard.
        scheme: a Scheme or its string, a Compressor, or None for lossless; the same on all ranks. For named
            tensors also {key: scheme}; a key is a glob or a Rule, and the first match applies.
        algorithm: "auto", "allgather", "dense", "split-pairs", "split-bitmap" or "split-dense", the same on
            all ranks. It changes the traffic and the time, never the result. An OkTopK has its own.
        op: "sum", or "mean", which divides the sum by the number of ranks.
        seed: as for allgather.
        nonfinite: the effect of NaN or Inf in a rank's gradient, the same on all ranks. "raise" is an error
            if the scheme cannot carry it. With "propagate", all results of this call are NaN on every rank if
            any result would not be finite. A value that is too large for its codec also counts. The state of
            a Compressor is then unchanged, so a program that skips this step loses no gradient.
        hold_zeros: as for ``Compressor.prepare``, for a Compressor.
        out: memory for the results, an array or {name: array} with the shapes and types of the tensors. The
            arrays are writable and C-contiguous, share no memory with each other, and are on the devices of
            the tensors: NumPy arrays or torch tensors on the CPU, CuPy arrays or torch tensors on a GPU. They
            may be the gradients themselves. None for new arrays. Ranks may differ in this argument.
        sparse: True for SparseTensors over the union of the ranks' supports, the same on all ranks. The union
            has each element that at least one rank stores, even if the sum is 0. "dense" and "split-dense"
            lose the supports, so they are an error, and "auto" does not choose them.
        weight: of this rank, 0 or more: the mean is sum(weight * tensor) / sum(weight), the sum is
            sum(weight * tensor). A rank with weight 0 listens: its tensors are not read, it sends nothing of
            them, and its residuals do not change. Equal weights have the bits of a mean without weights.
        commit: False to leave the step of a Compressor open, the same on all ranks. The result is then a
            ``Pending``, with the means and with ``commit()`` and ``rollback()``.

    Returns:
        A dense array of the tensor's shape and type, or {name: array} in the order given; the same bits on
        every rank. The result of a tensor on a GPU is on that GPU. If ``out`` is given, its arrays are
        returned. With ``sparse``, a SparseTensor or {name: SparseTensor} whose ``to_dense`` has the bits of
        the dense result. It is summed on the host, and moved to the GPU if all tensors are there, except
        bfloat16.

    Raises:
        CollectiveError: a rank cannot encode, ranks differ, an argument is invalid, or a rank's container
            cannot be decoded; the same on all ranks. The state of a Compressor and ``out`` are unchanged.
        Timeout: a rank does not take part. The contents of ``out`` are undefined.

    Other exceptions have the effects that allgather describes; the contents of ``out`` are then undefined.
    With "auto", the first exchange and every 64th also count the nonzero elements of the sum, from which all
    ranks predict the next algorithm. An error on one rank during this count closes its channel, and the step
    is taken.

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
    inputs, transaction = Inputs(tensor, out), Transaction(holds=not commit)
    result = reduce_made(
        comm,
        lambda: inputs,
        scheme,
        algorithm=algorithm,
        op=op,
        seed=seed,
        nonfinite=nonfinite,
        hold_zeros=hold_zeros,
        sparse=sparse,
        weight=weight,
        transaction=transaction,
        has_out=out is not None,
    )
    return result if commit else Pending(result, transaction.held)


def reduce_made(
    comm: Communicator | Channel | Sites | StoreComm,
    make: MakeInputs,
    scheme: SchemeArgument,
    *,
    algorithm: str = "auto",
    op: str = "mean",
    seed: int = 0,
    nonfinite: str = "raise",
    hold_zeros: bool = False,
    sparse: bool = False,
    weight: float = 1.0,
    transaction: Transaction | None = None,
    has_out: bool = False,
) -> Any:
    """Average or sum inputs that are made inside the guard of the exchange; ``allreduce`` has the arguments.

    Args:
        make: makes the inputs; if it raises, all ranks raise CollectiveError.
        transaction: of a Compressor's step; None to commit the step. Without a StoreComm.
        has_out: whether the inputs have memory for the results.
    """
    inputs, transaction = Inputs({}), transaction or Transaction()

    def take() -> Inputs:
        nonlocal inputs
        inputs = make()
        _refuse_patches(inputs.tensors)
        return inputs

    if isinstance(comm, StoreComm):
        _check_for_store(algorithm, op, nonfinite, commit=not transaction.holds)
        if sparse:
            _check_sparse(_parse("algorithm", algorithm, _CODES), has_out=has_out)
        return reduce_over_store(
            comm,
            take,
            scheme,
            mean=op == "mean",
            seed=seed,
            weight=weight,
            hold_zeros=hold_zeros,
            sparse=sparse,
        )
    proposal = Header(operation=Operation.ALLREDUCE)
    failure = None
    try:
        check_setting(nonfinite)
        proposal = proposal._replace(
            reduction=_parse("op", op, _REDUCTIONS),
            algorithm=_parse("algorithm", algorithm, _CODES),
            weight=check_weight(weight),
        )
        if sparse:
            _check_sparse(proposal.algorithm, has_out=has_out)
            if isinstance(comm, Sites):
                raise ValueError("sparse=True has no meaning over Sites, where sums within a site are dense")
    except Exception as error:  # reported to all ranks
        failure = Failure(Status.ARGUMENT, error)
    if isinstance(scheme, SummingCompressor):
        proposal = proposal._replace(operation=scheme.operation, algorithm=Algorithm.AUTO)
    way = Way.of(scheme, proposal)
    finite = nonfinite == "propagate"
    sum_ = _Sum(scheme, proposal, way, failure, seed, op == "mean", hold_zeros, finite, sparse)
    try:
        if isinstance(comm, Sites):
            return reduce_over_sites(
                comm,
                take,
                sum_.exchange,
                lambda: get_text(scheme),
                transaction,
                reduction=Reduction(proposal.reduction),
                weight=proposal.weight,
                failure=failure,
            )
        with sum_.open(comm, take, proposal.weight, transaction) as (channel, local):
            return sum_.take(channel, local)
    except CollectiveError as error:
        if not is_propagated(error, nonfinite):
            raise
    spoiled = inputs.localize()
    return _make_sparse_nan(spoiled.tensors) if sparse else fill_with_nan(spoiled.tensors, spoiled.out)


@dataclass(frozen=True, eq=False)
class _Sum:
    """Sum of the ranks of a channel.

    Attributes:
        scheme, seed, hold_zeros, sparse: as for ``allreduce``.
        proposal: what the caller requests.
        way: of the sum.
        failure: the reason why this rank cannot contribute, if it is known already.
        mean: whether the sum is divided.
        finite: whether results that are not finite are an error.
    """

    scheme: SchemeArgument
    proposal: Header
    way: Way
    failure: Failure | None
    seed: int
    mean: bool
    hold_zeros: bool
    finite: bool
    sparse: bool

    def exchange(self, comm: Channel, make: MakeInputs, weight: float, transaction: Transaction) -> Any:
        """Exchange inputs, and return the results."""
        with self.open(comm, make, weight, transaction) as (opened, local):
            return self.take(opened, local)

    def open(
        self, comm: Communicator | Channel, make: MakeInputs, weight: float, transaction: Transaction
    ) -> AbstractContextManager[tuple[Channel, Encoding]]:
        """Open the exchange, as ``open_exchange``."""
        return open_exchange(
            comm,
            make,
            self.scheme,
            self.seed,
            self.proposal._replace(weight=weight),
            self.failure,
            sparse=self.sparse,
            hold_zeros=self.hold_zeros,
            finite=self.finite,
            transaction=transaction,
            decodes_own=self.way.decodes_own,
            get_detail=self.way.get_detail,
            rehearsal=self.way.rehearsal,
            will_gather=self.way.will_gather,
        )

    def take(self, channel: Channel, local: Encoding) -> Any:
        """Sum the tensors after the agreement, check the sums, and return them as the caller gets them."""
        weights = weigh([header.weight for header in local.table], mean=self.mean)
        sums, limits = self.way.add(channel, local, weights, self.proposal), local.inputs.limits
        if (self.finite and not local.is_finite) or limits:
            values = {name: tensor.values for name, tensor in sums.items()} if self.sparse else sums
            dtypes = {name: dtype for name, (_, dtype) in local.specs.items()}
            check_results(values, dtypes, limits)
        results = move_sums(local, sums) if self.sparse else local.deliver(sums)
        if local.inputs.accept is not None:
            local.inputs.accept(results)
        return results


def _check_for_store(algorithm: str, op: str, nonfinite: str, *, commit: bool) -> None:
    """Raise ValueError if an argument has no meaning over a StoreComm."""
    _parse("op", op, _REDUCTIONS)
    if algorithm not in ("auto", "allgather"):
        raise ValueError(f"algorithm is {algorithm!r}; over a StoreComm it must be 'auto' or 'allgather'")
    if nonfinite != "raise":
        raise ValueError(f"nonfinite is {nonfinite!r}; over a StoreComm it must be 'raise'")
    if not commit:
        raise ValueError("commit=False has no meaning over a StoreComm, whose members have counted the step")


def _check_sparse(algorithm: int, *, has_out: bool) -> None:
    """Raise ValueError if results cannot be sparse."""
    able = {Algorithm.AUTO, *(code for code, record in ALGORITHMS.items() if record.moves_supports)}
    if algorithm not in able:
        names = ", ".join(f'"{name}"' for name, code in _CODES.items() if code in able)
        raise ValueError(f"sparse=True needs an algorithm that moves supports: {names}")
    if has_out:
        raise ValueError("sparse=True returns new SparseTensors; out must be None")


def _refuse_patches(tensors: Tensors) -> None:
    """Raise EncodeError if a tensor is a patch: a sum has no elements that are unchanged."""
    for name, one in tensors.items() if isinstance(tensors, Mapping) else [(None, tensors)]:
        if isinstance(one, wc.SparseTensor) and one.absent != "zero":
            raise wc.EncodeError(
                "a patch, whose absent elements are unchanged, is not added; allgather sends it", tensor=name
            )


def _make_sparse_nan(tensor: Tensors) -> Any:
    """Return SparseTensors of NaN, with all elements."""
    if isinstance(tensor, Mapping):
        return {name: _make_sparse_nan(array) for name, array in tensor.items()}
    return wc.SparseTensor.from_dense(make_nan(stage_on_host(tensor)))


def _parse(name: str, value: Any, codes: Mapping[str, int]) -> int:
    """Convert the value of an argument to its code in {value: code}; raise ValueError if it has none."""
    if not isinstance(value, str) or value not in codes:
        raise ValueError(f"{name} is {value!r}; the choices are {', '.join(map(repr, codes))}")
    return codes[value]

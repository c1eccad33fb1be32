"""Sum over sites: dense within a site, compressed between sites.

    every rank's tensors ─► dense sum of a range ─► exchange of the range ─► all ranges
                            local, all-to-all       across                   local, all-gather

A rank's range is a part of all elements in the order of their names, so a tensor may lie in two ranges.
Residuals belong to ranges. The step of an exchange across is committed if all ranks of a site have had one,
so all ranks of all sites commit or none: every group across has a rank in each site. A rank that has failed
takes part in the other exchanges, by which all ranks learn of its error. After an error of the sum in a site,
which all of its ranks have, they make the exchange across only.

A rank that raises between two exchanges makes the others first (``collectives.sites.course``): those before
its range was exchanged with its error, and the last one as if nothing had happened. If it raises after its
range was exchanged, and has lost the sum, the ranks of its site commit and raise CollectiveError. In the last
exchange, it completes that before it raises. So after one exception, all ranks have committed or none has.

If a rank dies, or is interrupted twice, some ranks may commit and others not, even within a site. The step of
the others is in doubt once their ranges were exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum, prod
from typing import Any, Protocol

import numpy as np

import wirecodec as wc
from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import Header, Operation, Reduction, Status
from collectives.call import Call
from collectives.channel import ByteArray, Channel
from collectives.device import as_arrays, find_gpu, stage_on_host
from collectives.errors import CollectiveError, is_shared, name_ranks
from collectives.exchange.encoding import Inputs, MakeInputs
from collectives.exchange.specs import ONLY, TensorSpec, describe, failure_of_encoding, get_specs
from collectives.exchange.targets import Targets
from collectives.exchange.transaction import Transaction
from collectives.sites.course import complete, go_through
from collectives.sites.sites import Sites
from collectives.sums.pieces import Ranges, assign_ranges
from collectives.transport.allgather import allgather_ragged
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.reduce import Dense, accumulator_dtype, add_weighted, divide_and_round
from collectives.transport.weights import Weights, check_weight
from wirecodec.interop import as_flat, as_sparse

_LOST = 1
"""Detail in the header of a rank whose range was exchanged, and which has lost its sum."""


class Exchange(Protocol):
    """Exchange of {name: range of a tensor} across, without a commit."""

    def __call__(
        self,
        comm: Channel,
        make: MakeInputs,
        weight: float,
        transaction: Transaction,
    ) -> Mapping[str, Any]:
        """Exchange ranges, and return the results.

        Args:
            comm: the channel.
            make: makes the ranges.
            weight: of this rank's site.
            transaction: of the step.
        """
        ...


_STATUSES = {
    "value": Status.VALUE,
    "argument": Status.ARGUMENT,
    "decode": Status.DECODE,
}


@dataclass
class _Share:
    """This rank's part of an exchange, filled step by step.

    Attributes:
        inputs: of this rank.
        specs: {name: (shape, dtype)}, in the order of the names.
        targets: memory of the caller for the results.
        ranges: of all ranks of the site.
        sums: {name: array}, the site's sum or mean of this rank's range.
        weight: of the site.
        first: the exchange of the sum within the site.
        last: that of the results within the site.
        is_refused: whether the caller refused them, on all ranks.
        means: results of this rank's range, or None.
        error: the first error that all ranks have, or None.
        where: the group that found it.
    """

    inputs: Inputs = field(default_factory=lambda: Inputs({}))
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    targets: Targets = field(default_factory=Targets)
    ranges: list[Ranges] = field(default_factory=list)
    sums: dict[str, Dense] = field(default_factory=dict)
    weight: float = 1.0
    first: Call | None = None
    last: Call | None = None
    is_refused: bool = False
    means: Mapping[str, Any] | None = None
    error: CollectiveError | None = None
    where: str = ""

    def note(self, error: CollectiveError, where: str) -> None:
        """Keep the first error of the call, and the group that found it."""
        if self.error is None:
            self.error, self.where = error, where

    @property
    def placed_error(self) -> CollectiveError | None:
        """The first error, with the group that found it."""
        return None if self.error is None else _place(self.error, self.where)

    @property
    def bare(self) -> bool:
        """Whether the caller passed one tensor without a name."""
        return not isinstance(self.inputs.tensors, Mapping)

    def take(self, make: MakeInputs) -> dict[str, Dense]:
        """Describe the inputs; return {name: (size,)} on the host."""
        self.inputs = make().localize()
        given = self.tensors
        gpu = find_gpu(given)
        if gpu is not None:
            gpu.wait_for_tensors()
        flat = {}
        arrays = as_arrays(stage_on_host(dict(given)))
        self.specs = get_specs({name: arrays[name] for name in sorted(given, key=str.encode)})
        for name in self.specs:
            flat[name] = np.ascontiguousarray(_make_dense(arrays[name])).reshape(-1)
        self.targets = Targets.of(self.inputs.out, given, self.specs, arrays, bare=self.bare)
        return flat

    @property
    def is_summed(self) -> bool:
        """Whether all ranks of the site have what the sums of their ranges need."""
        return self.first is not None and self.first.is_delivered

    @property
    def is_delivered(self) -> bool:
        """Whether all ranks of the site have all results, or know that a rank has lost a range."""
        return self.last is not None and self.last.is_delivered

    @property
    def tensors(self) -> Mapping[str, Any]:
        """The caller's tensors by name."""
        given: Any = self.inputs.tensors
        return {ONLY: given} if self.bare else given

    def make_inputs(self) -> Inputs:
        """Return the inputs of the exchange across: whole tensors in their shape, parts of others flat."""
        tensors = {
            name: x.reshape(self.specs[name][0]) if x.size == prod(self.specs[name][0]) else x
            for name, x in self.sums.items()
        }
        limits = {name: limit for name, limit in self.inputs.limits.items() if name in tensors}
        return replace(self.inputs, tensors=tensors, out=None, limits=limits, accept=None)

    def check(self, results: Any) -> None:
        """Raise CollectiveError if the caller refuses the results."""
        try:
            if self.inputs.accept is not None:
                self.inputs.accept(results)
        except CollectiveError as error:
            self.is_refused = is_shared(error)
            raise


def reduce_over_sites(
    sites: Sites,
    make: MakeInputs,
    exchange: Exchange,
    get_scheme: Callable[[], str],
    transaction: Transaction,
    *,
    reduction: Reduction = Reduction.MEAN,
    weight: float = 1.0,
    failure: Failure | None = None,
) -> Any:
    """Sum or average tensors over the ranks of all sites; all ranks call this together.

    Args:
        sites: of this rank.
        make: makes this rank's inputs; if it raises, all ranks raise CollectiveError.
        exchange: of ranges across.
        get_scheme: returns the text of the scheme, on which the ranks of a site agree.
        transaction: of the step across. If this rank raises after that exchange, other ranks may commit the
            step. It is committed if all ranks of the site have all results.
        reduction: MEAN or SUM.
        weight: of this rank.
        failure: the reason why this rank cannot contribute, if it is known already.

    Returns:
        The results, in the caller's memory if there is any.

    Raises:
        CollectiveError: a rank failed or ranks differ; on all ranks of all sites. No state has changed, but
            see ``transaction``.
        Timeout: a rank does not take part.
    """
    sites.compare_sizes()
    return _reduce(sites, make, exchange, get_scheme, transaction, reduction, weight, failure)


def _reduce(
    sites: Sites,
    make: MakeInputs,
    exchange: Exchange,
    get_scheme: Callable[[], str],
    transaction: Transaction,
    reduction: Reduction,
    weight: float,
    failure: Failure | None,
) -> Any:
    """Sum over sites whose sizes were compared; arguments and results are those of ``reduce_over_sites``."""
    local, across, share = sites.local, sites.across, _Share()
    begun = local.sequence, across.sequence
    step_across = Transaction(holds=True, doubts=True)  # also if an exception has lost what it sums

    def make_range() -> Inputs:
        if share.error is not None:
            raise share.error
        return share.make_inputs()

    def go_on() -> Any:
        if local.sequence == begun[0]:
            try:
                _sum_in_site(local, share, make, get_scheme, reduction, weight, failure)
            except CollectiveError as raised:
                share.note(_require_shared(raised), f"within site {across.rank}")
            across.has_new_sparse |= local.has_new_sparse
        if across.sequence == begun[1]:
            try:
                share.means = exchange(across, make_range, share.weight, step_across)
            except CollectiveError as raised:
                share.note(_require_shared(raised), "between sites")
            local.has_new_sparse |= across.has_new_sparse
        if share.error is not None and (local.closed is not None or not share.is_summed):
            local.skip_to(local.sequence + 1)  # instead of the last exchange: all ranks of the site have it
            raise share.error
        return _gather_in_site(local, share, share.means, reduction, share.placed_error)

    def is_under_way() -> bool:
        if local.sequence == begun[0]:
            return False
        return local.sequence == begun[0] + 1 if share.is_summed else across.sequence == begun[1]

    def note(raised: CollectiveError) -> None:
        if across.sequence == begun[1] or not across.call.is_delivered:
            share.note(raised, f"rank {local.rank} of site {across.rank}")

    try:
        results, interrupt = go_through((local, across), go_on, is_under_way, note)
        if interrupt is not None:
            raise interrupt
        share.check(results)
        transaction.begin(step_across.step)
        transaction.settle(succeeds=True, is_delivered=True, may_count=True)
    except BaseException as raised:
        has_shared = is_shared(raised) or is_shared(raised.__cause__)
        if has_shared and not share.is_delivered:  # the other sites have an error, too
            sites.compared = None
        transaction.begin(step_across.step)
        counts = not share.is_refused
        transaction.settle(succeeds=False, is_delivered=share.is_delivered and counts, may_count=counts)
        if is_shared(raised) and not share.is_refused:
            place = f"rank {local.rank} of site {across.rank}"
            raise _place(share.placed_error or raised, place) from raised
        raise
    return results


def _require_shared(error: CollectiveError) -> CollectiveError:
    """Return an error that all ranks have; raise one that has interrupted this rank alone."""
    if is_shared(error):
        return error
    raise error


def _sum_in_site(
    channel: Channel,
    share: _Share,
    make: MakeInputs,
    get_scheme: Callable[[], str],
    reduction: Reduction,
    weight: float,
    failure: Failure | None,
) -> None:
    """Add the tensors of a site's ranks, each rank in its range; fill ``share``."""
    proposal, flat = Header(operation=Operation.SITE, reduction=reduction), dict[str, Dense]()
    scheme = ""
    try:
        if failure is None:
            proposal = proposal._replace(weight=check_weight(weight))
            scheme = get_scheme()
            flat = share.take(make)
    except Exception as error:
        failure = failure_of_encoding(error)
    operand = describe(share.specs, bare=share.bare, scheme=scheme + share.inputs.unit)
    with channel.collective() as call:
        share.first = call
        table = agree(channel, proposal, operand, failure)
        given = [header.weight for header in table]
        is_mean = reduction == Reduction.MEAN
        share.weight = fsum(given) if is_mean else float(any(given))
        weights = Weights.of(given, mean=is_mean) or Weights(1.0, (0.0,) * channel.size)
        share.ranges = assign_ranges(share.specs, channel.size)
        own = share.ranges[channel.rank]
        blocks = [_join(flat, ranges) for ranges in share.ranges]
        call.is_final_transfer = True
        pieces = alltoall_ragged(channel, blocks, [len(blocks[channel.rank])] * channel.size)
        call.is_delivered = True
    parts = [_cut(piece, own, share.specs) for piece in pieces]
    with np.errstate(all="ignore"):  # NaN, Inf and overflow follow IEEE 754
        for name, (start, stop) in own.items():
            dtype = share.specs[name][1]
            total = np.zeros(stop - start, accumulator_dtype(dtype))
            for rank, part in enumerate(parts):
                add_weighted(total, part[name], weights.of_rank(rank))
            share.sums[name] = divide_and_round(total, weights.divisor, dtype)


def _gather_in_site(
    channel: Channel,
    share: _Share,
    means: Mapping[str, Any] | None,
    reduction: Reduction,
    error: CollectiveError | None,
) -> Any:
    """Gather the results of all ranges of a site, if no rank has an error; return all results.

    A rank with neither a result nor an error has lost its range. All ranks of the site then raise
    CollectiveError, and ``share.is_delivered`` is True.

    The other sites may have committed the step, so the exchange is completed before an exception is raised.
    """
    proposal = Header(operation=Operation.SITE, reduction=reduction)
    operand = describe(share.specs, bare=share.bare, scheme="")
    failure, flat = None, dict[str, Dense]()
    if error is not None:
        failure = Failure(_STATUSES.get(error.reason, Status.ENCODE), error)
    elif means is not None:
        flat = {name: stage_on_host(x).reshape(-1) for name, x in means.items()}
    else:
        proposal = proposal._replace(detail=_LOST)
        flat = {name: np.zeros_like(x) for name, x in share.sums.items()}

    def exchange(call: Call) -> tuple[list[Header], list[ByteArray]]:
        share.last = call
        table = call.table or agree(channel, proposal, operand, failure, finish=True)
        whole = [_count_bytes(ranges, share.specs) for ranges in share.ranges]
        own = share.ranges[channel.rank]
        block = _join(flat, {name: (0, stop - start) for name, (start, stop) in own.items()})
        call.is_final_transfer = True
        blocks = allgather_ragged(channel, block, whole)
        call.is_delivered = True
        return table, blocks

    table, blocks = complete(channel, exchange)
    if without := [rank for rank, header in enumerate(table) if header.detail == _LOST]:
        raise CollectiveError(
            f"{name_ranks(without)}: an exception came after the exchange, and the sum is lost there; the"
            " step counts",
            ranks=without,
            reason="encode",
        )
    results = {
        name: share.targets.allocate(name, prod(shape), dtype) for name, (shape, dtype) in share.specs.items()
    }
    for gathered, ranges in zip(blocks, share.ranges, strict=True):
        for name, part in _cut(gathered, ranges, share.specs).items():
            results[name][slice(*ranges[name])] = part
    shaped = {name: results[name].reshape(share.specs[name][0]) for name in share.tensors}
    delivered = share.targets.deliver(share.tensors, shaped)
    return delivered[ONLY] if share.bare else delivered


def _make_dense(tensor: Any) -> Any:
    """Return the array of a tensor, which may be sparse; raise EncodeError if its elements cannot be read."""
    sparse = as_sparse(tensor)
    if isinstance(sparse, wc.SparseTensor):
        return sparse.to_dense()
    return tensor if isinstance(tensor, np.ndarray) else as_flat(tensor).data


def _join(flat: Mapping[str, Dense], ranges: Ranges) -> ByteArray:
    """Return the elements of ranges as bytes, one tensor after another."""
    parts = [flat[name][start:stop].view(np.uint8) for name, (start, stop) in ranges.items()]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate([np.empty(0, np.uint8), *parts])


def _cut(block: ByteArray, ranges: Ranges, specs: Mapping[str, TensorSpec]) -> dict[str, Dense]:
    """Return the elements of ranges from their bytes."""
    parts, at = {}, 0
    for name, (start, stop) in ranges.items():
        dtype = specs[name][1]
        end = at + (stop - start) * dtype.itemsize
        parts[name] = np.frombuffer(block[at:end].tobytes() if at % dtype.itemsize else block[at:end], dtype)
        at = end
    return parts


def _count_bytes(ranges: Ranges, specs: Mapping[str, TensorSpec]) -> int:
    return sum((stop - start) * specs[name][1].itemsize for name, (start, stop) in ranges.items())


def _place(error: CollectiveError, place: str) -> CollectiveError:
    """Return an error with the group that found it, whose numbers its ranks are."""
    placed = type(error)(f"{place}: {error}", ranks=error.ranks, reason=error.reason)
    placed.__cause__ = error.__cause__
    return placed

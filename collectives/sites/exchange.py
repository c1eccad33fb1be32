"""Sum over sites: dense within a site, compressed between sites.

    every rank's tensors ─► dense sum of a range ─► exchange of the range ─► all ranges
                            local, all-to-all       across                   local, all-gather

A rank's range is a part of all elements in the order of their names, so a tensor may lie in two ranges.
Residuals belong to ranges. The step of an exchange across is committed if all ranks of a site have had one,
so all ranks of all sites commit or none: every group across has a rank in each site. A rank that has failed
takes part in the other exchanges, by which all ranks learn of its error.

If a rank dies or is interrupted, some ranks may commit and others not, even within a site. The step of the
others is in doubt once their ranges were exchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import fsum, prod
from typing import Any

import numpy as np

from collectives.agreement.agree import Failure, agree
from collectives.agreement.header import Header, Operation, Reduction, Status
from collectives.channel import ByteArray, Channel
from collectives.device import as_arrays, find_gpu, stage_on_host
from collectives.errors import CollectiveError, Nested, is_shared
from collectives.exchange.inputs import Inputs, MakeInputs
from collectives.exchange.pending import Pending
from collectives.exchange.specs import ONLY, TensorSpec, describe, failure_of_encoding, get_spec
from collectives.exchange.targets import Targets
from collectives.sites.sites import Sites
from collectives.sums.pieces import Ranges, assign_ranges
from collectives.transport.allgather import allgather_ragged
from collectives.transport.alltoall import alltoall_ragged
from collectives.transport.reduce import Dense, accumulator_dtype, add_weighted, divide_and_round
from collectives.transport.weights import Weights, check_weight
from wirecodec.interop import OpenStep

Exchange = Callable[[Channel, MakeInputs, float], "Pending[dict[str, Any]]"]
"""Exchange of {name: range of a tensor} across, with the weight of this rank's site, without a commit."""

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
        is_delivered: whether all ranks of the site have all results.
        is_refused: whether the caller refused them, on all ranks.
    """

    inputs: Inputs = field(default_factory=lambda: Inputs({}))
    specs: dict[str, TensorSpec] = field(default_factory=dict)
    targets: Targets = field(default_factory=Targets)
    ranges: list[Ranges] = field(default_factory=list)
    sums: dict[str, Dense] = field(default_factory=dict)
    weight: float = 1.0
    is_delivered: bool = False
    is_refused: bool = False

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
        for name in sorted(given, key=str.encode):
            array = arrays[name]
            self.specs[name] = get_spec(array)
            flat[name] = np.ascontiguousarray(array).reshape(-1)
        self.targets = Targets.of(self.inputs.out, given, self.specs, bare=self.bare)
        return flat

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
    *,
    reduction: Reduction = Reduction.MEAN,
    weight: float = 1.0,
    commit: bool = True,
    failure: Failure | None = None,
    doubt: Callable[[OpenStep], None] | None = None,
) -> Any:
    """Sum or average tensors over the ranks of all sites; all ranks call this together.

    Args:
        sites: of this rank.
        make: makes this rank's inputs; if it raises, all ranks raise CollectiveError.
        exchange: of ranges across.
        get_scheme: returns the text of the scheme, on which the ranks of a site agree.
        reduction: MEAN or SUM.
        weight: of this rank.
        commit: False to return a Pending.
        failure: the reason why this rank cannot contribute, if it is known already.
        doubt: takes the step of an exchange across that is complete on this rank, open, if this rank raises:
            other ranks may commit theirs. ``exchange`` has it, too, for a step that breaks off in there. None
            to commit the step if all ranks of the site have all results, and to roll it back otherwise.

    Returns:
        The results, in the caller's memory if there is any; or a Pending with them.

    Raises:
        CollectiveError: a rank failed or ranks differ; on all ranks of all sites. No state has changed, but
            see ``doubt``.
        Timeout: a rank does not take part.
    """
    sites.compare_sizes()
    local, across, share = sites.local, sites.across, _Share()
    error: CollectiveError | None = None
    pending: Pending[dict[str, Any]] | None = None
    try:
        _sum_in_site(local, share, make, get_scheme, reduction, weight, failure)
    except Nested:  # which has interrupted this rank alone
        raise
    except CollectiveError as raised:
        error = _place(raised, f"within site {across.rank}")

    def make_range() -> Inputs:
        if error is not None:
            raise error
        return share.make_inputs()

    try:
        pending = exchange(across, make_range, share.weight)
    except Nested:
        raise
    except CollectiveError as raised:
        error = error or _place(raised, "between sites")
    try:
        if local.closed is not None and error is not None:
            raise error
        results = _gather_in_site(local, share, pending, reduction, error)
        assert pending is not None  # without one, the ranks of the site have raised
        share.check(results)
        if commit:
            pending.commit()
    except BaseException as raised:
        if pending is not None:
            with suppress(RuntimeError):
                if share.is_refused:
                    pending.rollback()
                else:
                    _resolve(pending, doubt, counts=share.is_delivered and commit)
        if is_shared(raised) and not share.is_refused:
            place = f"rank {local.rank} of site {across.rank}"
            raise _place(error or raised, place) from raised
        raise
    return results if commit else Pending(results, pending)


def _resolve(
    pending: Pending[dict[str, Any]], doubt: Callable[[OpenStep], None] | None, *, counts: bool
) -> None:
    """Leave the step of a rank that raises in doubt, or commit it if it counts, or roll it back."""
    if doubt is None:
        (pending.commit if counts else pending.rollback)()
    else:
        step = pending.detach()
        assert isinstance(step, OpenStep)
        doubt(step)


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
    pending: Pending[dict[str, Any]] | None,
    reduction: Reduction,
    error: CollectiveError | None,
) -> Any:
    """Gather the results of all ranges of a site, if no rank has an error; return all results."""
    proposal = Header(operation=Operation.SITE, reduction=reduction)
    operand = describe(share.specs, bare=share.bare, scheme="")
    failure, flat = None, dict[str, Dense]()
    if error is not None:
        failure = Failure(_STATUSES.get(error.reason, Status.ENCODE), error)
    elif pending is not None:
        try:
            flat = {name: stage_on_host(x).reshape(-1) for name, x in pending.means.items()}
        except Exception as raised:
            failure = failure_of_encoding(raised)
    with channel.collective() as call:
        agree(channel, proposal, operand, failure)
        whole = [_count_bytes(ranges, share.specs) for ranges in share.ranges]
        own = share.ranges[channel.rank]
        block = _join(flat, {name: (0, stop - start) for name, (start, stop) in own.items()})
        call.is_final_transfer = True
        try:
            blocks = allgather_ragged(channel, block, whole)
            call.is_delivered = True
        finally:
            share.is_delivered = call.is_delivered
        results = {
            name: share.targets.allocate(name, prod(shape), dtype)
            for name, (shape, dtype) in share.specs.items()
        }
        for gathered, ranges in zip(blocks, share.ranges, strict=True):
            for name, part in _cut(gathered, ranges, share.specs).items():
                results[name][slice(*ranges[name])] = part
        shaped = {name: results[name].reshape(share.specs[name][0]) for name in share.tensors}
        delivered = share.targets.deliver(share.tensors, shaped)
        return delivered[ONLY] if share.bare else delivered


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

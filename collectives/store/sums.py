"""Calls over a store: each is one round, whose members' payloads all peers gather or sum alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.header import Algorithm, Header, Operation, Reduction
from collectives.agreement.nonfinite import check_results
from collectives.channel import ByteArray
from collectives.errors import CollectiveError
from collectives.exchange.encoding import Encoding, MakeInputs, encode_tensors
from collectives.exchange.specs import ONLY, SchemeArgument, TensorSpec, get_limits
from collectives.exchange.union import move_sums
from collectives.store.codecs import Codecs
from collectives.store.communicator import StoreComm
from collectives.store.contribution import NO_STATE, Check, Terms
from collectives.store.rounds import Outcome
from collectives.store.rules import Rules
from collectives.sums.gathered import sum_gathered
from collectives.transport.weights import Weights, check_weight
from wirecodec.interop import check_values, decode_many_to, decode_to

REASONS = {1: "encode", 2: "value", 3: "argument"}


@dataclass(frozen=True, eq=False)
class Taken:
    """Round in which this peer took part.

    Attributes:
        comm: of the run.
        local: this peer's side.
        outcome: of the round.
        rank: this peer's place among the members, or None.
        error: that the call raises after it has used the result, or None.
    """

    comm: StoreComm
    local: Encoding
    outcome: Outcome
    rank: int | None
    error: CollectiveError | None

    def require_accepted(self) -> None:
        """Raise the error of a round in which this peer does not count, after a rollback."""
        if self.error is not None:
            self.settle(counts=False)
            raise self.error

    def settle(self, *, counts: bool) -> None:
        """Commit or roll back the step, and go on with the next round."""
        settle_step(self.local, counts=counts)
        self.comm.advance(self.outcome, self.rank)
        self.comm.clean(self.outcome, self.rank)


def settle_step(local: Encoding, *, counts: bool) -> None:
    """Commit or roll back the step of a Compressor, also if an interrupt comes between.

    After another state was loaded, there is nothing to commit. A second call has no further effect.
    """
    prepared = local.prepared
    if prepared is None or not prepared.is_open:
        return
    end = prepared.commit if counts and prepared.is_latest else prepared.rollback
    try:
        end()
    except RuntimeError:
        raise
    except BaseException:
        with suppress(RuntimeError):
            end()
        raise


def make_check(
    specs: Mapping[str, TensorSpec], scheme: SchemeArgument, rules: Rules, *, named: bool
) -> Check:
    """Return the check of a container: limits, schema, finite values, the norm, and the scheme's codecs.

    Args:
        specs: {name: (shape, dtype)} that are expected.
        scheme: of all peers.
        rules: of the run.
        named: whether containers have named tensors.
    """
    codecs = Codecs.of(scheme)
    dtypes = {name: np.result_type(dtype, np.float32) for name, (_, dtype) in specs.items()}

    def check(payload: ByteArray, _header: Header) -> None:
        found = check_values(
            payload,
            dtypes,
            limits=get_limits(specs, [payload]),
            schema=specs if named else specs[ONLY],
            finite=True,
            max_norm=rules.max_norm,
        )
        codecs.check(payload, *found)

    return check


def accept_any(_payload: ByteArray, _header: Header) -> None:
    """Accept the payload of an all-gather of bytes."""


def gather_bytes(comm: StoreComm, blob: ByteArray) -> list[ByteArray]:
    """Gather the bytes of all members."""
    comm.settle()
    terms = Terms(Header(operation=Operation.ALLGATHER_BYTES))
    outcome, rank, error = comm.take_part(terms, blob, accept_any, lambda _: None)
    comm.advance(outcome, rank)
    comm.clean(outcome, rank)
    if error is not None:
        raise error
    return [one.payload for one in outcome.contributions]


def contribute(
    comm: StoreComm,
    make: MakeInputs,
    scheme: SchemeArgument,
    proposal: Header,
    *,
    seed: int = 0,
    state: bytes = NO_STATE,
    sparse: bool = False,
    hold_zeros: bool = False,
    on_settled: Callable[[bool], None] = lambda _: None,
) -> Taken:
    """Encode this peer's tensors, and take part in the next round.

    Args:
        comm: whose last round is settled.
        make: makes the inputs.
        scheme: of this peer; the step of a Compressor becomes the number of the round.
        proposal: operation, reduction and weight.
        seed, sparse, hold_zeros: as for ``allreduce``.
        state: digest of the state before the round.
        on_settled: is called later, if the store fails before the result is known here.

    Raises CollectiveError as ``StoreComm.take_part``, or if this peer cannot encode.
    """
    number, local = comm.locate(), Encoding(sparse=sparse)
    if isinstance(scheme, wc.Compressor):
        scheme.set_step(number)
    failure = encode_tensors(
        local, make, scheme, seed, comm, proposal.weight, hold_zeros=hold_zeros, finite=False
    )
    header = proposal._replace(
        algorithm=Algorithm.ALLGATHER,
        dtype=local.operand.dtype,
        elements=local.operand.elements,
        signature=local.operand.signature,
        scheme=local.operand.scheme,
    )
    terms = Terms(header, state)

    def settle(counts: bool) -> None:
        settle_step(local, counts=counts)
        on_settled(counts)

    try:
        if failure is not None:
            with suppress(CollectiveError):
                comm.announce_absence(
                    Terms(header._replace(status=failure.status), state), str(failure.error)
                )
            raise CollectiveError(
                f"peer {comm.name!r}: {type(failure.error).__name__}: {failure.error}",
                reason=REASONS.get(failure.status, "encode"),
            ) from failure.error
        check = make_check(local.specs, scheme, comm.rules, named=local.named)
        outcome, rank, error = comm.take_part(terms, local.blob, check, settle)
    except BaseException:
        if comm.is_open and local.prepared is not None:
            local.prepared.hold()  # ``settle`` commits or rolls it back
        else:
            settle_step(local, counts=False)
        raise
    return Taken(comm, local, outcome, rank, error)


def average(local: Encoding, outcome: Outcome, rank: int | None, *, mean: bool = True) -> dict[str, Any]:
    """Return the sums or means of a round, {name: (size,)}; the same bits for all peers.

    Raises CollectiveError for all peers if all weights are 0, or a result is not finite.
    """
    weights = Weights.of([one.weight for one in outcome.contributions], mean=mean)
    if weights is None:
        raise CollectiveError("all members have weight 0, so nobody sends", reason="argument")
    sums = sum_gathered(local, [one.payload for one in outcome.contributions], weights, rank)
    dtypes = {name: dtype for name, (_, dtype) in local.specs.items()}
    check_results({name: x.values if local.sparse else x for name, x in sums.items()}, dtypes)
    return sums


def reduce(
    comm: StoreComm,
    make: MakeInputs,
    scheme: SchemeArgument,
    *,
    mean: bool,
    seed: int,
    weight: float,
    hold_zeros: bool,
    sparse: bool,
) -> Any:
    """Average or sum tensors over the members of a round; ``allreduce`` has the arguments."""
    comm.settle()
    proposal = Header(
        operation=Operation.ALLREDUCE,
        reduction=Reduction.MEAN if mean else Reduction.SUM,
        weight=check_weight(weight),
    )
    taken = contribute(comm, make, scheme, proposal, seed=seed, sparse=sparse, hold_zeros=hold_zeros)
    local = taken.local
    taken.require_accepted()
    try:
        sums = average(local, taken.outcome, taken.rank, mean=mean)
    except CollectiveError:  # all peers raise it
        taken.settle(counts=False)
        raise
    taken.settle(counts=taken.rank is not None)
    return move_sums(local, sums) if sparse else local.deliver(sums)


def gather(comm: StoreComm, make: MakeInputs, scheme: SchemeArgument, *, seed: int) -> Any:
    """Gather the tensors of all members; ``allgather`` has the arguments."""
    comm.settle()
    taken = contribute(comm, make, scheme, Header(operation=Operation.ALLGATHER), seed=seed)
    local = taken.local
    taken.require_accepted()
    taken.settle(counts=taken.rank is not None)
    payloads = [one.payload for one in taken.outcome.contributions]
    limits = local.get_limits(payloads)
    if not local.named:
        return [decode_to(False, one, limits=limits, schema=local.specs[ONLY]) for one in payloads]
    found = [decode_many_to(False, one, limits=limits, schema=local.specs) for one in payloads]
    tensors = [{name: one[name] for name in local.specs} for one in found]
    return [one[ONLY] for one in tensors] if local.bare else tensors

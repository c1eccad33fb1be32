"""Local updates over a StoreComm: rounds whose members change from one to the next.

All peers that have seen the same rounds have the same outer state. A peer that did not count in a round takes
the step of its members, too. Its parameters become those of the others, and its movement is carried: the next
contribution has it. So nothing is lost, and the peer is up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.agreement.header import Algorithm, Header, Operation, Reduction
from collectives.errors import CollectiveError, Refused
from collectives.exchange.encoding import Encoding, Inputs, get_text
from collectives.exchange.specs import describe
from collectives.local_updates.outer import Array, OuterState
from collectives.local_updates.outer_loop import OuterLoop
from collectives.local_updates.outer_step import OuterStep, Replacement, check_step
from collectives.local_updates.shared_state import check_size, hash_state, pack_state, unpack_state
from collectives.store.communicator import StoreComm
from collectives.store.contribution import Check, Terms
from collectives.store.rounds import Outcome
from collectives.store.sums import Taken, average, contribute, make_check, settle_step
from collectives.transport.weights import Weights

_GONE = "sequence", "transport"
"""Reasons of an error of a round that cannot be read any more."""


class StoreRounds:
    """Rounds of a peer over a StoreComm.

    Args:
        outer: the worker's outer loop.
        end: the StoreComm.

    Attributes:
        end: the same.
    """

    def __init__(self, outer: OuterLoop, end: StoreComm) -> None:
        self._anchor, self._settings, self._compressor = outer.anchor, outer.settings, outer.compressor
        self._outer, self.end = outer, end
        outer.rest = self
        self._digest: tuple[OuterState, bytes] | None = None
        self._rest: list[Callable[[], None]] = []  # to do after a round

    def exchange(self, names: Sequence[str], weight: float, *, is_whole: bool, commit: bool = True) -> None:
        """Take part in the next round with all of this peer's movements, and take the step of its members.

        Raises CollectiveError if this peer was refused, after it has taken that step; if the round is void or
        its step is not finite, on all peers; or if the store fails or the members differ, before any step.
        """
        if not commit:
            raise ValueError("commit=False has no meaning over a StoreComm, whose members have counted")
        comm, anchor = self.end, self._anchor
        self._outer.complete()
        self._outer.require_no_new()
        self._outer.check_loaded(is_due=True)
        self._outer.ledger.drop()  # the peers of a store have another history
        self._check_size()
        comm.settle()
        self._catch_up()
        moved = self._measure()
        proposal = self._propose(weight)
        taken = contribute(
            comm,
            lambda: Inputs(moved, unit=self._unit),
            self._compressor,
            proposal,
            state=self._hash(),
            on_settled=self._settling(moved),
        )
        if not taken.outcome.contributions:
            taken.require_accepted()
        counts = taken.rank is not None
        try:
            means = self._average(taken.local, taken.outcome, taken.rank)
        except CollectiveError:  # all peers raise it
            taken.settle(counts=False)
            raise
        replaces = weight == 0
        step = self._outer.make_step(means, replaces=replaces) if counts else self._take_over(means)
        self._rest = [
            partial(settle_step, taken.local, counts=counts),
            partial(setattr, anchor, "carried", {} if counts else moved),
            partial(self._take, step),
            partial(comm.advance, taken.outcome, taken.rank),
        ]
        self.complete()
        comm.clean(taken.outcome, taken.rank)
        self._publish(taken)
        if taken.error is not None:
            raise taken.error

    def settle(self) -> None:
        """Learn the result of a round from which an exception has broken off, and take its step."""
        if self.end.is_open:
            self.end.settle()
            self._catch_up()

    def complete(self) -> None:
        """Do what is left to do after a round; an exception is raised when all of it is done."""
        try:
            self._do_rest()
        except BaseException:  # a program that catches it may move the parameters, or save the state
            with suppress(Exception):
                self._do_rest()
            raise

    def _do_rest(self) -> None:
        while self._rest:
            self._rest[0]()  # again without effect, if the interrupt comes before the next line
            self._rest = self._rest[1:]

    def _take(self, step: Replacement) -> None:
        """Set the state and the parameters to a step's values; a second call has no further effect."""
        if self._anchor.state is not step.after:
            self._anchor.advance(step)

    def synchronize(self) -> bool:
        """Take the state of the run, or begin it with this peer's; return whether the state has changed."""
        self._outer.complete()
        self._outer.ledger.drop()
        has_changed = self._take_state_of_run()
        self._outer.inner_step = 0
        return has_changed

    def _take_state_of_run(self) -> bool:
        comm = self.end
        self._check_size()
        comm.settle()
        self._anchor.complete()
        before = self._hash()
        if comm.round is not None:
            try:
                self._catch_up()
                return self._hash() != before
            except CollectiveError:
                pass  # it has another history
        restore = self._anchor.save()
        self._adopt()
        self._catch_up()
        if self._hash() != before:
            return True
        self._rest = [restore]  # a published state and the rounds since have led to the same one
        self.complete()
        return False

    def _check_size(self) -> None:
        limit, has_momenta = self.end.rules.max_bytes, self._settings.momentum > 0
        check_size(self._anchor.state, limit, has_momenta=has_momenta)

    def _catch_up(self) -> None:
        """Take the steps of rounds that are decided without this peer."""
        comm = self.end
        while True:
            number = comm.locate()
            local, terms, check = self._describe(number)
            try:
                outcome = comm.read_round(terms, check)
            except CollectiveError as error:
                if error.reason not in _GONE or not self._adopt(number + 1):
                    raise
                continue
            if outcome is None:
                return
            self._apply_missed(local, outcome)

    def _apply_missed(self, local: Encoding, outcome: Outcome) -> None:
        """Take the step of a round in which this peer does not count; its movement is carried."""
        step = None
        with suppress(CollectiveError):  # a step that is not finite counts for nobody
            if outcome.contributions:
                step = self._take_over(self._average(local, outcome, None))
        if step is not None:
            self._rest = [
                partial(setattr, self._anchor, "carried", self._measure()),
                partial(self._take, step),
                partial(self.end.advance, outcome, None),
            ]
            self.complete()
        else:
            self.end.advance(outcome, None)

    def _take_over(self, means: Mapping[str, Any]) -> Replacement:
        """Return the step of the members, after which this peer's parameters are the common ones."""
        return OuterStep(self._anchor.state, means, self._settings)

    def _hash(self) -> bytes:
        """Return the digest of this peer's state, which is computed once per round."""
        state = self._anchor.state
        if self._digest is None or self._digest[0] is not state:
            self._digest = state, hash_state(state)
        return self._digest[1]

    def _measure(self) -> dict[str, Array]:
        """Return this peer's movement, which is carried when its parameters are replaced."""
        self._anchor.complete()
        return self._anchor.measure_all(list(self._anchor.parameters))

    def _settling(self, moved: Mapping[str, Array]) -> Callable[[bool], None]:
        """Return a function that notes later whether a movement counts.

        It is still in the parameters, or carried, unless the program has reverted or loaded them.
        """
        carried = self._anchor.carried

        def note(counts: bool) -> None:
            if counts and self._anchor.carried is carried:
                self._anchor.carried = {
                    name: np.asarray(carried.get(name, np.zeros_like(x)) - x) for name, x in moved.items()
                }

        return note

    def _adopt(self, at_least: int = 0) -> bool:
        """Take the newest state that the members of its round started from; return whether there is one.

        Args:
            at_least: the first round whose state is of use.
        """
        comm = self.end
        newest = comm.find_newest()
        found = self._find_state(newest, at_least) if newest is not None else None
        if found is None and at_least == 0 and newest is not None and not self._may_begin(newest):
            found = newest + 1, self._anchor.state  # nobody has published any: the members check it
        if found is None and at_least == 0:
            start = comm.states.claim_start(lambda: pack_state(self._anchor.state))
            try:
                found = 0, unpack_state(start.body, self._anchor.state)
            except Refused as refused:
                raise CollectiveError(
                    f"the run begins with other names, shapes or types of parameters: {refused}",
                    reason="shape",
                ) from refused
        if found is None:
            return False
        number, state = found
        rest: list[Callable[[], None]] = []
        if at_least:
            rest.append(partial(setattr, self._anchor, "carried", self._measure()))
        if hash_state(state) != self._hash():
            rest.append(partial(self._take, Replacement(self._anchor.state, state)))
        self._rest = [*rest, partial(comm.move_to, number)]  # all of it or nothing
        self.complete()
        return True

    def _may_begin(self, newest: int) -> bool:
        """Return whether the first state of a run that has rounds is known, or is that of this peer."""
        if self.end.states.has_start():
            return True
        for number in range(newest + 1):
            _, terms, check = self._describe(number)
            try:
                outcome = self.end.read_round(terms, check, number=number)
            except CollectiveError:
                return False
            if outcome is not None and outcome.contributions:
                return True
        return False

    def _find_state(self, newest: int, at_least: int) -> tuple[int, OuterState] | None:
        """Return a published state with its round; one that members have confirmed if there is one."""
        provisional = None
        sizes = [x.nbytes for x in self._anchor.state.parameters.values()]
        limit = 4 * sum(sizes) + 1024 * len(sizes) + 4096  # parameters, momenta, and what a container adds
        for number, body in self.end.states.read_newest(limit, newest + 1):
            if number < at_least:
                continue
            try:
                state = unpack_state(body, self._anchor.state)
                _, terms, check = self._describe(number, state)
                outcome = self.end.read_round(terms, check, number=number)
            except (Refused, CollectiveError):
                continue
            if outcome is not None and outcome.contributions:
                return number, state
            if outcome is None and number == newest + 1 and provisional is None:
                provisional = number, state
        return provisional

    def _describe(self, number: int, state: OuterState | None = None) -> tuple[Encoding, Terms, Check]:
        """Return what it takes to read a round: the tensors, the terms and the check of containers."""
        state = self._anchor.state if state is None else state
        self._compressor.set_step(number)
        specs = {name: (x.shape, x.dtype) for name, x in self._anchor.state.parameters.items()}
        operand = describe(specs, bare=False, scheme=get_text(self._compressor) + self._unit)
        header = self._propose(1.0)._replace(
            algorithm=Algorithm.ALLGATHER,
            dtype=operand.dtype,
            elements=operand.elements,
            signature=operand.signature,
            scheme=operand.scheme,
        )
        local = Encoding(specs=specs, bare=False, named=True, operand=operand)
        digest = self._hash() if state is self._anchor.state else hash_state(state)
        return local, Terms(header, digest), make_check(specs, self._compressor, self.end.rules, named=True)

    @property
    def _unit(self) -> str:
        """Text of the settings on which peers agree."""
        return f"; local updates {self._settings}"

    def _propose(self, weight: float) -> Header:
        return Header(operation=Operation.ALLREDUCE, reduction=Reduction.MEAN, weight=weight)

    def _average(self, local: Encoding, outcome: Outcome, rank: int | None) -> dict[str, Array]:
        """Return {name: mean} of a round, in the shapes of the parameters.

        Raises CollectiveError for all peers if no member counts, or the step would not be finite.
        """
        by_senders = self._settings.divide == "senders"
        flat = average_by_senders(local, outcome) if by_senders else average(local, outcome, rank)
        means = {name: flat[name].reshape(shape) for name, (shape, _) in local.specs.items()}
        check_step(self._anchor.state, means, self._settings)
        return means

    def _publish(self, taken: Taken) -> None:
        """Publish the state for peers that join, if it is this peer's turn."""
        following = taken.outcome.number + 1
        turn, rest = divmod(following, self.end.publish_every)
        if not rest and taken.rank == turn % len(taken.outcome.contributions):
            with suppress(CollectiveError):  # of the store: the next publisher has its turn
                state = pack_state(self._anchor.state)
                self.end.states.publish(following, state, self.end.publish_every)


def average_by_senders(local: Encoding, outcome: Outcome) -> dict[str, Array]:
    """Return {name: (size,)} means, each element over the members that sent it; 0 if none did.

    The divisor is at least the largest weight of a member. So a member of small weight that alone sends an
    element has a small effect.

    Raises CollectiveError for all peers if all weights are 0.
    """
    weights = Weights.of([one.weight for one in outcome.contributions], mean=True)
    if weights is None:
        raise CollectiveError("all members have weight 0, so nobody sends", reason="argument")
    payloads = [one.payload for one in outcome.contributions]
    limits = local.get_limits(payloads)
    sums = {name: np.zeros(shape, dtype) for name, (shape, dtype) in local.specs.items()}
    divisors = {name: np.zeros(x.size, x.dtype) for name, x in sums.items()}
    for rank, payload in enumerate(payloads):
        share = weights.of_rank(rank)
        if not share:
            continue
        tensors = wc.decode_many(payload, limits=limits, schema=local.specs)
        for name, total in sums.items():
            tensors[name].add_to(total, scale=share)
            divisors[name][tensors[name].indices] += total.dtype.type(share)
    means = {}
    for name, total in sums.items():
        np.maximum(divisors[name], total.dtype.type(weights.largest), out=divisors[name])
        means[name] = total.reshape(-1) / divisors[name]
    return means

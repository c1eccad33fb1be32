"""A round: contributions arrive, one peer decides who counts, and all read just these.

    put       this peer writes its object
    wait      until everybody who is expected has arrived, or the deadline has passed with a quorum
    decide    create ``members`` exclusively; whoever fails takes the decision that is there
    read      the objects of the members; each is judged again, whoever has decided

The decision is that of the first slot which is valid. Whether it is valid is a function of its bytes, of the
objects that it names, and of the rules. So all peers take the same decision, or none.
"""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from collectives.errors import CollectiveError
from collectives.store.arrivals import Arrivals, Place
from collectives.store.contribution import Contribution, Terms
from collectives.store.envelope import Envelope, Kind, open_envelope
from collectives.store.files import Listed
from collectives.store.layout import ObjectName, parse_slot, path_of_members, path_of_round
from collectives.store.members import Members, RefusedObject, max_members, parse_members
from collectives.store.signing import Ring
from collectives.store.slots import Slots

MAX_GRACE = 5.0
"""Seconds for which the members of a round may be incomplete, in stores that show objects too early."""


@dataclass(frozen=True)
class Timing:
    """Times of a peer, in seconds of its own clock.

    Attributes:
        deadline: after its own contribution, until it decides without those that are missing.
        poll: between two looks at the store.
        timeout: after its own contribution, until it gives up a round without a quorum; if everybody who is
            expected has arrived, it does so after the deadline.
    """

    deadline: float
    poll: float
    timeout: float


@dataclass(frozen=True, eq=False)
class Outcome:
    """Result of a round, the same for all members.

    Attributes:
        number: of the round.
        contributions: that count, in the order of their peers' names; none if the round is void.
        refused: objects that do not count, with their codes.
    """

    number: int
    contributions: tuple[Contribution, ...] = ()
    refused: tuple[RefusedObject, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the members."""
        return tuple(one.name for one in self.contributions)

    def find(self, digest: bytes | None) -> int | None:
        """Return the place of an object among those that count, or None."""
        digests = [one.digest for one in self.contributions]
        return digests.index(digest) if digest in digests else None

    def find_code(self, digest: bytes | None) -> str | None:
        """Return the code by which an object was refused, or None."""
        wanted = None if digest is None else digest.hex()
        return next((one.code for one in self.refused if one.digest == wanted), None)


@dataclass(frozen=True)
class RoundReport:
    """Result of a round for a program.

    Attributes:
        number: of the round.
        members: names of the peers that count, in the order of the sum.
        refused: {name: code} of the objects that do not count.
        rank: place of this peer among the members, or None if it does not count.
    """

    number: int
    members: tuple[str, ...]
    refused: Mapping[str, str]
    rank: int | None


@dataclass
class Round:
    """State of one round at one peer.

    Attributes:
        place: of the round.
        ring: keys of this peer.
        name: of this peer.
        arrivals: objects that it has seen.
        timing: of this peer.
        patience: seconds until an object of a member that cannot be read is taken for deleted.
        own: its contribution, or None if it only reads.
        slot: the first slot whose verdict is open.
    """

    place: Place
    ring: Ring
    name: str
    arrivals: Arrivals
    timing: Timing
    patience: float
    own: Contribution | None = None
    slot: int = 0
    _since: float = field(default_factory=time.monotonic)

    def look(self) -> list[Listed]:
        """Return what is in the round's folder."""
        return self.place.files.entries(path_of_round(self.place.number))

    def has_decision(self, entries: Iterable[Listed]) -> bool:
        """Return whether a slot is taken whose verdict is open."""
        slots = [slot for entry in entries if (slot := parse_slot(entry.base)) is not None]
        return any(slot >= self.slot for slot in slots)

    def enter(self, own: Contribution) -> None:
        """Note this peer's contribution, which is written next; its deadline begins."""
        self.own, self._since = own, time.monotonic()
        self.arrivals.add(own)

    def restart(self) -> None:
        """Let the deadline begin again, after a time in which the store could not be reached."""
        self._since = time.monotonic()

    def wait(self, expected: Collection[str]) -> Outcome:
        """Wait for a decision, or make it; return the result.

        Args:
            expected: names for which it waits until the deadline; empty to wait for the deadline in any case.

        Raises:
            CollectiveError: the store fails, an object of a member is gone, or the members' terms differ from
                this peer's.
        """
        assert self.own is not None
        timing = self.timing
        while True:
            entries = self.look()
            if self.has_decision(entries):
                outcome = self.read()
                if outcome is not None:
                    return outcome
            self.arrivals.update(entries)
            waited = time.monotonic() - self._since
            members = self.arrivals.propose([self.own.digest.hex()])
            has_quorum = len(members.accepted) >= self.place.rules.quorum
            has_all = bool(expected) and self.arrivals.has_all(expected)
            if has_quorum and (has_all or waited > timing.deadline):
                outcome = self.decide(members)
            elif waited > timing.timeout or (has_all and waited > timing.deadline):
                outcome = self.decide(Members((), members.refused))
            else:
                # Peers that look at different times do not all write a decision at once.
                pause = timing.poll * random.uniform(0.6, 1.2)
                time.sleep(min(pause, max(timing.deadline - waited, timing.poll / 4)))
                continue
            if outcome is not None:
                return outcome

    def decide(self, members: Members) -> Outcome | None:
        """Create the members of the round, unless another peer has; return the result as ``read``.

        Lists may lag behind, so the slots are read, and not looked for in a list.
        """
        made = Envelope(Kind.MEMBERS, self.place.run, self.place.number, self.name, members.pack())
        self._slots().claim(lambda: made.pack(self.ring.sign), self.slot)
        return self.read()

    def read(self) -> Outcome | None:
        """Return the result by the first valid slot; None if there is none so far.

        Raises CollectiveError if an object of a member cannot be read, or the members' terms are others.
        """
        while True:
            slot, found = self._slots().find(self.slot)
            self.slot = slot  # earlier ones are not valid, for anybody
            if found is None:
                return None
            outcome = self._evaluate(parse_members(found, self.place.rules, self.place.verify))
            if outcome is not None:
                return outcome
            self.slot = slot + 1

    def is_named(self) -> bool:
        """Return whether a decision names this peer's contribution, also if it cannot be evaluated."""
        _, found = self._slots().find(self.slot)
        if found is None or self.own is None:
            return False
        entry = parse_members(found, self.place.rules, self.place.verify).find(self.name)
        return entry is not None and entry.digest == self.own.digest

    def _slots(self) -> Slots:
        place = self.place

        def parse(data: bytes) -> Envelope:
            found = open_envelope(data, Kind.MEMBERS, place.run, place.number, place.verify)
            parse_members(found, place.rules, place.verify)
            return found

        grace = min(MAX_GRACE, place.files.patience / 4)
        return Slots(
            place.files,
            lambda slot: path_of_members(place.number, slot),
            parse,
            max_members(place.rules),
            grace,
        )

    def _evaluate(self, members: Members) -> Outcome | None:
        """Return the result of a decision; None if it is not valid, because its objects are not."""
        number = self.place.number
        if members.is_void:
            return Outcome(number, (), members.refused)
        found = self._fetch(members)
        terms = choose_terms(found, self.place.rules.quorum)
        if terms is None:
            return None
        if terms.key != self.arrivals.terms.key:
            reason = self.arrivals.terms.find_difference(terms)
            raise CollectiveError(
                f"peer {self.name!r} differs from the {len(found)} members of round {number}:"
                f" {_ADVICE[reason]}",
                reason=reason,
            )
        good = [one for one in found if ObjectName(one.name, one.digest.hex()) in self.arrivals.good]
        if len(good) < self.place.rules.quorum:
            return None
        kept = {one.name for one in good}
        dropped = [
            RefusedObject(one.name, one.digest.hex(), self._code(one.name, one.digest))
            for one in members.accepted
            if one.name not in kept
        ]
        return Outcome(number, tuple(good), (*members.refused, *dropped))

    def _code(self, name: str, digest: bytes) -> str:
        return self.arrivals.refused.get(ObjectName(name, digest.hex()), "terms")

    def _fetch(self, members: Members) -> list[Contribution]:
        """Read the objects of all members, in their order, without those whose envelopes are wrong."""
        found = []
        end = time.monotonic() + self.patience
        for entry in members.accepted:
            named = ObjectName(entry.name, entry.digest.hex())
            while True:
                one = self.arrivals.read(named)
                if one is not None or named in self.arrivals.refused:
                    break
                if time.monotonic() > end:
                    raise CollectiveError(
                        f"round {self.place.number}: the object of member {entry.name!r} is not in the store,"
                        " or is incomplete; it was deleted, or never written",
                        reason="transport",
                    )
                time.sleep(min(self.timing.poll, 1.0))
            if one is not None:
                found.append(one)
        return found


_ADVICE = {
    "parameters": "its parameters or rounds are others; call synchronize()",
    "operation": "it makes another call",
    "shape": "names, shapes or types of its tensors are others",
    "scheme": "its scheme or settings are others",
}


def choose_terms(contributions: Iterable[Contribution], quorum: int) -> Terms | None:
    """Return the terms of the largest group of equal ones, the first of several; None below the quorum."""
    groups: dict[tuple[object, ...], list[Contribution]] = {}
    for one in contributions:
        if not one.is_absent:
            groups.setdefault(one.terms.key, []).append(one)
    largest = max(groups.values(), key=len, default=[])
    return largest[0].terms if len(largest) >= quorum else None

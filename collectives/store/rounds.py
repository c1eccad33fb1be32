"""A round: contributions arrive, a peer proposes who counts, and one record takes the proposal.

    put       this peer writes its object
    wait      until everybody who is expected has arrived, or the deadline has passed with a quorum
    propose   write into the log who counts, unless another peer has
    vote      take a proposal whose objects have arrived and are good, and drop another one
    read      the objects of the proposal that is taken; each is judged again, whoever has proposed it

The log of the round (``collectives.store.log``) decides, and it is the same for all. What a peer sees of the
contributions is only the reason of its vote.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from collectives.errors import CollectiveError
from collectives.store.arrivals import Arrivals, Judged
from collectives.store.contribution import Contribution, Terms
from collectives.store.envelope import Kind
from collectives.store.files import Listed
from collectives.store.layout import ObjectName, path_of_round
from collectives.store.log import Log, Place
from collectives.store.members import Accepted, Members, RefusedObject
from collectives.store.signing import Ring

MAX_GRACE = 5.0
"""Seconds for which a slot may be incomplete, in stores that show objects too early."""
MIN_ABSENCE = 5.0
"""Seconds for which a peer waits for a named object that is absent, also with a shorter deadline."""


class Lost(CollectiveError):
    """Error of a round that is decided, and has no result here: its objects or its log cannot be read."""


class OtherTerms(CollectiveError):
    """Error of a peer whose terms are not those of the members: its contribution cannot count."""


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

    @property
    def absence(self) -> float:
        """Seconds until an object is absent that a proposal names: whoever has proposed it has read it."""
        return min(self.timeout, max(self.deadline, min(MIN_ABSENCE, self.timeout / 4)))


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
        patience: seconds until an object that cannot be read is absent.
        is_past: returns whether the run has gone on until the log of this round was deleted.
        log: of the round.
        own: this peer's contribution, or None if it only reads.
    """

    place: Place
    ring: Ring
    name: str
    arrivals: Arrivals
    timing: Timing
    patience: float
    is_past: Callable[[], bool]
    log: Log = field(init=False)
    own: Contribution | None = None
    _since: float = field(default_factory=time.monotonic)
    _asked: tuple[bytes | None, float] = (None, 0.0)
    _is_gone: bool = False
    _judged: dict[ObjectName, Judged] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.log = Log(self.place, min(MAX_GRACE, self.place.files.patience / 4))

    def look(self) -> list[Listed]:
        """Return what is in the round's folder."""
        return self.place.files.entries(path_of_round(self.place.number))

    def enter(self, own: Contribution) -> None:
        """Note this peer's contribution, which is written next; its deadline begins."""
        self.own, self._since = own, time.monotonic()
        self.arrivals.add(own)

    def restart(self) -> None:
        """Let all times begin again, after a time in which the store could not be reached."""
        self._since = time.monotonic()
        self._asked = self._asked[0], self._since

    def wait(self, expected: Collection[str]) -> Outcome:
        """Wait for a decision, or make it; return the result.

        Args:
            expected: names for which it waits until the deadline; empty to wait for the deadline in any case.

        Raises:
            Lost: the round is decided, and an object of a member cannot be read.
            OtherTerms: the members' terms differ from this peer's.
            CollectiveError: the store fails.
        """
        while True:
            entries = self.look()
            if self.log.has_news(entries):
                self.log.read()
            if self.log.pending is None and self.log.taken is None:
                self.arrivals.update(entries)
                self._propose(expected)
            if self.log.pending is not None and self.log.taken is None:
                self._vote()
            if self.log.taken is not None:
                return self._conclude()
            self._pause()

    def read(self) -> Outcome | None:
        """Return the result of a round that is decided, and None of one that is open; raise as ``wait``."""
        self.log.read()
        return None if self.log.taken is None else self._conclude()

    def is_named(self) -> bool:
        """Return whether the decision names this peer's contribution, also if it cannot be evaluated."""
        decision = self.log.decision
        if decision is None or self.own is None:
            return False
        entry = decision.find(self.name)
        return not self._is_gone and entry is not None and entry.digest == self.own.digest

    def _pause(self) -> None:
        """Wait between two looks; peers that look at different times do not all propose at once."""
        left = self.timing.deadline - (time.monotonic() - self._since)
        pause = self.timing.poll * random.uniform(0.6, 1.2)
        time.sleep(min(pause, max(left, self.timing.poll / 4)))

    def _propose(self, expected: Collection[str]) -> None:
        """Propose the members of the round if it is time."""
        timing, waited = self.timing, time.monotonic() - self._since
        members = self.arrivals.propose()
        has_quorum = len(members.accepted) >= self.place.rules.quorum
        has_all = bool(expected) and self.arrivals.has_all(expected)
        if has_quorum and (has_all or waited > timing.deadline):
            self._append(Kind.MEMBERS, members.pack())
        elif waited > timing.timeout or (has_all and waited > timing.deadline):
            self._append(Kind.MEMBERS, Members((), members.refused).pack())

    def _vote(self) -> None:
        """Take or drop the pending proposal as soon as its objects tell which.

        Raises OtherTerms if they tell that the members' terms are others: then this peer has no vote.
        """
        pending = self.log.pending
        assert pending is not None
        members = self.log.proposals[pending]
        judged = self._judge(members)
        if judged is None:
            if time.monotonic() - self._asked[1] > self.patience:
                self._append(Kind.DROPPED, b"")
            return
        terms = self._find_terms(judged)
        good = sum(not one.code for one in judged)
        is_of_use = members.is_void or (terms is not None and good >= self.place.rules.quorum)
        self._take(pending) if is_of_use else self._append(Kind.DROPPED, b"")

    def _take(self, proposal: bytes) -> None:
        """Take a proposal. Raises Lost if the log was deleted meanwhile: the round was decided before.

        A process that was suspended finds an empty log, and would decide the round once more, alone.
        """
        if self._append(Kind.TAKEN, proposal) and self.is_past():
            self._is_gone = True
            raise Lost(
                f"round {self.place.number} was decided and deleted while this process did not run; nothing"
                " of this peer counts in it. It goes on with the next one; with LocalUpdates, call"
                " synchronize()",
                reason="sequence",
            )

    def _append(self, kind: Kind, body: bytes) -> bool:
        """Write a record into the log, and return True, unless another peer was faster."""
        return self.log.append(kind, body, self.name, self.ring.sign)

    def _conclude(self) -> Outcome:
        """Return the result of the proposal that is taken, when its objects have arrived."""
        number, members = self.place.number, self.log.decision
        if members is None:
            raise Lost(
                f"round {number} is decided by members that are not in the store: somebody has overwritten"
                " them. This peer has no result of the round, and goes on with the next one",
                reason="transport",
            )
        while (judged := self._judge(members)) is None:
            if time.monotonic() - self._asked[1] > self.patience:
                missing = next(x.name for x in members.accepted if _name_of(x) not in self._judged)
                raise Lost(
                    f"round {number}: the object of member {missing!r} is not in the store, or has other"
                    " bytes; it was deleted, overwritten, or never written. This peer has no result of the"
                    " round, and goes on with the next one",
                    reason="transport",
                )
            time.sleep(min(self.timing.poll, 1.0))
        good = [one.contribution for one in judged if one.contribution is not None and not one.code]
        if self._find_terms(judged) is None or len(good) < self.place.rules.quorum:
            good = []  # whoever has taken it breaks the rules; it is void for all
        kept = {one.name for one in good}
        dropped = [
            RefusedObject(entry.name, entry.digest.hex(), one.code or "quorum")
            for entry, one in zip(members.accepted, judged, strict=True)
            if entry.name not in kept
        ]
        return Outcome(number, tuple(good), (*members.refused, *dropped))

    def _judge(self, members: Members) -> Sequence[Judged] | None:
        """Return the verdicts on all objects of a proposal, in its order; None while one has not arrived."""
        if self._asked[0] != (digest := members.pack()):
            self._asked, self._judged = (digest, time.monotonic()), {}
        for entry in members.accepted:
            named = _name_of(entry)
            if named not in self._judged and (one := self.arrivals.judge(named)) is not None:
                self._judged[named] = one
        found = [self._judged.get(_name_of(entry)) for entry in members.accepted]
        return None if None in found else [one for one in found if one is not None]

    def _find_terms(self, judged: Iterable[Judged]) -> Terms | None:
        """Return the terms of a proposal, None below the quorum; raise OtherTerms if others."""
        found = [one.contribution for one in judged if one.contribution is not None]
        terms = choose_terms(found, self.place.rules.quorum)
        if terms is not None and terms.key != self.arrivals.terms.key:
            reason = self.arrivals.terms.find_difference(terms)
            raise OtherTerms(
                f"peer {self.name!r} differs from the {len(found)} members of round {self.place.number}:"
                f" {ADVICE[reason]}",
                reason=reason,
            )
        return terms


def _name_of(entry: Accepted) -> ObjectName:
    return ObjectName(entry.name, entry.digest.hex())


ADVICE = {
    "parameters": "its parameters or rounds are others; call synchronize()",
    "operation": "it makes another call",
    "shape": "names, shapes or types of its tensors are others",
    "scheme": "its scheme or settings are others",
    "version": "its program has another version of the objects; install the same wirecodec on all peers",
}
"""What a peer whose terms differ from the members' learns, by the reason of its error."""


def choose_terms(contributions: Iterable[Contribution], quorum: int) -> Terms | None:
    """Return the terms of the largest group of equal ones, the first of several; None below the quorum."""
    groups: dict[tuple[object, ...], list[Contribution]] = {}
    for one in contributions:
        if not one.is_absent:
            groups.setdefault(one.terms.key, []).append(one)
    largest = max(groups.values(), key=len, default=[])
    return largest[0].terms if len(largest) >= quorum else None

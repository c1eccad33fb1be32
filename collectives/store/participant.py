"""A peer's part in the rounds of a run: where it is, what it writes, and what it has seen."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

from collectives.agreement.header import Status
from collectives.channel import ByteArray
from collectives.errors import CollectiveError, Refused
from collectives.store.arrivals import Arrivals
from collectives.store.contribution import (
    MAX_TEXT,
    Check,
    Contribution,
    Terms,
    judge,
    make_body,
    pack_contribution,
    read_contribution,
)
from collectives.store.envelope import Envelope
from collectives.store.files import Traffic
from collectives.store.layout import (
    ROUNDS,
    parse_contribution,
    parse_round,
    path_of_contribution,
    path_of_round,
)
from collectives.store.log import Log, Place
from collectives.store.members import Members
from collectives.store.rounds import ADVICE, Lost, OtherTerms, Outcome, Round, RoundReport, Timing
from collectives.store.rules import Rules
from collectives.store.signing import Ring
from collectives.store.states import States
from wirecodec.interop import flushes_denormals

OLD_ROUNDS = 16
"""Folders of rounds are deleted after so many times the rounds whose objects are kept."""
MIN_KEEP = 2
"""The fewest rounds whose objects a peer keeps."""
MAX_SHOWN = 4
"""Refused objects that an error names."""
REPLAY_POLLS = 10
"""Looks at an object of an earlier round before it is taken for deleted."""


@dataclass(frozen=True)
class _Open:
    """Round whose result is not known here, because the store failed."""

    round: Round
    path: str
    data: bytes
    digest: bytes
    settle: Callable[[bool], None]


class Participant:
    """Peer in the rounds of a run; ``StoreComm`` makes it from a program's arguments.

    Args:
        name: of this peer.
        place: of the run.
        ring: its keys.
        timing: of this peer.
        publish_every, keep: as for ``StoreComm``.

    Attributes:
        name, publish_every: as given.
        round: number of the next round, or None before the first one.
        last: a report of the last round, or None.
    """

    is_end: ClassVar[bool] = True

    def __init__(
        self, name: str, place: Place, ring: Ring, timing: Timing, publish_every: int, keep: int
    ) -> None:
        self.name, self._place, self._ring, self._timing = name, place, ring, timing
        self._expected: frozenset[str] = frozenset()
        self._open: _Open | None = None
        self._was_member, self._displaced = False, 0
        self.publish_every, self._keep = publish_every, keep
        self.round: int | None = None
        self.last: RoundReport | None = None

    @property
    def traffic(self) -> Traffic:
        """Bytes and requests of this peer so far."""
        return self._place.files.traffic

    @property
    def rules(self) -> Rules:
        """Rules of the run."""
        return self._place.rules

    @property
    def rank(self) -> int:
        """Number that is mixed into the seeds of this peer; it follows from the name."""
        return int.from_bytes(hashlib.sha256(self.name.encode()).digest()[:4], "little") >> 1

    @property
    def size(self) -> int:
        """Number of members of the last round; the quorum before the first one."""
        return len(self.last.members) if self.last and self.last.members else self.rules.quorum

    @property
    def states(self) -> States:
        """States that members publish."""
        return States(self._place, self._ring, self.name)

    @property
    def is_open(self) -> bool:
        """Whether the result of the last round is not known here, because the store failed."""
        return self._open is not None

    def channels(self) -> tuple[()]:
        """Return nothing: no exchange of a store is counted as skipped."""
        return ()

    def settle(self) -> None:
        """Learn the result of a round during which the store failed, before the next one."""
        if self._open is None:
            return
        one = self._open
        counts = False if self._is_gone(one.round) else self._find_result(one)
        one.settle(counts)  # again without effect, if an interrupt comes before the next line
        self._open = None

    def _is_gone(self, one: Round) -> bool:
        """Return whether an open round was decided and deleted; this peer must not decide it once more."""
        log = Log(one.place, one.log.grace)
        log.read()
        return one.log.taken is None and not log.slot and self.find_newest(one.place.number) is not None

    def _is_past(self, place: Place) -> bool:
        """Return whether a round, which this peer has just decided, was decided and deleted before.

        Later rounds begin after the decision. Folders are deleted once, so a record that is there in spite of
        many later rounds was written after that.
        """
        if self.find_newest(above=place.number + OLD_ROUNDS * MIN_KEEP - 1) is None:
            return False
        log = Log(place, grace=0)
        log.read()
        return log.taken is not None

    def _find_result(self, one: _Open) -> bool:
        """Take part in an open round again; return whether this peer's contribution counts."""
        self._place.files.put(one.path, one.data)  # an earlier try may have failed; twice is once
        one.round.restart()
        try:
            return one.round.wait(self._expected).find(one.digest) is not None
        except Lost:
            self.round = one.round.place.number + 1
            return one.round.is_named()
        except OtherTerms:
            if one.round.log.taken is None:
                raise
            return False

    def rollback(self) -> None:
        """Take a contribution whose result is not known for one that does not count."""
        if self._open is not None:
            self._open.settle(False)
            self._open = None

    def locate(self) -> int:
        """Return the number of the next round; at first, that after the newest round with a decision."""
        if self.round is None:
            newest = self.find_newest()
            self.round = 0 if newest is None else newest + 1
        return self.round

    def find_newest(self, above: int = -1) -> int | None:
        """Return the number of the newest round that is decided, or None.

        Names of folders prove nothing. A round counts if a proposal is taken that names a quorum; with keys,
        these have signed for that round. Void rounds count only behind such a one, or behind each other from
        the first round on. So whoever makes folders of later rounds costs a request for each.

        Args:
            above: only rounds with a higher number are looked at.

        Raises CollectiveError if it takes longer than ``timeout``.
        """
        listed = self._place.files.entries(ROUNDS)
        numbers = {n for entry in listed if (n := parse_round(entry.base)) is not None and n > above}
        end = time.monotonic() + self._timing.timeout
        newest: int | None = None
        for number in sorted(numbers, reverse=True):
            decision = self._read_decision(number)
            if decision is not None and not decision.is_void:
                newest = number
                break
            if time.monotonic() > end:
                raise CollectiveError(
                    f"{len(numbers)} folders of rounds, of which {number} and later ones are not decided:"
                    " somebody destroys the run; delete them, or continue in another run",
                    reason="protocol",
                )
        if newest is None and above >= 0:
            return None
        following = 0 if newest is None else newest + 1
        while following in numbers and self._read_decision(following) is not None:
            newest, following = following, following + 1
        return newest

    def _read_decision(self, number: int) -> Members | None:
        """Return the proposal that is taken in a round, or None."""
        log = Log(replace(self._place, number=number), grace=0)
        with suppress(CollectiveError):
            log.read()
        return log.decision

    def open_round(self, number: int, terms: Terms, check: Check, *, is_old: bool = False) -> Round:
        """Return a round at this peer, before anything was read.

        Args:
            number: of the round.
            terms: of this peer.
            check: checks payloads.
            is_old: whether its objects were all written long ago.

        Raises CollectiveError if this peer flushes denormal numbers to zero, as its sums would be others.
        """
        if flushes_denormals():
            raise CollectiveError(
                f"peer {self.name!r} flushes denormal numbers to zero, so its sums would differ from those of"
                " the others: call torch.set_flush_denormal(False) in this thread, after the import of the"
                " library that has changed the mode",
                reason="denormals",
            )
        place = replace(self._place, number=number)
        timing = self._timing
        patience = min(timing.absence, REPLAY_POLLS * timing.poll) if is_old else timing.absence
        return Round(
            place,
            self._ring,
            self.name,
            Arrivals(place, terms, check),
            timing,
            patience,
            partial(self._is_past, place),
        )

    def read_round(self, terms: Terms, check: Check, *, number: int | None = None) -> Outcome | None:
        """Return the result of a round that is decided, and None of one that is open.

        Raises CollectiveError if it cannot be read any more, or its terms are others. If it is the next
        round, and its objects are absent (``Lost``), this peer goes on with the one after it.
        """
        number = self.locate() if number is None else number
        one = self.open_round(number, terms, check, is_old=True)
        entries = one.look()
        if one.log.has_news(entries):
            try:
                outcome = one.read()
            except Lost:
                if number == self.round:
                    self.round = number + 1
                raise
            if outcome is not None:
                return outcome
        if not any(parse_contribution(entry.base) for entry in entries):
            newest = self.find_newest(above=number)
            if newest is not None:
                raise CollectiveError(
                    f"round {number} was deleted, and round {newest} is decided: this peer was away for too"
                    " long; with LocalUpdates, call synchronize()",
                    reason="sequence",
                )
        return None

    def take_part(
        self, terms: Terms, payload: ByteArray | bytes, check: Check, settle: Callable[[bool], None]
    ) -> tuple[Outcome, int | None, CollectiveError | None]:
        """Write this peer's contribution to the next round, and return the result.

        Args:
            terms: of this peer.
            payload: its container or bytes.
            check: checks payloads.
            settle: is called later, if the store fails before the result is known, with whether the
                contribution counts.

        Returns:
            The result; this peer's place in it, or None if it came too late; and the error that the call
            raises after ``advance``: the round is void, for all peers (reason "timeout"), this peer's
            contribution was refused ("refused"), or another process has its name ("name").

        Raises:
            CollectiveError: the others would refuse this contribution, the store fails ("transport"), the
                members differ from this peer, or their objects are absent ("transport"). The result of the
                round is not known here.
        """
        number = self.locate()
        outcome = self.read_round(terms, check)
        digest: bytes | None = None
        if outcome is None:
            made, data = self._pack(number, terms, payload)
            digest = made.digest
            one = self.open_round(number, terms, check)
            one.enter(self._check_own(number, terms, check, data))
            path = path_of_contribution(number, self.name, digest)
            self._open = _Open(one, path, data, digest, settle)
            self._place.files.put(path, data)
            try:
                outcome = one.wait(self._expected)
            except Lost:
                self.round = number + 1
                settle(one.is_named())
                self._open = None
                raise
        rank = outcome.find(digest)
        return outcome, rank, self._find_error(outcome, digest, rank)

    def announce_absence(self, terms: Terms, text: str) -> None:
        """Tell the others not to wait for this peer in the next round, because it cannot contribute."""
        number = self.locate()
        header = terms.header._replace(weight=0.0, status=terms.header.status or Status.ENCODE)
        made, data = self._pack(
            number, replace(terms, header=header), text.encode("utf-8", "replace")[:MAX_TEXT]
        )
        self._place.files.put(path_of_contribution(number, self.name, made.digest), data)

    def _pack(self, number: int, terms: Terms, payload: ByteArray | bytes) -> tuple[Envelope, bytes]:
        """Return this peer's object for a round, and its bytes."""
        header = terms.header._replace(sequence=number)
        body = make_body(replace(terms, header=header), payload)
        return pack_contribution(self.name, self._place.run, number, body, self._ring.sign)

    def _check_own(self, number: int, terms: Terms, check: Check, data: bytes) -> Contribution:
        """Return this peer's contribution as others read it; raise CollectiveError if it would be refused."""
        place = self._place
        try:
            own = read_contribution(data, place.run, number, self.name, place.rules)
            judge(own, terms, check)
        except Refused as refused:
            with suppress(CollectiveError):
                self.announce_absence(terms, str(refused))
            raise CollectiveError(
                f"round {number}: the others would refuse the object of peer {self.name!r}: {refused}",
                reason=_reason_of(refused.code),
            ) from refused
        return own

    def move_to(self, number: int) -> None:
        """Go on with a round, whatever came before it."""
        self.round = number

    def advance(self, outcome: Outcome, rank: int | None) -> None:
        """Go on with the next round, after the caller has used the result of this one.

        If an interrupt comes before, the round is read again. A second call has no further effect.

        Args:
            outcome: of the round.
            rank: of this peer, or None.
        """
        refused = {one.name: one.code for one in outcome.refused}
        self.last = RoundReport(outcome.number, outcome.names, refused, rank)
        self.round, self._open = outcome.number + 1, None
        if outcome.names:
            self._expected = frozenset(outcome.names)
        if rank is not None:
            self._was_member = True

    def clean(self, outcome: Outcome, rank: int | None) -> None:
        """Delete objects that are no longer needed, if it is this peer's turn after a round."""
        if rank is not None and outcome.number % len(outcome.names) == rank:
            self._delete_old(outcome.number)

    def _find_error(self, outcome: Outcome, digest: bytes | None, rank: int | None) -> CollectiveError | None:
        """Return the error of a round that is void, or in which this peer's object was refused."""
        number = outcome.number
        code = outcome.find_code(digest)
        has_other = digest is not None and rank is None and self.name in outcome.names
        self._displaced += has_other
        # A process that was started again meets an object of its earlier life, once.
        if has_other and (self._was_member or self._displaced > 1):
            return CollectiveError(
                f"round {number}: another process takes part under the name {self.name!r}; each peer needs a"
                " name of its own",
                reason="name",
            )
        if code not in (None, "duplicate"):
            advice = f": {ADVICE[code]}" if code in ADVICE else ""
            return CollectiveError(
                f"round {number}: the object of peer {self.name!r} was refused: {code}{advice}",
                reason=_reason_of(code),
            )
        if not outcome.contributions:
            return CollectiveError(
                f"round {number} is void: fewer than {self.rules.quorum} peers took part in time. Nothing"
                f" of it counts, for any peer{_list_refused(outcome)}",
                reason="timeout",
            )
        return None

    def _delete_old(self, number: int) -> None:
        """Delete the objects of a round that is no longer needed, and now and then a folder."""
        old = number - self._keep
        if old < 0:
            return
        files = self._place.files
        files.clean(path_of_round(old), lambda base: parse_contribution(base) is not None)
        oldest = number - OLD_ROUNDS * self._keep
        if oldest >= 0:
            files.delete_folder(path_of_round(oldest))


def _list_refused(outcome: Outcome) -> str:
    """Return the objects of a round that were refused, as the end of a message; "" if there are none."""
    shown = [
        f"that of {one.name!r} ({ADVICE.get(one.code, one.code)})" for one in outcome.refused[:MAX_SHOWN]
    ]
    return f". Objects were refused: {', '.join(shown)}" if shown else ""


def _reason_of(code: str | None) -> str:
    """Return the reason of a CollectiveError for a refused contribution."""
    return "value" if code == "nonfinite" else "refused"

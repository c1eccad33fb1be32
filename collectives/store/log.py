"""Log of a round: proposals of members, and records that take or drop them, in the slots of an agreed object.

    members   proposes who counts; what it names may be absent or not good
    taken     decides the round by the digest of a proposal; the first one counts
    dropped   tells that the proposal before it cannot be used, so that another one can follow

The decision depends on the bytes of the log alone. Peers may differ in whether the contributions that a
proposal names have arrived. So no peer uses a proposal, or passes over it, before the log says so. Each slot
is created exclusively: what is taken cannot be dropped, also if peers look at different times.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from collectives.errors import Refused
from collectives.store.envelope import DIGEST, Envelope, Kind, Sign, Verify, open_slot
from collectives.store.files import Files, Listed
from collectives.store.layout import parse_slot, path_of_members
from collectives.store.members import Members, max_members, parse_members
from collectives.store.rules import Rules
from collectives.store.slots import Slots

_KINDS = Kind.MEMBERS, Kind.TAKEN, Kind.DROPPED


@dataclass(frozen=True)
class Place:
    """Place of a round, and what it takes to read its objects.

    Attributes:
        files, rules: of the run.
        run: hash of the run.
        number: of the round.
        verify: checks signatures.
        names: that may take part; empty for any.
    """

    files: Files
    rules: Rules
    run: bytes
    number: int
    verify: Verify
    names: frozenset[str]


@dataclass
class Log:
    """Log of a round, as far as this peer has read it.

    Attributes:
        place: of the round.
        grace: seconds for which a slot may be incomplete, in stores that show objects while they are written.
        slot: the first one that was not read.
        proposals: valid ones, by their digests.
        pending: digest of the proposal that is neither taken nor dropped, or None.
        taken: digest by which the round is decided, or None.
    """

    place: Place
    grace: float
    slot: int = 0
    proposals: dict[bytes, Members] = field(default_factory=dict)
    pending: bytes | None = None
    taken: bytes | None = None

    @property
    def decision(self) -> Members | None:
        """The proposal that is taken; None if there is none, or if somebody has overwritten it."""
        return None if self.taken is None else self.proposals.get(self.taken)

    def has_news(self, entries: Iterable[Listed]) -> bool:
        """Return whether a list of the round's folder has a slot that was not read."""
        slots = [slot for entry in entries if (slot := parse_slot(entry.base)) is not None]
        return any(slot >= self.slot for slot in slots)

    def read(self) -> None:
        """Read on until the round is decided or a slot is free; lists may lag behind, slots do not."""
        while self.taken is None:
            data = self._slots.read(self.slot)
            if data is None:
                return
            self._add(data)

    def append(self, kind: Kind, body: bytes, name: str, sign: Sign) -> bool:
        """Write a record into the slot after those that were read, unless another peer has; then read on.

        Args:
            kind, body: of the record.
            name: of this peer.
            sign: makes its signatures.

        Returns:
            Whether the record was written.
        """
        data = Envelope(kind, self.place.run, self.place.number, name, body).pack(sign)
        is_written = self._slots.create(self.slot, data)
        self._add(data) if is_written else self.read()
        return is_written

    def _add(self, data: bytes) -> None:
        """Take note of the bytes in the next slot; those that are no valid record change nothing.

        If an exception breaks it off, the slot is read again: noting a record twice has no further effect.
        """
        with suppress(Refused):
            self._note(data)
        self.slot += 1

    def _note(self, data: bytes) -> None:
        place = self.place
        found = open_slot(data, _KINDS, place.run, place.number, place.verify)
        if found.kind == Kind.MEMBERS:
            self._propose(found.digest, parse_members(found, place.rules, place.verify))
        elif len(found.body) != (DIGEST if found.kind == Kind.TAKEN else 0):
            raise Refused("members", "a record of the round has another length")
        elif found.kind == Kind.TAKEN:
            self.taken = found.body
        else:
            self.pending = None

    def _propose(self, digest: bytes, members: Members) -> None:
        """Take note of a proposal; while another one is pending, it may be taken, but is not judged."""
        self.proposals.setdefault(digest, members)
        self.pending = self.pending or digest

    @property
    def _slots(self) -> Slots:
        place = self.place
        limit = max_members(place.rules)
        return Slots(
            place.files, lambda slot: path_of_members(place.number, slot), Envelope.unpack, limit, self.grace
        )

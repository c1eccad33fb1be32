"""Published states, which peers that join take over, and the state before round 0."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collectives.errors import Refused
from collectives.store.envelope import (
    OVERHEAD,
    Envelope,
    Kind,
    has_digest,
    open_slot,
    require_signature,
)
from collectives.store.layout import (
    MAX_NAME,
    STATES,
    ObjectName,
    parse_state,
    path_of_start,
    path_of_state,
)
from collectives.store.log import Place
from collectives.store.signing import Ring
from collectives.store.slots import Slots

MAX_KEPT = 3
"""Publications of a run whose states are kept."""
_MAX_GRACE = 60.0


@dataclass(frozen=True)
class States:
    """States of a run.

    Attributes:
        place: of the run; the number of the round has no meaning.
        ring: keys of this peer.
        name: of this peer.
    """

    place: Place
    ring: Ring
    name: str

    def claim_start(self, make: Callable[[], bytes]) -> Envelope:
        """Return the state before round 0; write that of this peer if there is none."""

        def pack() -> bytes:
            return Envelope(Kind.STATE, self.place.run, 0, self.name, make()).pack(self.ring.sign)

        return self._start.claim(pack)

    def has_start(self) -> bool:
        """Return whether there is a state before round 0."""
        return self._start.find()[1] is not None

    @property
    def _start(self) -> Slots:
        """Slots of the state before round 0."""
        place = self.place

        def parse(data: bytes) -> Envelope:
            return open_slot(data, [Kind.STATE], place.run, 0, place.verify)

        grace = min(_MAX_GRACE, place.files.patience / 4)
        return Slots(place.files, path_of_start, parse, self._limit(), grace)

    def publish(self, number: int, body: bytes, every: int) -> None:
        """Write the state before a round, and delete older ones.

        Which ones are deleted depends on their numbers alone, not on what else somebody has written.

        Args:
            number: of the round.
            body: the state.
            every: rounds between two states of the run.
        """
        made = Envelope(Kind.STATE, self.place.run, number, self.name, body)
        self.place.files.put(path_of_state(number, self.name, made.digest), made.pack(self.ring.sign))
        for old, named, _ in self._list():
            if old <= number - MAX_KEPT * every:
                self.place.files.delete(path_of_state(old, named.name, bytes.fromhex(named.digest)))

    def read_newest(self, limit: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Yield (round, body) of published states, the newest first; those that are wrong are left out.

        Each wrong one costs a request. After ``timeout`` seconds, no further one is read.

        Args:
            limit: bytes of a state.
            last: number of the last round before which there can be a state.
        """
        limit = min(limit + OVERHEAD + MAX_NAME, self._limit())
        end = time.monotonic() + self.place.files.patience
        for number, named, size in sorted(self._list(), reverse=True):
            if number > last or size > limit:
                continue
            if time.monotonic() > end:
                return
            digest = bytes.fromhex(named.digest)
            data = self.place.files.get_if_allowed(path_of_state(number, named.name, digest), limit + 1)
            if data is None or len(data) > limit or not has_digest(data, digest):
                continue
            try:
                found = Envelope.parse(data)
                found.require_place([Kind.STATE], self.place.run, number, named.name)
                require_signature(found, digest, self.place.verify)
            except Refused:
                continue
            yield number, found.body

    def _list(self) -> list[tuple[int, ObjectName, int]]:
        """Return (round, name, bytes) of what is listed as a state of a peer that may take part."""
        names = self.place.names
        return [
            (*parsed, entry.size)
            for entry in self.place.files.entries(STATES)
            if (parsed := parse_state(entry.base)) is not None and (not names or parsed[1].name in names)
        ]

    def _limit(self) -> int:
        return self.place.rules.max_bytes + OVERHEAD + MAX_NAME

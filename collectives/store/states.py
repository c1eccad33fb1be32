"""Published states, which peers that join take over, and the state before round 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from collectives.errors import Refused
from collectives.store.arrivals import Place
from collectives.store.envelope import OVERHEAD, Envelope, Kind, open_envelope
from collectives.store.layout import (
    MAX_NAME,
    STATES,
    ObjectName,
    parse_state,
    path_of_start,
    path_of_state,
)
from collectives.store.signing import Ring
from collectives.store.slots import Slots

MAX_KEPT = 3
"""Rounds whose states are kept."""
MAX_LISTED = 64
"""States of a list that are read; more of them are of no use."""
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
        place = self.place
        limit = self._limit()

        def parse(data: bytes) -> Envelope:
            return open_envelope(data, Kind.STATE, place.run, 0, place.verify)

        def pack() -> bytes:
            return Envelope(Kind.STATE, place.run, 0, self.name, make()).pack(self.ring.sign)

        grace = min(_MAX_GRACE, place.files.patience / 4)
        return Slots(place.files, path_of_start, parse, limit, grace).claim(pack)

    def publish(self, number: int, body: bytes) -> None:
        """Write the state before a round, and delete states of older rounds."""
        made = Envelope(Kind.STATE, self.place.run, number, self.name, body)
        self.place.files.put(path_of_state(number, self.name, made.digest), made.pack(self.ring.sign))
        found = self._list()
        kept = sorted({one[0] for one in found if one[0] <= number}, reverse=True)[:MAX_KEPT]
        for old, named in found:
            if kept and old < kept[-1]:
                self.place.files.delete(path_of_state(old, named.name, bytes.fromhex(named.digest)))

    def read_newest(self, limit: int) -> Iterator[tuple[int, bytes]]:
        """Yield (round, body) of published states, the newest first; those that are wrong are left out.

        Args:
            limit: bytes of a state.
        """
        limit = min(limit + OVERHEAD + MAX_NAME, self._limit())
        for number, named in sorted(self._list(), reverse=True)[:MAX_LISTED]:
            path = path_of_state(number, named.name, bytes.fromhex(named.digest))
            data = self.place.files.get_if_allowed(path, limit + 1)
            if data is None or len(data) > limit:
                continue
            try:
                found = open_envelope(
                    data, Kind.STATE, self.place.run, number, self.place.verify, name=named.name
                )
            except Refused:
                continue
            if found.digest.hex() == named.digest:
                yield number, found.body

    def _list(self) -> list[tuple[int, ObjectName]]:
        names = self.place.names
        parsed = (parse_state(entry.base) for entry in self.place.files.entries(STATES))
        return [one for one in parsed if one is not None and (not names or one[1].name in names)]

    def _limit(self) -> int:
        return self.place.rules.max_bytes + OVERHEAD + MAX_NAME

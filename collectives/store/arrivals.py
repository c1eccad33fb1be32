"""Objects that have arrived in a round, with a verdict on each, as one peer sees them."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from collectives.errors import Refused
from collectives.store.contribution import (
    Check,
    Contribution,
    Terms,
    judge,
    max_object,
    read_contribution,
)
from collectives.store.envelope import Verify
from collectives.store.files import Files, Listed
from collectives.store.layout import ObjectName, parse_contribution, path_of_contribution
from collectives.store.members import Accepted, Members, RefusedObject
from collectives.store.rules import Rules

MAX_PER_NAME = 8
"""Unknown objects under one name that are read at a time; garbage only delays the good one."""
MAX_REFUSED = 16
"""Refused objects that are remembered, per peer that may take part."""
MAX_READS = 5
"""Reads of an object that is incomplete and does not grow."""
_PARTIAL = "truncated", "digest"


@dataclass(frozen=True)
class Place:
    """Place of a round, and what it takes to read its objects.

    Attributes:
        files, rules: of the run.
        run: hash of its name.
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

    def fetch(self, named: ObjectName) -> Contribution | None:
        """Read a contribution; return None if it is missing or incomplete, raise Refused if it is wrong."""
        path = path_of_contribution(self.number, named.name, bytes.fromhex(named.digest))
        data = self.files.get_if_allowed(path, max_object(self.rules) + 1)
        if data is None:
            return None
        try:
            found = read_contribution(data, self.run, self.number, named.name, self.rules, self.verify)
        except Refused as refused:
            if refused.code in _PARTIAL:
                return None
            raise
        return found if found.digest.hex() == named.digest else None


@dataclass
class Arrivals:
    """Objects that have arrived.

    Attributes:
        place: of the round.
        terms: of this peer.
        check: checks payloads.
        good: contributions that can count, by their names in the store.
        refused: codes of the others.
    """

    place: Place
    terms: Terms
    check: Check
    good: dict[ObjectName, Contribution] = field(default_factory=dict)
    refused: dict[ObjectName, str] = field(default_factory=dict)
    _present: set[str] = field(default_factory=set)
    _reads: dict[ObjectName, tuple[int, int]] = field(default_factory=dict)

    @property
    def _most_refused(self) -> int:
        return MAX_REFUSED * self.place.rules.max_peers

    @property
    def names(self) -> set[str]:
        """Names under which something has arrived."""
        return {one.name for one in (*self.good, *self.refused)}

    def has_all(self, expected: Collection[str]) -> bool:
        """Return whether all of these peers have written, also if they cannot contribute.

        An object that its peer has not written, or whose envelope is wrong, says nothing about that peer.
        """
        return self._present.issuperset(expected)

    def add(self, contribution: Contribution) -> None:
        """Add a contribution, after a verdict on it."""
        named = ObjectName(contribution.name, contribution.digest.hex())
        self._present.add(contribution.name)
        try:
            judge(contribution, self.terms, self.check)
        except Refused as refused:
            self.refused[named] = refused.code
        else:
            self.good[named] = contribution

    def update(self, entries: Iterable[Listed]) -> None:
        """Read the objects of a list that are not known yet."""
        counts: dict[str, int] = {}
        place = self.place
        for entry in entries:
            named = parse_contribution(entry.base)
            if named is None or entry.is_folder or (place.names and named.name not in place.names):
                continue
            if named in self.good or named in self.refused or len(self.refused) > self._most_refused:
                continue
            counts[named.name] = counts.get(named.name, 0) + 1
            if counts[named.name] > MAX_PER_NAME or len({*self.names, named.name}) > place.rules.max_peers:
                continue
            if entry.size > max_object(place.rules):
                self.refused[named] = "max-bytes"
                continue
            size, reads = self._reads.get(named, (-1, 0))
            if size == entry.size and reads >= MAX_READS:
                continue
            self._reads[named] = entry.size, reads + 1 if size == entry.size else 1
            self.read(named)

    def read(self, named: ObjectName) -> Contribution | None:
        """Read one object with a verdict; return it even if it is refused, None if it cannot be read yet."""
        if named in self.good:
            return self.good[named]
        try:
            found = self.place.fetch(named)
        except Refused as refused:
            self.refused[named] = refused.code
            return None
        if found is not None:
            self.add(found)
        return found

    def propose(self, preferred: Collection[str] = ()) -> Members:
        """Return a decision by which everything counts that has arrived and is good.

        Args:
            preferred: digests that count if their peer has several objects; otherwise the lowest one counts.
        """
        chosen: dict[str, Contribution] = {}
        duplicates: list[ObjectName] = []
        for named in sorted(self.good, key=lambda one: (one.digest not in preferred, one.digest)):
            if named.name in chosen:
                duplicates.append(named)
            else:
                chosen[named.name] = self.good[named]
        limit = self.place.rules.max_peers
        accepted = [Accepted(name, chosen[name].digest, chosen[name].signature) for name in sorted(chosen)][
            :limit
        ]
        codes = {**self.refused, **dict.fromkeys(duplicates, "duplicate")}
        refused = [RefusedObject(*named, code) for named, code in sorted(codes.items())][:limit]
        return Members(tuple(accepted), tuple(refused))

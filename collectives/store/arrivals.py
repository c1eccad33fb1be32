"""Objects that have arrived in a round, with a verdict on each, as one peer sees them.

A verdict follows from the digest in an object's name, from the rules and from the terms. Bytes with another
digest have not arrived, whatever they are. What a list or a signature tells serves a proposal only.
"""

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
from collectives.store.envelope import Kind, has_digest, make_statement
from collectives.store.files import Listed
from collectives.store.layout import ObjectName, parse_contribution, path_of_contribution
from collectives.store.log import Place
from collectives.store.members import Accepted, Members, RefusedObject
from collectives.store.rules import Rules

MAX_PER_NAME = 8
"""Unknown objects under one name that are read at a time; garbage only delays the good one. As many are read
beside a good one, to name them as refused."""
MAX_READS = 5
"""Reads of an object whose bytes have another digest, and whose size does not change."""


@dataclass(frozen=True, eq=False)
class Judged:
    """Object with the digest in its name, and the verdict on it.

    Attributes:
        contribution: in the object, or None if its envelope or its header is wrong.
        code: why it cannot count, or "".
    """

    contribution: Contribution | None
    code: str


@dataclass
class Arrivals:
    """Objects that have arrived.

    At most one good object per name is kept, so memory is that of ``max_peers`` payloads, and of the names in
    a list of the folder.

    Attributes:
        place: of the round.
        terms: of this peer.
        check: checks payloads.
        good: contributions that can count, by the names of their peers.
        refused: codes of others.
    """

    place: Place
    terms: Terms
    check: Check
    good: dict[str, Contribution] = field(default_factory=dict)
    refused: dict[ObjectName, str] = field(default_factory=dict)
    _present: set[str] = field(default_factory=set)
    _names: set[str] = field(default_factory=set)  # of good and refused ones
    _left: dict[str, int] = field(default_factory=dict)  # objects that are read beside good ones, by name
    _reads: dict[ObjectName, tuple[int, int]] = field(default_factory=dict)  # size and number, latest last

    @property
    def _rules(self) -> Rules:
        return self.place.rules

    def has_all(self, expected: Collection[str]) -> bool:
        """Return whether all of these peers have written, also if they cannot contribute.

        An object that its peer has not written, or whose envelope is wrong, says nothing about that peer.
        """
        return self._present.issuperset(expected)

    def add(self, contribution: Contribution) -> None:
        """Add this peer's own contribution, which is good."""
        self._present.add(contribution.name)
        self._accept(contribution)

    def _accept(self, contribution: Contribution) -> None:
        self._names.add(contribution.name)  # an exception before the next line changes nothing
        self.good[contribution.name] = contribution

    def _refuse(self, named: ObjectName, code: str) -> None:
        self._names.add(named.name)
        self.refused[named] = code

    def _find_good(self, named: ObjectName) -> Contribution | None:
        one = self.good.get(named.name)
        return one if one is not None and one.digest.hex() == named.digest else None

    def update(self, entries: Iterable[Listed]) -> None:
        """Read the objects of a list that are not known yet; those first that were not read for longest."""
        found = [(parse_contribution(one.base), one.size) for one in entries if not one.is_folder]
        unknown = [(named, size) for named, size in found if named is not None]
        last = {named: turn for turn, named in enumerate(self._reads)}
        counts: dict[str, int] = {}
        for named, size in sorted(unknown, key=lambda one: last.get(one[0], -1)):
            if not self._is_of_use(named):
                continue
            if size > max_object(self._rules):
                self._refuse(named, "max-bytes")
            elif self._may_have_changed(named, size) and counts.get(named.name, 0) < MAX_PER_NAME:
                counts[named.name] = counts.get(named.name, 0) + 1
                self._note_read(named, size)
                self._read(named)

    def _may_have_changed(self, named: ObjectName, size: int) -> bool:
        """Return whether another read may find other bytes than the ones before."""
        before, reads = self._reads.get(named, (size, 0))
        return size != before or reads < MAX_READS

    def _note_read(self, named: ObjectName, size: int) -> None:
        """Count a read of an object, which becomes the latest one."""
        before, reads = self._reads.pop(named, (size, 0))
        self._reads[named] = size, reads + 1 if size == before else 1
        if named.name in self.good:
            self._left[named.name] = self._left.get(named.name, MAX_PER_NAME) - 1

    def _is_of_use(self, named: ObjectName) -> bool:
        """Return whether an object could be the good one of its name."""
        if self.place.names and named.name not in self.place.names:
            return False
        if named in self.refused or self._find_good(named) is not None or self._left.get(named.name) == 0:
            return False
        return named.name in self._names or len(self._names) < self._rules.max_peers

    def _read(self, named: ObjectName) -> None:
        """Read one object; note it as good or refused if it has arrived."""
        try:
            found = self._fetch(named)
            if found is None:
                return
            statement = make_statement(Kind.CONTRIBUTION, self.place.run, self.place.number, found.digest)
            if not self.place.verify(found.name, statement, found.signature):
                raise Refused("signature", f"the signature is not that of peer {found.name!r}")
            self._present.add(found.name)
            judge(found, self.terms, self.check)
            if found.name in self.good:
                raise Refused("duplicate", f"peer {found.name!r} has another contribution")
        except Refused as refused:
            self._refuse(named, refused.code)
        else:
            self._accept(found)

    def judge(self, named: ObjectName) -> Judged | None:
        """Return the object of a proposal with the verdict on it, or None if it has not arrived.

        The proposal has its signature, so that in the object has no meaning.
        """
        found = self._find_good(named)
        if found is not None:
            return Judged(found, "")
        try:
            found = self._fetch(named)
            if found is None:
                return None
            judge(found, self.terms, self.check)
        except Refused as refused:
            return Judged(found, refused.code)
        return Judged(found, "")

    def _fetch(self, named: ObjectName) -> Contribution | None:
        """Read a contribution; return None if it has not arrived, raise Refused if it is wrong."""
        digest = bytes.fromhex(named.digest)
        place, limit = self.place, max_object(self._rules)
        data = place.files.get_if_allowed(path_of_contribution(place.number, named.name, digest), limit + 1)
        if data is None or len(data) > limit or not has_digest(data, digest):
            return None
        return read_contribution(data, place.run, place.number, named.name, place.rules)

    def propose(self) -> Members:
        """Return a proposal by which everything counts that has arrived and is good."""
        limit = self._rules.max_peers
        good = sorted(self.good.values(), key=lambda one: one.name)
        accepted = [Accepted(one.name, one.digest, one.signature) for one in good[:limit]]
        refused = [RefusedObject(*named, code) for named, code in sorted(self.refused.items())[:limit]]
        return Members(tuple(accepted), tuple(refused))

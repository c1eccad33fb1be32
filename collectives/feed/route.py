"""Route of a reader: the patches from its version to another one, or from an anchor, by their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from collectives.errors import Refused
from collectives.feed.archive import Archive
from collectives.feed.record import Part, Version


class Hop(NamedTuple):
    """Object on a route.

    Attributes:
        version: record of the version that it makes.
        part: the object.
    """

    version: Version
    part: Part


@dataclass
class Records:
    """Records that were read during one update."""

    archive: Archive
    found: dict[int, Version] = field(default_factory=dict)

    def get(self, number: int) -> Version | None:
        """Return the record of a version, or None."""
        if number not in self.found:
            record = self.archive.read(number)
            if record is None:
                return None
            self.found[number] = record
        return self.found[number]


def find_route(records: Records, base: int | None, target: Version) -> list[Hop]:
    """Return the objects that make a version of another one, or of nothing.

    A patch over many versions is preferred to those over fewer. So from k versions behind, there are
    O(log k) patches, and as many records are read.

    Args:
        records: of the feed.
        base: version of the reader, below that of ``target``; None if it has none.
        target: record of the version to reach.

    Raises:
        Refused: records are gone that a route needs.
    """
    anchored: list[Hop] | None = None
    if base is None or base < target.anchor:
        anchor = records.get(target.anchor)
        if anchor is not None:
            whole = [Hop(anchor, part) for part in anchor.parts if part.base is None]
            anchored = [*whole[:1], *(_follow(records, anchor.number, target) or ())]
            if anchor.number < target.number and len(anchored) == 1:
                anchored = None
    if base is not None and base >= target.oldest:
        direct = _follow(records, base, target)
        if direct is not None and (anchored is None or count_bytes(direct) <= count_bytes(anchored)):
            return direct
    if anchored is None:
        raise Refused("absent", f"records are gone that lead to version {target.number}")
    return anchored


def count_bytes(route: Sequence[Hop]) -> int:
    """Return the bytes of all objects of a route."""
    return sum(hop.part.size for hop in route)


def _follow(records: Records, base: int, target: Version) -> list[Hop] | None:
    """Return the patches from one version to another; None if one is gone."""
    hops: list[Hop] = []
    at: Version | None = target
    while at is not None and at.number > base:
        patches = [part for part in at.parts if part.base is not None and part.base >= base]
        if not patches:
            return None
        hop = Hop(at, min(patches, key=lambda part: part.base or 0))
        hops.append(hop)
        at = records.get(hop.part.base) if hop.part.base != base else None  # type: ignore[arg-type]
    return hops[::-1] if hops and hops[-1].part.base == base else None

"""Routes of a reader: the patches from its version to another one, or from an anchor, by their bytes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

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
class Routes:
    """Routes to a version, found during one update.

    Attributes:
        archive: of the feed.
        target: record of the version.
        found: records that were read; None for those that are gone.
        avoided: digests of objects that are gone or damaged.
        end: time of the monotonic clock after which no further record is read.
    """

    archive: Archive
    target: Version
    found: dict[int, Version | None] = field(default_factory=dict)
    avoided: set[bytes] = field(default_factory=set)
    end: float = field(init=False)

    def __post_init__(self) -> None:
        self.end = time.monotonic() + self.archive.files.patience

    def iterate(self, base: int | None) -> Iterator[list[Hop]]:
        """Yield the shortest route, and after each failure another one around the objects to avoid.

        Args:
            base: version of the reader, at most that of the target; None if it has none.
        """
        previous: list[Hop] | None = None
        while (route := self.find(base)) is not None and route != previous:
            yield route
            previous = route

    def find(self, base: int | None) -> list[Hop] | None:
        """Return the objects that make the target of a version, or of nothing; None if some are gone.

        A patch over many versions is preferred to those over fewer. So from k versions behind, there are
        O(log k) patches, and as many records are read, unless some are gone.
        """
        direct = None if base is None or base < self.target.oldest else self._follow(base)
        if direct is not None and base is not None and base >= self.target.anchor:
            return direct
        anchored = next(self._iterate_anchored(), None)
        if direct is None or (anchored is not None and count_bytes(anchored) < count_bytes(direct)):
            return anchored
        return direct

    def _iterate_anchored(self) -> Iterator[list[Hop]]:
        """Yield the routes that begin at an anchor, the newest first."""
        number: int | None = self.target.anchor
        while number is not None and number >= self.target.oldest:
            record = self._read(number)
            for part in record.parts if record is not None else ():
                if part.base is None and part.digest not in self.avoided:
                    rest = self._follow(number)
                    if rest is not None and record is not None:
                        yield [Hop(record, part), *rest]
            below = (self._read(one) for one in range(number - 1, self.target.oldest - 1, -1))
            number = next((one.anchor for one in below if one is not None), None)

    def _follow(self, base: int) -> list[Hop] | None:
        """Return the patches from a version to the target; None if there are none."""
        if base == self.target.number:
            return []
        dead: set[int] = set()
        hops: list[Hop] = []
        trail = [(self.target, self._patches_of(self.target, base))]
        while trail:
            version, patches = trail[-1]
            part = next(patches, None)
            if part is None:
                dead.add(version.number)
                trail.pop()
                del hops[-1:]
            elif part.base == base:
                return [Hop(version, part), *reversed(hops)]
            elif part.base is not None and part.base not in dead:
                record = self._read(part.base)
                if record is None:
                    dead.add(part.base)
                    continue
                hops.append(Hop(version, part))
                trail.append((record, self._patches_of(record, base)))
        return None

    def _patches_of(self, version: Version, base: int) -> Iterator[Part]:
        """Return the patches that lead to a version from one that is not below a base, the longest first."""
        patches = [
            (part.base, part)
            for part in version.parts
            if part.base is not None and part.base >= base and part.digest not in self.avoided
        ]
        return (part for _, part in sorted(patches))

    def _read(self, number: int) -> Version | None:
        """Return the record of a version, or None."""
        if number == self.target.number:
            return self.target
        if number not in self.found:
            self.found[number] = self.archive.read(number) if time.monotonic() < self.end else None
        return self.found[number]


def count_bytes(route: Sequence[Hop]) -> int:
    """Return the bytes of all objects of a route."""
    return sum(hop.part.size for hop in route)

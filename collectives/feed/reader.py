"""Reading of a feed: what makes the newest version of a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.errors import CollectiveError, Refused
from collectives.feed.archive import Archive
from collectives.feed.record import Version
from collectives.feed.route import Hop, Routes, count_bytes
from wirecodec.interop import (
    PreparedPatch,
    digest_state,
    prepare_all,
    split_patches,
)

Progress = Callable[[int, int], object]
"""Function that is called with the bytes that have arrived, and those of all objects of an update."""


@dataclass(frozen=True)
class Reader:
    """Reader of the objects of a feed.

    Attributes:
        archive: of the feed.
        limits: bounds on the cost of decoding an object.
        progress: is told of the bytes that have arrived.
    """

    archive: Archive
    limits: wc.DecodeLimits
    progress: Progress

    def identify(self, tensors: Mapping[str, Any], records: Iterable[Version | None]) -> int | None:
        """Return the version of a state by its digest: that of a record, or one of those before it."""
        if not tensors:
            return None
        digest = digest_state(tensors)
        for record in filter(None, records):
            known = (record.digest, *record.recent)
            if digest in known:
                return record.number - known.index(digest)
        return None

    def sees_all(self, record: Version) -> bool:
        """Return whether patches to a version check all tensors of a state, so that no digest is needed."""
        return not record.unread

    def follow(self, hops: list[Hop], objects: list[bytes], tensors: Mapping[str, Any]) -> PreparedPatch:
        """Prepare what brings a state along patches. Raises Refused or WireError."""
        return self.prepare(objects, tensors)

    def fetch(self, routes: Routes, route: list[Hop]) -> list[bytes]:
        """Return the objects of a route. Raises Refused, and avoids the object from then on."""
        total, arrived, found = count_bytes(route), 0, []
        for hop in route:
            try:
                found.append(self.archive.fetch(hop.version.number, hop.part))
            except Refused:
                routes.avoided.add(hop.part.digest)
                raise
            arrived += hop.part.size
            self.progress(arrived, total)
        return found

    def load(self, routes: Routes, route: list[Hop]) -> dict[str, Any]:
        """Make a version of nothing, as arrays, by a route from an anchor. Raises Refused or WireError."""
        target = routes.target
        state: dict[str, Any] = {}
        for data in self.fetch(routes, route):
            self.prepare([data], state).commit(state)
        if digest_state(state) != target.digest:
            raise Refused("digest", f"version {target.number} has other bits than its record says")
        return state

    def prepare(self, objects: list[bytes], tensors: Mapping[str, Any]) -> PreparedPatch:
        """Decode patches in sequence, and check them against a state. Raises WireError."""
        parts = [
            part for data in objects for part in split_patches(np.frombuffer(data, np.uint8), self.limits)
        ]
        return prepare_all(parts, tensors, self.limits)


def explain_damage(error: Exception | None, version: int) -> CollectiveError:
    """Return the error of a version that cannot be read; None if there is no route to it."""
    error = error or Refused("absent", f"records are gone that lead to version {version}")
    return CollectiveError(
        f"version {version} of the feed cannot be read, and no anchor leads to it: {error}; call again when"
        " the publisher has published an anchor, as a new Publisher does with anchor=True",
        reason="refused" if isinstance(error, wc.WireError) else "transport",
    )

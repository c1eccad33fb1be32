"""Reading of a feed for slices of its tensors, as a rank of a tensor-parallel server has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from collectives.errors import Refused
from collectives.feed.reader import Reader
from collectives.feed.record import Version
from collectives.feed.route import Hop, Routes
from wirecodec.interop import (
    Chooser,
    PreparedPatch,
    View,
    commit_in_copies,
    fits_slices,
    prepare_replacement,
    prepare_slices,
    split_patches,
)

_KEPT = 8
"""Versions whose views are kept: that of the state is among them."""


@dataclass(frozen=True)
class SliceReader(Reader):
    """Reader of slices.

    A record has the digest of a whole state alone. So the reader keeps a view of each version that it has
    made: the places and the sums of its slices.

    Attributes:
        choose: the slice of a tensor.
        wanted: names of tensors that a version must have.
        views: by the number of the version, the latest one last.
    """

    choose: Chooser = lambda name, shape: None
    wanted: frozenset[str] = frozenset()
    views: dict[int, View] = field(default_factory=dict)

    def identify(self, tensors: Mapping[str, Any], records: Iterable[Version | None]) -> int | None:
        """Return the version of a state by the sums of its slices; None for one that was not made here."""
        newest = max(record.number for record in records if record is not None)
        for number, view in reversed(self.views.items()):
            if number <= newest and fits_slices(tensors, view, sums=True):
                return number
        return None

    def sees_all(self, record: Version) -> bool:
        """Return False: a patch does not check the digests of slices."""
        return False

    def load(self, routes: Routes, route: list[Hop]) -> dict[str, Any]:
        """Make the slices of a version of nothing, by a route from an anchor. Raises Refused or WireError."""
        state: dict[str, Any] = {}
        first, *rest = zip(route, self.fetch(routes, route), strict=True)
        hop, data = first
        for part in self._split(data):
            made = prepare_slices(part, state, {}, self.choose, self.limits)
            if made.target != hop.version.digest:
                raise Refused(
                    "digest", f"version {hop.version.number} has another digest than its record says"
                )
            made.patch.commit(state)
        self._keep(hop.version.number, made.view)
        for hop, data in rest:
            self.follow([hop], [data], state).commit(state)
        return state

    def follow(self, hops: list[Hop], objects: list[bytes], tensors: Mapping[str, Any]) -> PreparedPatch:
        """Prepare what brings slices along patches. Raises Refused or WireError."""
        base = hops[0].part.base
        view = None if base is None else self.views.get(base)
        if view is None or not fits_slices(tensors, view, sums=False):
            raise Refused("absent", f"the state has not the slices of version {base}")
        target, patch = dict(tensors), PreparedPatch()
        parts = [(hop, part) for hop, data in zip(hops, objects, strict=True) for part in self._split(data)]
        for hop, part in parts:
            patch, view, _ = prepare_slices(part, target, view, self.choose, self.limits)
            self._keep(hop.version.number, view)
            if len(parts) > 1:
                commit_in_copies(patch, tensors, target)
        return patch if len(parts) == 1 else prepare_replacement(tensors, target)

    def _split(self, data: bytes) -> list[Any]:
        return split_patches(np.frombuffer(data, np.uint8), self.limits)

    def _keep(self, number: int, view: View) -> None:
        """Keep the view of a version, and forget the oldest ones. Raises ValueError if it lacks a tensor."""
        if missing := self.wanted - view.keys():
            raise ValueError(f"slices has {min(missing)!r}, which version {number} lacks")
        if not view:
            raise ValueError(f"slices has no tensor of version {number}")
        self.views.pop(number, None)
        self.views[number] = view
        for old in [*self.views][:-_KEPT]:
            del self.views[old]


def find_wanted(slices: Any) -> tuple[Chooser, frozenset[str]]:
    """Return the function that chooses slices, and the names of a mapping's. Raises TypeError."""
    if callable(slices):
        return slices, frozenset()
    if not isinstance(slices, Mapping):
        raise TypeError(f"slices is {type(slices).__name__}; it must be a mapping or a function")
    own = dict(slices)
    return lambda name, shape: own.get(name), frozenset(name for name in own if own[name] is not None)

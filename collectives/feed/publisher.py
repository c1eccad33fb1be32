"""Publisher: the one writer of a feed of weights."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np

import wirecodec as wc
from collectives.call import exclusive
from collectives.errors import CollectiveError, Refused
from collectives.feed.archive import open_archive
from collectives.feed.reader import Reader, explain_damage
from collectives.feed.record import MAX_RECENT, Version
from collectives.feed.route import Routes, count_bytes
from collectives.store.layout import check_name
from collectives.store.signing import FEEDS, make_key, make_ring
from collectives.waiting.backoff import check_seconds
from wirecodec.interop import (
    Difference,
    PreparedPatch,
    check_base,
    compare_states,
    count_state,
    read_tensors,
    write_patch,
)

SKIPS = (8, 64)
_LEVEL = 3
"""Level of Zstandard, for tensors that are dense or whole."""
LIMITS = wc.DecodeLimits(2**40, 2**20, 2**40, 2**40, 2**40)
"""Bounds on the containers of a feed; ``max_bytes`` bounds them, too."""


class Publisher:
    """Writer of a feed: versions of a model's weights, for readers that follow.

    Each call of ``publish`` writes the changes since the last version, and from time to time an anchor, which
    is the whole state. A feed has one writer. It may be killed at any time, and started again with any state:
    its first version follows the newest one of the feed.

    The publisher keeps a copy of the state on the host, and one more for each span of ``skips`` that the feed
    has reached: ``skips=()`` saves these, and readers that are many versions behind fetch more bytes.

    Args:
        url: of a folder, as fsspec has them: "/mnt/shared", "s3://bucket/folder", "gs://…", "sftp://…".
        run: name of the feed, a folder in it.
        name: of this publisher, for ``keys``.
        base: "read" for the smallest patches; "unread" for readers that look at changed elements alone;
            "slices" for these, and for readers that have slices of the tensors.
        skips: spans of versions, each a multiple of the one before, over which further patches are written.
        keep: versions that are kept at least; older ones are deleted when no reader needs them.
        anchor: whether the first version that is published has an anchor.
        timeout: seconds for which requests are repeated while the store fails.
        storage_options: of the file system of fsspec.
        key: this publisher's private key, 32 bytes, or None; ``make_key`` makes one. It needs ``keys``.
        keys: {name: public key, 32 bytes} of all that may publish, or None for anybody.
        max_bytes: largest object, in bytes.
        report: is called with a dictionary after each version: ``last``.

    Attributes:
        version: number of the newest version that this publisher knows, or None.
        last: numbers of the last call: "version", "bytes" of all objects, "anchor" (whether there is one),
            "seconds", "elements", "changed", "tensors" and "state_bytes". None before the first call.
        traffic: bytes and requests so far.

    Raises:
        ValueError: an argument is out of range, or the store cannot create an object exclusively.
        ImportError: fsspec, the package of the protocol, or for keys ``cryptography`` is missing.
        CollectiveError: the store fails for longer than ``timeout``.

    Source:
        formats/spec/feeds.md.

    Examples:
        >>> import collectives as co, tempfile, numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> publisher = co.Publisher(folder, "demo")
        >>> publisher.publish({"w": np.zeros(3, "f4")}), publisher.publish({"w": np.ones(3, "f4")})
        (0, 1)
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        name: str = "publisher",
        base: str = "read",
        skips: tuple[int, ...] = SKIPS,
        keep: int = 64,
        anchor: bool = False,
        timeout: float = 600.0,
        storage_options: Mapping[str, Any] | None = None,
        key: bytes | None = None,
        keys: Mapping[str, bytes] | None = None,
        max_bytes: int = 2**36,
        report: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        check_name(name)
        check_seconds(timeout=timeout)
        check_base(base)
        spans = (1, *skips)
        if any(b <= a or b % a for a, b in pairwise(spans)):
            raise ValueError(f"skips is {skips!r}; each must be a multiple of the one before, and of 1")
        if keep < 1:
            raise ValueError(f"keep is {keep!r}; it must be at least 1")
        self._name, self._ring = name, make_ring(name, key, keys, FEEDS)
        self._archive = open_archive(
            url,
            run,
            self._ring.verify,
            timeout=timeout,
            storage_options=storage_options,
            max_bytes=max_bytes,
        )
        self._archive.files.check_exclusive(f"probe.{secrets.token_hex(16)}")
        self._reader = Reader(self._archive, LIMITS, lambda arrived, total: None)
        self._base, self._skips, self._keep, self._report = base, skips, keep, report
        self._session = secrets.token_bytes(16)
        self._wants_anchor, self._is_refused = anchor, False
        self._newest = self._archive.find_last()
        self._held: dict[str, Any] | None = None
        self._seals: dict[str, int] = {}
        self._older: dict[int, tuple[int, dict[str, Any]]] = {}
        self._anchor_bytes, self._since_anchor = 0, 0
        self.last: dict[str, Any] | None = None

    @property
    def version(self) -> int | None:
        """Number of the newest version that this publisher knows, or None."""
        return None if self._newest is None else self._newest.number

    @property
    def traffic(self) -> Any:
        """Bytes and requests so far."""
        return self._archive.files.traffic

    @exclusive
    def publish(self, state: Any) -> int:
        """Publish a state, and return the number of its version.

        If the state has the bits of the newest version, there is no new one.

        Args:
            state: {name: tensor}, or a torch module, as ``wirecodec.diff`` takes them. It does not change.

        Raises:
            CollectiveError: another publisher has published ("writer"), or the store fails ("transport").
                After "transport", the call can be repeated; after "writer", this publisher cannot go on.
            EncodeError: a tensor cannot be carried.
        """
        if self._is_refused:
            raise _refusal(self.version)
        start = time.monotonic()
        tensors = read_tensors(state)
        while True:
            held = self._load()
            found = compare_states(
                held, tensors, touched=self._reads_none(held), sealed=True, seals=self._seals
            )
            digest = found.target
            if self._newest is not None and digest == self._newest.digest and not self._wants_anchor:
                self._seals = found.seals
                return self._newest.number
            objects = self._make(held, tensors, found)
            prepared = self._reader.prepare([objects[self.version]], held) if held else None
            made = self._write(objects, digest, tensors, prepared)
            claimed = self._archive.claim(made, self._name, self._ring.sign)
            overtaking = claimed if claimed.session != self._session else self._archive.find_overtaking(made)
            if overtaking is not None:
                self._is_refused = True
                raise _refusal(overtaking.number)
            self._held, self._seals = None, {}  # an interrupt from here on makes the copy unknown
            previous, self._newest = self._newest, claimed
            if claimed == made:
                break  # else an interrupted call of this publisher has written the version
        if prepared is None:
            held = wc.apply(objects[None], {}, limits=LIMITS)
        else:
            prepared.commit(held)
        self._older = self._advance(objects, held)
        self._held, self._seals, self._wants_anchor = held, found.seals, False
        self._count(objects, previous)
        if previous is not None and made.oldest > previous.oldest:
            self._archive.prune(made.oldest)
        self.last = {
            "version": made.number,
            "bytes": sum(len(data) for data in objects.values()),
            "anchor": None in objects,
            "seconds": time.monotonic() - start,
            "elements": made.elements,
            "changed": made.changed,
            "tensors": made.tensors,
            "state_bytes": made.nbytes,
        }
        if self._report is not None:
            self._report(dict(self.last))
        return made.number

    def _load(self) -> dict[str, Any]:
        """Return the newest version: the copy of this publisher, or what the feed has if it has no copy."""
        if self._held is not None or self._newest is None:
            return self._held or {}
        routes, failure = Routes(self._archive, self._newest), None
        for route in routes.iterate(None):
            try:
                held = self._reader.load(routes, route)
            except (Refused, wc.WireError) as error:
                failure = error
                continue
            self._anchor_bytes, self._since_anchor = route[0].part.size, count_bytes(route[1:])
            self._held, self._older = held, {}
            self._wants_anchor |= failure is not None  # for readers from nothing
            return held
        if self._wants_anchor:
            return {}
        raise explain_damage(failure, self._newest.number) from failure

    def _reads_none(self, held: Mapping[str, Any]) -> bool:
        """Return whether readers of a patch from a version look at changed elements alone."""
        return self._base != "read" and bool(held)

    def _make(
        self, held: Mapping[str, Any], tensors: Mapping[str, Any], found: Difference
    ) -> dict[int | None, bytes]:
        """Return {version: the patch from it}, and with None for the version the anchor, if it is due.

        Args:
            held: the newest version, or nothing.
            tensors: of the new one.
            found: changes from the one to the other.
        """
        touched, for_slices = self._reads_none(held), self._base == "slices"
        own = bytes(write_patch(found, touched=touched, for_slices=for_slices, level=_LEVEL))
        if not held:
            return {None: own}
        made: dict[int | None, bytes] = {self.version: own}
        number = 0 if self.version is None else self.version + 1
        for version, older in self._older.values():
            if number - version in self._skips:
                made[version] = bytes(wc.diff(older, tensors, base=self._base))
        if self._wants_anchor or self._since_anchor + len(own) >= self._anchor_bytes:
            made[None] = bytes(wc.diff({}, tensors))
        return made

    def _write(
        self,
        objects: Mapping[int | None, bytes],
        digest: int,
        tensors: Mapping[str, Any],
        prepared: PreparedPatch | None,
    ) -> Version:
        """Write the objects of a version, and return its record."""
        newest = self._newest
        number = 0 if newest is None else newest.number + 1
        parts = tuple(self._archive.put(number, base, data) for base, data in objects.items())
        anchor = number if newest is None or None in objects else newest.anchor
        oldest = 0 if newest is None else newest.oldest
        if newest is not None and anchor == number:
            oldest = max(oldest, min(newest.anchor, number - self._keep))
        elements, nbytes = count_state(tensors)
        changed = elements if prepared is None else sum(write.values.size for write in prepared.writes)
        return Version(
            number,
            digest,
            len(tensors),
            nbytes,
            elements,
            changed,
            time.time_ns() // 1000,
            anchor,
            oldest,
            self._session,
            self._base != "read",
            parts,
            () if newest is None else (newest.digest, *newest.recent)[:MAX_RECENT],
        )

    def _advance(
        self, objects: Mapping[int | None, bytes], held: Mapping[str, Any]
    ) -> dict[int, tuple[int, dict[str, Any]]]:
        """Return {span: a multiple of it, and the state of that version}, from which patches will be made."""
        found = {}
        for span in self._skips:
            version, older = self._older.get(span, (None, None))
            if self.version is not None and self.version % span == 0:
                if older is not None and version in objects:
                    older = wc.apply(objects[version], older, limits=LIMITS)
                else:
                    older = {name: np.array(x) for name, x in held.items()}
                version = self.version
            if older is not None and version is not None:
                found[span] = version, older
        return found

    def _count(self, objects: Mapping[int | None, bytes], previous: Version | None) -> None:
        """Add up the bytes of patches since the last anchor."""
        if None in objects:
            self._anchor_bytes, self._since_anchor = len(objects[None]), 0
        elif previous is not None:
            self._since_anchor += len(objects[previous.number])

    @staticmethod
    def make_key() -> tuple[bytes, bytes]:
        """Make a private and a public key for a publisher, 32 bytes each.

        Raises:
            ImportError: ``cryptography`` is missing.
        """
        return make_key()

    def __repr__(self) -> str:
        """Return the folder and the newest version."""
        return f"<Publisher in {self._archive.files.root}, version {self.version}>"


def _refusal(number: int | None) -> CollectiveError:
    return CollectiveError(
        f"another publisher has published version {number} of the feed, which has one writer; end one of both"
        " programs, and make a new Publisher to go on from the newest version",
        reason="writer",
    )

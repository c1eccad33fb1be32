"""Subscriber: a reader of a feed of weights, which follows the newest version."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal, overload

import wirecodec as wc
from collectives.call import exclusive
from collectives.errors import CollectiveError, Refused
from collectives.feed.archive import Archive, open_archive
from collectives.feed.holding import check_shapes, read_held
from collectives.feed.publisher import LIMITS
from collectives.feed.reader import Progress, Reader, explain_damage
from collectives.feed.record import Version
from collectives.feed.route import Hop, Routes
from collectives.feed.slices import SliceReader, find_wanted
from collectives.feed.update import Update, count_changed
from collectives.store.files import Traffic
from collectives.store.layout import check_name
from collectives.store.signing import FEEDS, make_verifier
from collectives.waiting.backoff import check_seconds
from wirecodec.interop import (
    Chooser,
    PreparedPatch,
    check_patch_fits,
    commit_patch,
    prepare_replacement,
)


class Subscriber:
    """Reader of a feed of weights.

    Each call of ``update`` brings a state to the newest version, in place: from any version, or from nothing.
    All is checked before the first write. If it fails, the state has the bits of its old version, or of one
    between the old and the newest, and the next call goes on.

    Args:
        url: of the folder of the Publisher.
        run: name of the feed.
        poll: seconds between two looks at the store while ``update`` waits.
        timeout: seconds for which requests are repeated while the store fails.
        verify: whether ``update`` checks the digest of the whole state if no patch does. False saves a pass
            over the state per call, and does not see weights that someone else has changed.
        name: under which the reader writes its version into the store after each update, for ``wirecodec
            feed``; None if it does not. A write that fails is no error.
        slices: for a state that has slices of the tensors, as a rank of a tensor-parallel server has. It is
            {name: slice}, or a function of a name and a whole shape that returns one. A slice is a ``slice``,
            or a tuple of them for the first axes, without steps; a tensor with None is left out. The
            publisher must have ``base="slices"``. None for whole tensors.
        storage_options: of the file system of fsspec.
        keys: {name: public key, 32 bytes} of all that may publish, or None for anybody who can write.
        max_bytes: largest object that is read, in bytes.
        limits: bounds on the cost of decoding an object.
        progress: is called with the bytes that have arrived, and those of all objects of an update.
        report: is called with a dictionary after each update that changed the state: ``last``.

    Attributes:
        version: number of the version of the last update, or None.
        last: numbers of the last update: "version", "base" (the version before, or None), "bytes",
            "objects", "requests", "seconds", "changed", "elements", and "age", seconds since the version was
            published, by both clocks. None before the first one.
        traffic: bytes and requests so far.

    Raises:
        ValueError: an argument is out of range, or the store is of an unknown kind.
        ImportError: fsspec, the package of the protocol, or for keys ``cryptography`` is missing.

    Source:
        formats/spec/feeds.md.

    Examples:
        >>> import collectives as co, tempfile, numpy as np
        >>> folder = tempfile.mkdtemp()
        >>> version = co.Publisher(folder, "demo").publish({"w": np.ones(3, "f4")})
        >>> state = {}
        >>> co.Subscriber(folder, "demo").update(state), state["w"]
        (0, array([1., 1., 1.], dtype=float32))
    """

    def __init__(
        self,
        url: str,
        run: str,
        *,
        poll: float = 1.0,
        timeout: float = 600.0,
        verify: bool = True,
        name: str | None = None,
        slices: Mapping[str, Any] | Chooser | None = None,
        storage_options: Mapping[str, Any] | None = None,
        keys: Mapping[str, bytes] | None = None,
        max_bytes: int = 2**36,
        limits: wc.DecodeLimits = LIMITS,
        progress: Progress | None = None,
        report: Callable[[dict[str, Any]], object] | None = None,
    ) -> None:
        check_seconds(poll=poll, timeout=timeout)
        self._name = None if name is None else check_name(name)
        archive = open_archive(
            url,
            run,
            make_verifier(keys, FEEDS),
            timeout=timeout,
            storage_options=storage_options,
            max_bytes=max_bytes,
        )
        self._archive = archive
        self._quick = replace(archive, files=archive.files.without_repeats())
        arguments = archive, limits, progress or (lambda arrived, total: None)
        self._reader = Reader(*arguments) if slices is None else SliceReader(*arguments, *find_wanted(slices))
        self._poll, self._verify, self._report = poll, verify, report
        self._record: Version | None = None
        self.last: dict[str, Any] | None = None

    @property
    def version(self) -> int | None:
        """Number of the version of the last update, or None."""
        return None if self._record is None else self._record.number

    @property
    def traffic(self) -> Any:
        """Bytes and requests so far."""
        return self._archive.files.traffic

    def latest(self, timeout: float = 0.0) -> int | None:
        """Return the number of the newest version in the store, or None; not below ``version``.

        It may be called from another thread while ``update`` runs.

        Args:
            timeout: seconds to wait for a version that is newer than ``version``.

        Raises:
            CollectiveError: the store fails.
        """
        found = self._await(timeout, None)
        return None if found is None else found.number

    async def latest_async(self, timeout: float = 0.0) -> int | None:
        """Return the same as ``latest``, and let other tasks of the event loop run meanwhile.

        No thread waits. Each look at the store runs in a thread of the loop's executor, and makes one try per
        request. If the store fails, there is another look after ``poll`` seconds, as long as for ``latest``.

        Args:
            timeout: seconds to wait for a version that is newer than ``version``.

        Raises:
            CollectiveError: the store fails.
        """
        import asyncio  # takes time, which most programs need not wait for

        known, end, patience = self._record, time.monotonic() + timeout, self._archive.files.patience
        give_up = time.monotonic() + patience
        while True:
            try:
                found = await asyncio.to_thread(self._find, self._quick)
            except CollectiveError as error:
                if time.monotonic() > give_up or not self._quick.files.may_succeed_later(error):
                    raise
                pause = self._poll
            else:
                give_up, left = time.monotonic() + patience, end - time.monotonic()
                if left <= 0 or (found is not None and found is not known):
                    return None if found is None else found.number
                pause = min(self._poll, left)
            await asyncio.sleep(pause)

    def lag(self) -> dict[str, Any]:
        """Return how far the last update is behind the newest version in the store.

        Returns:
            "version" of the last update and "latest", each a number or None; "versions" between them, and
            "seconds" since the first one that is missing was published, by both clocks.

        Raises:
            CollectiveError: the store fails.
        """
        known, newest = self._record, self._find(self._archive)
        found = {"version": self.version, "latest": None, "versions": 0, "seconds": 0.0}
        if newest is None:
            return found
        first = 0 if known is None else known.number + 1
        found |= {"latest": newest.number, "versions": newest.number + 1 - first}
        if first <= newest.number:
            missing = self._archive.read(first) if first < newest.number else None
            found["seconds"] = time.time() - (missing or newest).written / 1e6
        return found

    @exclusive
    def update(self, state: Any, *, version: int | None = None, timeout: float = 0.0) -> int:
        """Make a state that of the newest version, in place, and return the version's number.

        Args:
            state: {name: tensor}, also an empty dictionary, or a torch module, as ``wirecodec.apply`` takes
                them.
            version: number of the version to reach, not below that of the last update; None for the newest.
                Servers that must have the same version at a time agree on one, such as the least of their
                ``latest()``.
            timeout: seconds to wait for that version, or for one that is newer than that of the last update.
                If there is no newer one, the state stays as it is.

        Raises:
            CollectiveError: nothing has been published in time ("timeout"), the store fails, or objects are
                gone ("transport"), or are not valid ("refused").
            ValueError: a tensor cannot be written, or the version is older than that of the last update.
        """
        meter, before = _Meter(self.traffic), self.version
        record = self._wait(timeout, version)
        failure: Exception | None = None
        routes = Routes(self._archive, record)
        for base, route in self._iterate_routes(state, routes):
            try:
                changed = self._follow(state, routes, base, route)
            except (Refused, wc.WireError) as error:
                failure = error
                continue
            self._record = record
            if route:
                self._note(meter, base, record, changed, len(route))
            if before != record.number:
                self._tell()
            return record.number
        raise explain_damage(failure, record.number) from failure

    def _commit(self, update: Update) -> None:
        """Write an update into its state."""
        before = self.version
        commit_patch(update._prepared, update._state, update._tensors)
        self._record = update._record
        if before != self.version:
            self._tell()

    def _tell(self) -> None:
        """Write the version of a reader with a name into the store."""
        if self._name is not None and self._record is not None:
            self._archive.report(self._name, self._record.number)

    @overload
    def prepare(
        self, state: Any, *, version: int | None = None, timeout: float = 0.0, newer: Literal[False] = False
    ) -> Update: ...

    @overload
    def prepare(
        self, state: Any, *, version: int | None = None, timeout: float = 0.0, newer: bool
    ) -> Update | None: ...

    @exclusive
    def prepare(
        self, state: Any, *, version: int | None = None, timeout: float = 0.0, newer: bool = False
    ) -> Update | None:
        """Fetch and check the newest version, and leave the state as it is until ``Update.commit``.

        From several versions behind, and from an anchor, the new state is made in a copy first.

        Args:
            state: as for ``update``.
            version: as for ``update``.
            timeout: as for ``update``.
            newer: True for a call that returns None if there is no version newer than that of the last
                update. The state is not read then. False reads the whole state in this case, and the update
                repairs weights that somebody has changed.

        Raises:
            CollectiveError: as for ``update``.
            ValueError: as for ``update``.
        """
        record = self._wait(timeout, version)
        if newer and self._record is not None and record.number == self._record.number:
            return None
        failure: Exception | None = None
        tensors, routes = read_held(state, record.tensors), Routes(self._archive, record)
        for base, route in self._iterate_routes(state, routes):
            try:
                prepared = self._prepare(tensors, routes, base, route)
            except (Refused, wc.WireError) as error:
                failure = error
                continue
            check_patch_fits(prepared, state, tensors)
            return Update(record, state, tensors, prepared, self._commit)
        raise explain_damage(failure, record.number) from failure

    def _wait(self, timeout: float, version: int | None) -> Version:
        """Return the record of a version, or the newest one; wait for what is newer than the last update."""
        known = self._record
        if version is not None and known is not None and version < known.number:
            raise ValueError(f"version is {version}; the state has version {known.number} already")
        found = self._await(timeout, version)
        if found is None:
            wanted = "nothing" if version is None else f"no version {version}"
            raise CollectiveError(
                f"{wanted} has been published in {self._archive.files.root}, or it is no longer kept; start"
                " the Publisher, or pass a larger timeout",
                reason="timeout",
            )
        return found

    def _await(self, timeout: float, version: int | None) -> Version | None:
        """Look for a version, or for one newer than that of the last update, until the time is over."""
        known, end = self._record, time.monotonic() + timeout
        found = self._look(version, first=True)
        while found is None or (found is known and version is None):
            left = end - time.monotonic()
            if left <= 0:
                break
            time.sleep(min(self._poll, left))
            found = self._look(version, first=False)
        return found

    def _look(self, version: int | None, *, first: bool) -> Version | None:
        """Look for a version, or for the newest one; further looks at it are without a list."""
        if version is not None:
            known = self._record
            return known if known is not None and known.number == version else self._archive.read(version)
        return self._find(self._archive) if first or self._record is None else self._find_next(self._archive)

    def _find(self, archive: Archive) -> Version | None:
        """Return the newest record; that of the last update, the same object, if there is no newer one."""
        known = self._record
        if known is None:
            return archive.find_last()
        return archive.find_newest(known.number) or self._find_next(archive)

    def _find_next(self, archive: Archive) -> Version | None:
        """Look for one version more, without a list, which may be old; return the known one otherwise."""
        known = self._record
        return known if known is None else archive.read(known.number + 1) or known

    def _bases(self, state: Any, record: Version) -> Iterator[int | None]:
        """Yield the versions that the state may have, the most likely first, and None for any bits.

        That of the last update comes without a look at the state if patches from it check all tensors.
        """
        tensors, known = read_held(state, record.tensors), self._record
        tried = None
        if known is not None and tensors:
            is_checked = known.number < record.number and self._reader.sees_all(record)
            if is_checked or not self._verify:
                tried = known.number
                yield tried
        found = self._reader.identify(tensors, [record, self._record])
        if found is not None and found != tried:
            yield found
        yield None

    def _iterate_routes(self, state: Any, routes: Routes) -> Iterator[tuple[int | None, list[Hop]]]:
        """Yield a version that the state may have, with a route from there, until one succeeds."""
        for base in self._bases(state, routes.target):
            for route in routes.iterate(base):
                yield base, route

    def _follow(self, state: Any, routes: Routes, base: int | None, route: list[Hop]) -> int:
        """Apply what makes a newer version of a state, and return the number of changed elements."""
        number = routes.target.tensors
        tensors, changed = read_held(state, number), 0
        if _is_anchored(route):
            prepared = self._replace(tensors, routes, base, route)
            commit_patch(prepared, state, tensors)
            return count_changed(prepared)
        for hop, data in zip(route, self._reader.fetch(routes, route), strict=True):
            prepared = self._reader.follow([hop], [data], tensors)
            commit_patch(prepared, state, tensors)
            self._record, tensors = hop.version, read_held(state, number)
            changed += count_changed(prepared)
        return changed

    def _replace(
        self, tensors: dict[str, Any], routes: Routes, base: int | None, route: list[Hop]
    ) -> PreparedPatch:
        """Prepare what makes a version of a state with any bits, or of one of a known version."""
        prepared = prepare_replacement(tensors, self._reader.load(routes, route))
        if base is None:
            check_shapes(prepared, tensors, routes.target.number)
        return prepared

    def _prepare(
        self, tensors: dict[str, Any], routes: Routes, base: int | None, route: list[Hop]
    ) -> PreparedPatch:
        """Prepare what brings a state to a newer version."""
        if not route:
            return PreparedPatch()
        if _is_anchored(route):
            return self._replace(tensors, routes, base, route)
        return self._reader.follow(route, self._reader.fetch(routes, route), tensors)

    def _note(self, meter: _Meter, base: int | None, record: Version, changed: int, objects: int) -> None:
        """Write the numbers of an update down, and report them."""
        self.last = {
            "version": record.number,
            "base": base,
            **meter.read(),
            "objects": objects,
            "changed": changed,
            "elements": record.elements,
            "age": time.time() - record.written / 1e6,
        }
        if self._report is not None:
            self._report(dict(self.last))

    def __repr__(self) -> str:
        """Return the folder and the version."""
        return f"<Subscriber of {self._archive.files.root}, version {self.version}>"


class _Meter:
    """Bytes, requests and seconds from its creation on."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic, self._before, self._start = traffic, replace(traffic), time.monotonic()

    def read(self) -> dict[str, Any]:
        """Return the numbers so far."""
        return {
            "bytes": self._traffic.received - self._before.received,
            "requests": self._traffic.requests - self._before.requests,
            "seconds": time.monotonic() - self._start,
        }


def _is_anchored(route: list[Hop]) -> bool:
    """Return whether a route begins at an anchor, so that it needs no version."""
    return bool(route) and route[0].part.base is None

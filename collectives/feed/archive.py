"""Archive of a feed: records and objects in a store, read with all checks."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

from collectives.errors import CollectiveError, Refused
from collectives.feed.layout import (
    FOLDER,
    OBJECTS,
    READERS,
    VERSIONS,
    parse_object,
    parse_version,
    path_of_object,
    path_of_reader,
    path_of_version,
)
from collectives.feed.record import MAX_BODY, Part, Version
from collectives.store.envelope import OVERHEAD, Envelope, Kind, Sign, Verify, hash_run, open_slot
from collectives.store.files import Files
from collectives.store.layout import MAX_NAME, check_name, is_name
from collectives.store.slots import Slots

_MAX_GRACE = 60.0
_TIME = struct.Struct("<Q")


class Report(NamedTuple):
    """Report of a reader.

    Attributes:
        name: of the reader.
        version: that it has.
        written: microseconds since 1970, by the reader's clock.
    """

    name: str
    version: int
    written: int


@dataclass(frozen=True)
class Archive:
    """Objects of one feed.

    Attributes:
        files: of the feed's folder.
        run: hash of the run's name, which binds objects to this feed.
        verify: checks signatures.
        max_bytes: of an object.
    """

    files: Files
    run: bytes
    verify: Verify
    max_bytes: int

    def list_numbers(self) -> list[int]:
        """Return the numbers of all listed versions, the newest first; a list may be old, or have others."""
        listed = {parse_version(entry.base) for entry in self.files.entries(VERSIONS) if not entry.is_folder}
        return sorted((number for number in listed if number is not None), reverse=True)

    def iterate_newest(self, above: int = -1) -> Iterator[Version]:
        """Yield the records of listed versions above a number, the newest first; wrong ones are left out.

        Each wrong one costs a request. After ``timeout`` seconds, no further one is read.

        Raises CollectiveError if none is found in this time, and all were wanted: a feed is not empty then.
        """
        end, is_found = time.monotonic() + self.files.patience, False
        for number in self.list_numbers():
            if number <= above:
                return
            if time.monotonic() > end:
                if above < 0 and not is_found:
                    raise CollectiveError(
                        f"no version was found in {self.files.root} for {self.files.patience:g} s, among"
                        " other objects or in a slow store; pass a larger timeout, or remove what others have"
                        " put there",
                        reason="transport",
                    )
                return
            record = self.read(number)
            if record is not None:
                is_found = True
                yield record

    def find_newest(self, above: int = -1) -> Version | None:
        """Return the record of the newest listed version, if its number is above one, or None."""
        return next(self.iterate_newest(above), None)

    def find_last(self) -> Version | None:
        """Return the record of the newest version; a list may be old, so those behind it are read, too."""
        found, following = None, self.find_newest()
        while following is not None:
            found, following = following, self.read(following.number + 1)
        return found

    def read(self, number: int) -> Version | None:
        """Return the record of a version, or None, also if it is not written completely."""
        found = self._slots(number, 0).find()[1]
        return None if found is None else Version.parse(number, found.body)

    def claim(self, made: Version, name: str, sign: Sign) -> Version:
        """Create the record of a version, and return it; or return that of another publisher."""
        data = Envelope(Kind.VERSION, self.run, made.number, name, made.pack()).pack(sign)
        return Version.parse(
            made.number,
            self._slots(made.number, min(_MAX_GRACE, self.files.patience / 4)).claim(lambda: data).body,
        )

    def find_overtaking(self, made: Version) -> Version | None:
        """Return the newest version above one that was claimed just now, or None.

        A publisher that has slept may create a record that another one has written and deleted. Then its own
        one is deleted. The record before is deleted first, so while it is there, nobody has.
        """
        if made.number and self.read(made.number - 1) is not None:
            return None
        newer = self.find_newest(made.number)
        if newer is not None:
            slot, found = self._slots(made.number, 0).find()
            if found is not None and found.body == made.pack():
                self.files.delete(path_of_version(made.number, slot))
        return newer

    def _slots(self, number: int, grace: float) -> Slots:
        def parse(data: bytes) -> Envelope:
            found = open_slot(data, [Kind.VERSION], self.run, number, self.verify)
            Version.parse(number, found.body)
            return found

        limit = OVERHEAD + MAX_NAME + MAX_BODY
        return Slots(self.files, lambda slot: path_of_version(number, slot), parse, limit, grace)

    def put(self, number: int, base: int | None, data: bytes) -> Part:
        """Write an object that makes a version, and return what a record says about it."""
        if len(data) > self.max_bytes:
            raise ValueError(f"an object of the feed has {len(data)} bytes; max_bytes is {self.max_bytes}")
        part = Part(base, len(data), hashlib.sha256(data).digest())
        self.files.put(path_of_object(number, part.digest), data)
        return part

    def fetch(self, number: int, part: Part) -> bytes:
        """Return an object; raise Refused if it is gone, or has other bytes than the record says."""
        if part.size > self.max_bytes:
            raise Refused("value", f"an object has {part.size} bytes; max_bytes is {self.max_bytes}")
        data = self.files.get(path_of_object(number, part.digest), part.size + 1)
        if data is None:
            raise Refused("absent", f"an object of version {number} is gone")
        if len(data) != part.size or hashlib.sha256(data).digest() != part.digest:
            raise Refused("digest", f"an object of version {number} has other bytes than its record says")
        return data

    def report(self, name: str, version: int) -> None:
        """Write which version a reader has, if it may and the store does not fail."""
        body = _TIME.pack(time.time_ns() // 1000)
        with suppress(CollectiveError):
            self.files.without_repeats().put(
                path_of_reader(name), Envelope(Kind.READER, self.run, version, name, body).pack()
            )

    def iterate_reports(self) -> Iterator[Report]:
        """Yield the reports of readers, in the order of their names; wrong ones are left out."""
        for entry in self.files.entries(READERS):
            if entry.is_folder or not is_name(entry.base):
                continue
            data = self.files.get(path_of_reader(entry.base), OVERHEAD + MAX_NAME + _TIME.size + 1)
            with suppress(Refused):
                found = Envelope.unpack(data or b"")
                found.require_place([Kind.READER], self.run, found.number, entry.base)
                if len(found.body) == _TIME.size:
                    yield Report(found.name, found.number, *_TIME.unpack(found.body))

    def prune(self, oldest: int) -> None:
        """Delete the records and objects of older versions, the oldest first, if this program may."""
        for folder, parse in ((VERSIONS, parse_version), (OBJECTS, parse_object)):

            def is_old(base: str, parse: Any = parse) -> bool:
                number = parse(base)
                return number is not None and number < oldest

            self.files.clean(folder, is_old)


def open_archive(
    url: str,
    run: str,
    verify: Verify,
    *,
    timeout: float,
    storage_options: Mapping[str, Any] | None,
    max_bytes: int,
) -> Archive:
    """Open the folder of a feed, which need not exist.

    Raises:
        ValueError: the name of the run is not valid, or the store cannot create an object exclusively.
        ImportError: fsspec, or the package of the protocol, is missing.
    """
    check_name(run, "run")
    files = Files(str(url), run, storage_options, timeout).below(FOLDER)
    return Archive(files, hash_run(run, b"feed"), verify, max_bytes)

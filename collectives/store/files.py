"""Objects of a run in a store: reads, writes and lists that are repeated while the store fails."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from collectives.errors import CollectiveError
from collectives.store.backends import UnsuitableStore, endpoint_of, is_object_store, open_folder
from collectives.store.failures import describe, find_remedy, is_denied, is_final, is_missing_bucket
from collectives.store.folders import base_of

T = TypeVar("T")

FIRST_PAUSE, LAST_PAUSE = 0.05, 5.0  # seconds between two tries, doubled each time


class Listed(NamedTuple):
    """Entry of a folder.

    Attributes:
        base: last part of its path.
        size: in bytes.
        written: seconds since 1970 by the store's clock, or None if it is unknown.
        is_folder: whether it is one.
    """

    base: str
    size: int
    written: float | None
    is_folder: bool


@dataclass
class Traffic:
    """Counts of a peer's requests.

    Attributes:
        sent, received: bytes of objects.
        requests: of any kind, with repeated ones.
        repeated: requests after an error.
    """

    sent: int = 0
    received: int = 0
    requests: int = 0
    repeated: int = 0


class Files:
    """Folder of a run.

    A request that fails is repeated, unless no try mends its error (``failures``). The exception is a client
    of an object store whose first request fails: the endpoint, the bucket or the credentials are probably
    wrong, so this is an error at once.

    Args:
        url: of the folder in which runs are, as fsspec has them.
        run: name of the run; "" for the folder itself.
        storage_options: of the file system.
        patience: seconds for which a request is repeated while the store fails.

    Raises:
        ImportError: fsspec, or the package of the protocol, is missing.
        UnsuitableStore: the store cannot create an object exclusively, or has no such folder.
    """

    def __init__(
        self, url: str, run: str, storage_options: Mapping[str, Any] | None, patience: float
    ) -> None:
        folder = open_folder(url, storage_options)
        self._folder = folder.below(run) if run else folder
        self._is_object_store = is_object_store(folder.fs)
        self._has_answered = not self._is_object_store  # the others have connected, or need not
        self._process = os.getpid()
        self._repeats = True
        self.patience = patience
        self.traffic = Traffic()

    @property
    def root(self) -> str:
        """Path of the folder in the file system."""
        return self._folder.root

    def below(self, name: str) -> Files:
        """Return a folder in this one; both count their requests together."""
        files = copy(self)
        files._folder = self._folder.below(name)
        return files

    def without_repeats(self) -> Files:
        """Return the same folder with one try per request; both count their requests together."""
        files = copy(self)
        files._repeats = False
        return files

    def may_succeed_later(self, error: CollectiveError) -> bool:
        """Return whether a request of this folder that has failed would be repeated."""
        cause = error.__cause__
        return self._has_answered and cause is not None and not is_final(cause)

    def get(self, path: str, limit: int) -> bytes | None:
        """Return at most ``limit`` bytes of an object; None if there is none, and nothing of a folder."""
        try:
            data = self._repeat(
                f"read {path}",
                lambda: self._folder.read(path, limit),
                FileNotFoundError,
                NotADirectoryError,
                IsADirectoryError,
            )
        except IsADirectoryError:
            return b""
        except (FileNotFoundError, NotADirectoryError):
            return None
        self.traffic.received += len(data)
        return data

    def get_if_allowed(self, path: str, limit: int) -> bytes | None:
        """Return the same as ``get``, and None of a single object that this peer may not read.

        For objects whose absence decides nothing: an agreed object is missing for all peers, or for none.
        """
        try:
            return self.get(path, limit)
        except CollectiveError as error:
            if not is_denied(error.__cause__):
                raise
            self.entries(path.rpartition("/")[0])  # fails as well if the credentials have expired
            return None

    def put(self, path: str, data: bytes) -> None:
        """Write an object whose name has its digest."""
        self._write(f"write {path}", path, data, self._folder.put)

    def create(self, path: str, data: bytes) -> bool:
        """Create an object if there is none of that name; return whether this call, or an earlier try, did.

        A try whose answer was lost may have succeeded, so the caller reads the object in any case.
        """
        try:
            self._write(f"create {path}", path, data, self._folder.create, FileExistsError)
        except FileExistsError:
            return False
        return True

    def entries(self, path: str) -> list[Listed]:
        """Return what is in a folder, in order of the names; nothing if there is no such folder."""
        try:
            found = self._repeat(
                f"list {path or 'the folder'}",
                lambda: self._folder.entries(path),
                FileNotFoundError,
                NotADirectoryError,
            )
        except (FileNotFoundError, NotADirectoryError):
            return []
        listed = (
            Listed(base, _read_size(one), _read_time(one), one.get("type") == "directory")
            for one in found
            if (base := base_of(one))
        )
        return sorted(listed, key=lambda one: (one.base, one.is_folder))

    def clean(self, path: str, is_old: Callable[[str], bool]) -> None:
        """Delete some objects of a folder in their order, if this peer may and the store does not fail.

        Args:
            path: of the folder.
            is_old: tells for the last part of a path whether it is deleted.
        """
        self.traffic.requests += 1
        with suppress(Exception):
            for base in sorted(map(base_of, self._folder.entries(path))):
                if is_old(base):
                    self.delete(f"{path}/{base}")

    def delete(self, path: str) -> None:
        """Delete an object if this peer may; whoever may not leaves it to others."""
        self.traffic.requests += 1
        with suppress(Exception):
            self._folder.delete(path)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if this peer may."""
        self.traffic.requests += 1
        with suppress(Exception):
            self._folder.delete_folder(path)

    def check_exclusive(self, path: str) -> None:
        """Make the folder, create an object in it twice, and raise an error if the store is not usable.

        Raises:
            UnsuitableStore: the second creation succeeds, because the server ignores conditions; or a file
                is in the place of the folder.
            CollectiveError: the store does not answer, the bucket does not exist, or this peer may not write.
        """
        if not self._is_object_store:  # which has no folders, so that nothing would be asked
            self._make_folder()
        self.create(path, b"1")
        is_twice = self.create(path, b"2")
        content = self.get(path, 2)
        self.delete(path)
        if is_twice or content != b"1":
            raise UnsuitableStore(
                f"the store at {self.root} overwrites an object that must be created only if there is none;"
                " peers cannot agree in it"
            )

    def _make_folder(self) -> None:
        try:
            self._repeat("make the folder", self._folder.make_root, FileExistsError, NotADirectoryError)
        except (FileExistsError, NotADirectoryError) as error:
            raise UnsuitableStore(
                f"{self.root} cannot be a folder of a run, because a file is in its path"
            ) from error

    def _write(
        self,
        what: str,
        path: str,
        data: bytes,
        write: Callable[[str, bytes], None],
        *expected: type[Exception],
    ) -> None:
        def attempt() -> None:
            try:
                write(path, data)
            except (FileNotFoundError, NotADirectoryError):
                if self._is_object_store:
                    raise  # object stores have no folders: the bucket is missing
                self._folder.make_parents(path)
                write(path, data)

        self._repeat(what, attempt, *expected)
        self.traffic.sent += len(data)

    def _repeat(self, what: str, ask: Callable[[], T], *expected: type[Exception]) -> T:
        """Make a request until it succeeds.

        Args:
            what: is asked for, in a message.
            ask: makes the request.
            expected: errors that are answers, and are raised as they are.

        Raises CollectiveError for any other error: at once if no try mends it, or if the store has not
        answered any request yet; else if the store fails for too long.
        """
        self._check_process()
        end, pause = time.monotonic() + self.patience, FIRST_PAUSE
        while True:
            self.traffic.requests += 1
            try:
                found = ask()
            except Exception as error:  # file systems raise errors of many kinds
                if isinstance(error, expected) and not is_missing_bucket(error):
                    self._has_answered = True
                    raise
                if not self._has_answered or is_final(error):
                    raise self._unusable(what, error) from error
                if not self._repeats or time.monotonic() + pause > end:
                    raise CollectiveError(
                        f"the store failed for {self.patience:g} s: cannot {what}:"
                        f" {describe(error)}{find_remedy(error)}",
                        reason="transport",
                    ) from error
            else:
                self._has_answered = True
                return found
            self.traffic.repeated += 1
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LAST_PAUSE)

    def _check_process(self) -> None:
        """Raise CollectiveError in a process that has this object from another one, as after a fork."""
        if os.getpid() != self._process:
            raise CollectiveError(
                f"this connection to the store {self.root} was made in process {self._process}, and cannot be"
                f" used in process {os.getpid()}; make the StoreComm, Publisher or Subscriber in each"
                " process, after the fork",
                reason="closed",
            )

    def _unusable(self, what: str, error: Exception) -> CollectiveError:
        """Return the error of a request that is not repeated; it names the endpoint and the bucket."""
        endpoint = endpoint_of(self._folder.fs)
        at, advice = (f" at the endpoint {endpoint}", "the endpoint, ") if endpoint else ("", "")
        if self._is_object_store and not self._has_answered:
            bucket = self.root.lstrip("/").partition("/")[0]
            remedy = f"; check {advice}the bucket {bucket!r} and the credentials"
        else:
            remedy = find_remedy(error)
        return CollectiveError(
            f"the store {self.root}{at} cannot be used: cannot {what}: {describe(error)}{remedy}",
            reason="transport",
        )


def _read_size(entry: Mapping[str, Any]) -> int:
    """Return the size of an entry of a list, in bytes; 0 if it is unknown."""
    size = entry.get("size")
    return size if isinstance(size, int) else 0


def _read_time(entry: Mapping[str, Any]) -> float | None:
    """Return when an entry of a list was written, in seconds since 1970."""
    for key in ("mtime", "LastModified", "updated", "last_modified", "created"):
        value = entry.get(key)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None

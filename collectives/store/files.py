"""Objects of a run in a store: reads, writes and lists that are repeated while the store fails."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from collectives.errors import CollectiveError
from collectives.store.backends import (
    UnsuitableStore,
    check_suitable,
    complete_options,
    create,
    endpoint_of,
    is_object_store,
    put,
    read,
)

T = TypeVar("T")

FIRST_PAUSE, LAST_PAUSE = 0.05, 5.0  # seconds between two tries, doubled each time
_FINAL = (
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    TypeError,
    AttributeError,
    NotImplementedError,
    IsADirectoryError,
    NotADirectoryError,
)
"""Errors that another try does not mend."""


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

    A request that fails is repeated. The exception is a client of an object store whose first request fails:
    the endpoint, the bucket or the credentials are probably wrong, so this is an error at once.

    Args:
        url: of the folder in which runs are, as fsspec has them.
        run: name of the run; "" for the folder itself.
        storage_options: of the file system.
        patience: seconds for which a request is repeated while the store fails.

    Raises:
        ImportError: fsspec, or the package of the protocol, is missing.
        UnsuitableStore: the store cannot create an object exclusively.
    """

    def __init__(
        self, url: str, run: str, storage_options: Mapping[str, Any] | None, patience: float
    ) -> None:
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise ImportError(
                "StoreComm needs the package fsspec: pip install fsspec", name="fsspec"
            ) from error
        self._fs, root = url_to_fs(url, **complete_options(url, storage_options))
        check_suitable(self._fs)
        self._has_answered = not is_object_store(self._fs)  # the others have connected, or need not
        self.root = "/".join([root.rstrip("/"), *filter(None, [run])])
        self.patience = patience
        self.traffic = Traffic()

    def below(self, name: str) -> Files:
        """Return a folder in this one; both count their requests together."""
        folder = copy(self)
        folder.root = f"{self.root}/{name}"
        return folder

    def get(self, path: str, limit: int) -> bytes | None:
        """Return at most ``limit`` bytes of an object; None if there is none, and nothing of a folder."""
        try:
            data = self._repeat(f"read {path}", lambda: read(self._fs, self._full(path), limit))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError:
            return b""
        self.traffic.received += len(data)
        return data

    def put(self, path: str, data: bytes) -> None:
        """Write an object whose name has its digest."""
        self._write(f"write {path}", path, data, put)

    def create(self, path: str, data: bytes) -> bool:
        """Create an object if there is none of that name; return whether this call, or an earlier try, did.

        A try whose answer was lost may have succeeded, so the caller reads the object in any case.
        """
        try:
            self._write(f"create {path}", path, data, create)
        except FileExistsError:
            return False
        return True

    def entries(self, path: str) -> list[Listed]:
        """Return what is in a folder, in order of the names; nothing if there is no such folder."""

        try:
            found = self._repeat(f"list {path}", lambda: self._ask_for_list(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(
            Listed(
                str(one["name"]).rstrip("/").rpartition("/")[2],
                int(one.get("size") or 0),
                _read_time(one),
                one.get("type") == "directory",
            )
            for one in found
        )

    def clean(self, path: str, is_old: Callable[[str], bool]) -> None:
        """Delete some objects of a folder, if this peer may and the store does not fail.

        Args:
            path: of the folder.
            is_old: tells for the last part of a path whether it is deleted.
        """
        self.traffic.requests += 1
        with suppress(Exception):
            for one in self._ask_for_list(path):
                base = str(one["name"]).rpartition("/")[2]
                if is_old(base):
                    self.delete(f"{path}/{base}")

    def _ask_for_list(self, path: str) -> list[dict[str, Any]]:
        full = self._full(path)
        self._fs.invalidate_cache(full)
        found: list[dict[str, Any]] = self._fs.ls(full, detail=True)
        return found

    def delete(self, path: str) -> None:
        """Delete an object if this peer may; whoever may not leaves it to others."""
        self.traffic.requests += 1
        with suppress(Exception):
            self._fs.rm_file(self._full(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it, if this peer may."""
        self.traffic.requests += 1
        with suppress(Exception):
            self._fs.rm(self._full(path), recursive=True)

    def check_exclusive(self, path: str) -> None:
        """Create an object twice, and raise an error if the store is not usable.

        Raises:
            UnsuitableStore: the second creation succeeds, because the server ignores conditions.
            CollectiveError: the store does not answer, the bucket does not exist, or this peer may not write.
        """
        try:
            self.create(path, b"1")
        except (FileNotFoundError, PermissionError) as error:
            raise self._unusable(f"create {path}", error) from error
        is_twice = self.create(path, b"2")
        content = self.get(path, 2)
        self.delete(path)
        if is_twice or content != b"1":
            raise UnsuitableStore(
                f"the store at {self.root} overwrites an object that must be created only if there is none;"
                " peers cannot agree in it"
            )

    def _full(self, path: str) -> str:
        return f"{self.root}/{path}" if path else self.root

    def _write(self, what: str, path: str, data: bytes, write: Callable[[Any, str, bytes], None]) -> None:
        full = self._full(path)

        def attempt() -> None:
            try:
                write(self._fs, full, data)
            except FileNotFoundError:
                if is_object_store(self._fs):
                    raise  # object stores have no folders: the bucket is missing
                self._fs.makedirs(full.rpartition("/")[0], exist_ok=True)
                write(self._fs, full, data)

        try:
            self._repeat(what, attempt)
        except NotADirectoryError as error:
            raise UnsuitableStore(
                f"{self.root} cannot be a folder of a run, because a file is in its path"
            ) from error
        self.traffic.sent += len(data)

    def _repeat(self, what: str, ask: Callable[[], T]) -> T:
        """Make a request until it succeeds.

        Raises CollectiveError if the store fails for too long, or has not answered any request yet.
        """
        end, pause = time.monotonic() + self.patience, FIRST_PAUSE
        while True:
            self.traffic.requests += 1
            try:
                found = ask()
            except _FINAL:
                self._has_answered = True
                raise
            except Exception as error:  # file systems raise errors of many kinds
                if not self._has_answered:
                    raise self._unusable(what, error) from error
                if time.monotonic() + pause > end:
                    raise CollectiveError(
                        f"the store failed for {self.patience:g} s: cannot {what}:"
                        f" {type(error).__name__}: {error}",
                        reason="transport",
                    ) from error
            else:
                self._has_answered = True
                return found
            self.traffic.repeated += 1
            time.sleep(pause * random.uniform(0.5, 1))
            pause = min(2 * pause, LAST_PAUSE)

    def _unusable(self, what: str, error: Exception) -> CollectiveError:
        """Return the error of a store whose first request failed; it names the endpoint and the bucket."""
        endpoint = endpoint_of(self._fs)
        at, advice = (f" at the endpoint {endpoint}", "the endpoint, ") if endpoint else ("", "")
        if is_object_store(self._fs):
            bucket = self.root.lstrip("/").partition("/")[0]
            advice = f"; check {advice}the bucket {bucket!r} and the credentials"
        return CollectiveError(
            f"the store {self.root}{at} cannot be used: cannot {what}:"
            f" {type(error).__name__}: {error}{advice}",
            reason="transport",
        )


def _read_time(entry: Mapping[str, Any]) -> float | None:
    """Return when an entry of a list was written, in seconds since 1970."""
    for key in ("mtime", "LastModified", "updated", "last_modified", "created"):
        value = entry.get(key)
        if isinstance(value, int | float):
            return float(value)
        if isinstance(value, datetime):
            return value.timestamp()
    return None

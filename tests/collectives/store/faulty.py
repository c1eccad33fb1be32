"""File system with faults: errors, outages, lost answers, partial objects, and lists that lag behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from collectives.store.local import LocalFolder


@dataclass
class Faults:
    """Faults of a file system; each is off by default.

    Attributes:
        down_until: a time of the monotonic clock before which every request fails.
        every: each request whose number is divisible by it fails; 0 for none.
        lost: the answer of each write whose number is divisible by it is lost: it succeeds, and raises.
        partial: seconds for which an object has only its first half.
        lag: seconds by which lists are behind.
        hook: is called with (operation, path) before each request.
        requests, writes: so far.
    """

    down_until: float = 0.0
    every: int = 0
    lost: int = 0
    partial: float = 0.0
    lag: float = 0.0
    hook: Callable[[str, str], None] | None = None
    requests: int = 0
    writes: int = 0
    seen: dict[str, float] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, operation: str, path: str) -> None:
        """Count a request; raise OSError if it fails."""
        if self.hook is not None:
            self.hook(operation, path)
        with self.lock:
            self.requests += 1
            number = self.requests
        if time.monotonic() < self.down_until:
            raise OSError(f"the store is down: {operation}")
        if self.every and number % self.every == 0:
            raise OSError(f"request {number} fails: {operation}")

    def end_write(self) -> None:
        """Lose the answer of a write that has succeeded."""
        with self.lock:
            self.writes += 1
            is_lost = self.lost and self.writes % self.lost == 0
        if is_lost:
            raise OSError("the answer is lost")


class FaultyFileSystem(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """Local folder with faults, which are passed in ``storage_options``."""

    protocol = "faulty"
    cachable = False

    def __init__(self, faults: Faults | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.faults = faults or Faults()
        self.inner = LocalFileSystem()

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(path).removeprefix(f"{cls.protocol}://")

    def info(self, path: str, **_: Any) -> Any:
        return self.inner.info(self._strip_protocol(path))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        self.faults.begin("ls", path)
        found = self.inner.ls(path, detail=True)
        now = time.monotonic()
        if self.faults.lag:
            with self.faults.lock:
                for one in found:
                    self.faults.seen.setdefault(one["name"], now)
                found = [one for one in found if now - self.faults.seen[one["name"]] >= self.faults.lag]
        return found if detail else [one["name"] for one in found]

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        self.faults.begin("get", path)
        data: bytes = self.inner.cat_file(path, start=start, end=end)
        return data

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        self.faults.begin("put", path)
        if self.faults.partial:
            self.inner.pipe_file(path, value[: len(value) // 2])
            threading.Timer(self.faults.partial, self.inner.pipe_file, [path, value]).start()
        else:
            self.inner.pipe_file(path, value)
        self.faults.end_write()

    def create_exclusively(self, path: str, data: bytes) -> None:
        self.faults.begin("create", path)
        folder, _, base = path.rpartition("/")
        LocalFolder(self.inner, folder).create(base, data)
        self.faults.end_write()

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.inner.makedirs(path, exist_ok=exist_ok)

    def rm_file(self, path: str) -> None:
        self.faults.begin("rm", path)
        self.inner.rm_file(path)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        self.faults.begin("rm", path)
        self.inner.rm(path, recursive=recursive)


fsspec.register_implementation("faulty", FaultyFileSystem, clobber=True)

"""Folders of a run in file systems of fsspec: how each reads, creates, lists and deletes by exact names.

No method of fsspec is called that expands patterns, such as a recursive ``rm``: a folder may have ``[``,
``*`` and ``?`` in its name. Strangers may put anything into the folder of a run. What is no object is read as
nothing, and nothing outside of the folder is created or deleted.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from collectives.store.failures import is_refused_condition

_MEMORY_LOCK = threading.Lock()


@dataclass(frozen=True)
class Folder:
    """Folder in a file system without links: an object store, or a file system of a program.

    Attributes:
        fs: the file system.
        root: path of the folder, as the file system has it.
        condition: options with which an object is created exclusively; None if the file system has a method
            ``create_exclusively``.
    """

    fs: Any
    root: str
    condition: dict[str, Any] | None = None

    def below(self, name: str) -> Folder:
        """Return a folder in this one."""
        return replace(self, root=self.full(name))

    def full(self, path: str) -> str:
        """Return the path in the file system of a path in this folder; "" is the folder itself."""
        return f"{self.root}/{path}" if path else self.root

    def make_root(self) -> None:
        """Make the folder itself, if the file system has folders that must be made."""

    def make_parents(self, path: str) -> None:
        """Make the folders of an object; whatever strangers have put in their places is removed."""
        self.fs.makedirs(self.full(path).rpartition("/")[0], exist_ok=True)

    def read(self, path: str, limit: int) -> bytes:
        """Return at most ``limit`` bytes of an object; nothing of what is no object, such as a folder.

        Raises FileNotFoundError if there is none.
        """
        full = self.full(path)
        try:
            data: bytes = self.fs.cat_file(full, start=0, end=limit)
        except FileNotFoundError:
            raise
        except IsADirectoryError:
            return b""
        except Exception:
            if self._is_empty(full):  # servers refuse a range of an empty object
                return b""
            raise
        return data

    def _is_empty(self, full: str) -> bool:
        with suppress(Exception):  # the error of the read tells more
            return bool(self.fs.size(full) == 0)
        return False

    def put(self, path: str, data: bytes) -> None:
        """Write an object, whose name has its digest; writing it twice has no further effect."""
        self.fs.pipe_file(self.full(path), data)

    def create(self, path: str, data: bytes) -> None:
        """Create an object with its whole content; raise FileExistsError if there is one."""
        if self.condition is None:
            self.fs.create_exclusively(self.full(path), data)
            return
        try:
            self.fs.pipe_file(self.full(path), data, **self.condition)
        except FileExistsError:
            raise
        except Exception as error:
            if is_refused_condition(error):
                raise FileExistsError(path) from error
            raise

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder, as fsspec describes it; of an object, just itself."""
        full = self.full(path)
        self.fs.invalidate_cache(full)
        if cache := getattr(self.fs, "dircache", None):  # some file systems do not implement that method
            cache.clear()
        found: list[dict[str, Any]] = self.fs.ls(full, detail=True)
        return found

    def delete(self, path: str) -> None:
        """Delete an object."""
        self.fs.rm_file(self.full(path))

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        for one in self.entries(path):
            base = base_of(one)
            if not base:
                continue
            if one.get("type") == "directory":
                with suppress(FileNotFoundError):  # a mark of a folder is listed in that folder, too
                    self.delete_folder(f"{path}/{base}")
            else:
                self.delete(f"{path}/{base}")
        if not getattr(self.fs, "async_impl", False):
            with suppress(FileNotFoundError):
                self.fs.rmdir(self.full(path))


class MemoryFolder(Folder):
    """Folder in fsspec's memory, whose folders are prefixes of names."""

    def make_parents(self, path: str) -> None:
        """Make the folders of an object; whatever is in their places is removed."""
        for parent in parents_of(path):
            if self.fs.isfile(self.full(parent)):
                self.fs.rm_file(self.full(parent))

    def read(self, path: str, limit: int) -> bytes:
        """Read at most ``limit`` bytes of an object."""
        try:
            return super().read(path, limit)
        except FileNotFoundError:
            if self.fs.isdir(self.full(path)):
                return b""
            raise

    def put(self, path: str, data: bytes) -> None:
        """Write an object, whose name has its digest."""
        self._check_parents(path)
        super().put(path, data)

    def create(self, path: str, data: bytes) -> None:
        """Create an object; raise FileExistsError if there is one."""
        self._check_parents(path)
        with _MEMORY_LOCK:
            super().create(path, data)

    def _check_parents(self, path: str) -> None:
        """Raise NotADirectoryError if an object is in the place of a folder."""
        for parent in parents_of(path):
            if self.fs.isfile(self.full(parent)):
                raise NotADirectoryError(parent)


def parents_of(path: str) -> list[str]:
    """Return the folders of a path in a folder, from the outermost on."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


def base_of(entry: dict[str, Any]) -> str:
    """Return the last part of the path of an entry of a list; "" if it has none."""
    return str(entry.get("name") or "").rstrip("/").rpartition("/")[2]

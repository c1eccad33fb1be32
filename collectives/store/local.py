"""Folder of this machine, in which links are not followed.

Each folder of a path is opened in the one before, so a stranger who exchanges one for a link changes nothing.
Where Python cannot open in a folder, as under Windows, each is looked at before.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from collectives.store.folders import Folder

_CAN_OPEN_IN = os.open in os.supports_dir_fd and os.scandir in os.supports_fd
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of file systems without hard links."""


class _Descriptors(list[int]):
    """Descriptors of open files, which are closed at the latest when nothing refers to them any more."""

    def open(self, path: str, flags: int, *, dir_fd: int | None = None) -> int:
        """Open a file, and append its descriptor without an instruction of Python between the two."""
        self.extend(islice(iter(partial(os.open, path, flags, dir_fd=dir_fd), None), 1))
        return self[-1]

    def close(self) -> None:
        while self:
            os.close(self.pop())

    __del__ = close


@dataclass(frozen=True)
class _Opened:
    """Open folder.

    Attributes:
        path: of it.
        descriptors: one, or none where Python cannot open in a folder.
        fd: the descriptor, or None.
    """

    path: str
    descriptors: _Descriptors
    fd: int | None

    def at(self, base: str) -> str:
        """Return the name by which functions with ``dir_fd`` take an entry."""
        return base if self.fd is not None else os.path.join(self.path, base)

    def stat(self, base: str) -> os.stat_result:
        return os.stat(self.at(base), dir_fd=self.fd, follow_symlinks=False)

    def unlink(self, base: str) -> None:
        os.unlink(self.at(base), dir_fd=self.fd)

    def enter(self, base: str) -> _Opened:
        """Open a folder in this one; raise NotADirectoryError if it is none, also if it is a link to one."""
        path, descriptors = os.path.join(self.path, base), _Descriptors()
        if self.fd is None:
            if not stat.S_ISDIR(self.stat(base).st_mode):
                raise NotADirectoryError(path)
            return _Opened(path, descriptors, None)
        try:
            fd = descriptors.open(base, os.O_RDONLY | os.O_DIRECTORY | _NO_FOLLOW, dir_fd=self.fd)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotADirectoryError(path) from error
            raise
        return _Opened(path, descriptors, fd)

    def make(self, base: str) -> _Opened:
        """Open a folder in this one, after making it; what is in its place, and no folder, is removed."""
        try:
            return self.enter(base)
        except NotADirectoryError:
            with suppress(IsADirectoryError, FileNotFoundError):  # another peer was faster
                self.unlink(base)
        except FileNotFoundError:
            pass
        with suppress(FileExistsError):
            os.mkdir(self.at(base), dir_fd=self.fd)
        return self.enter(base)

    def write(self, base: str, data: bytes) -> None:
        """Write a new file; nothing of it stays if this fails."""
        with open(self.at(base), "xb", opener=partial(os.open, mode=0o666, dir_fd=self.fd)) as file:
            try:
                file.write(data)
                file.flush()
            except BaseException:
                with suppress(OSError):
                    self.unlink(base)
                raise

    @contextmanager
    def temporary(self, data: bytes) -> Iterator[str]:
        """Write a file that is removed at the end of the context, if it is still there."""
        base = f".{secrets.token_hex(8)}.tmp"
        try:
            self.write(base, data)
            yield base
        finally:
            with suppress(OSError):
                self.unlink(base)

    def remove(self, base: str) -> None:
        """Remove a file, a link, or a folder with all that is in it."""
        if not stat.S_ISDIR(self.stat(base).st_mode):
            self.unlink(base)
            return
        opened = self.enter(base)
        try:
            for one in os.listdir(opened.path if opened.fd is None else opened.fd):
                opened.remove(one)
        finally:
            opened.descriptors.close()
        os.rmdir(self.at(base), dir_fd=self.fd)


class LocalFolder(Folder):
    """Folder of this machine. The folder itself may be a link; those in it may not."""

    def make_root(self) -> None:
        """Make the folder itself."""
        os.makedirs(self.root, exist_ok=True)

    def make_parents(self, path: str) -> None:
        """Make the folders of an object; whatever is in their places is removed."""
        opened = self._open_root()
        for base in path.split("/")[:-1]:
            outer = opened
            try:
                opened = outer.make(base)
            finally:
                outer.descriptors.close()
        opened.descriptors.close()

    def read(self, path: str, limit: int) -> bytes:
        """Read at most ``limit`` bytes of an object."""
        with self._folder_of(path) as (folder, base):
            if not stat.S_ISREG(folder.stat(base).st_mode):  # a pipe must not block, a device not be opened
                return b""
            flags = os.O_RDONLY | _NO_FOLLOW | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
            opened = _Descriptors()
            try:
                fd = opened.open(folder.at(base), flags, dir_fd=folder.fd)
                found = os.fstat(fd)
                if not stat.S_ISREG(found.st_mode):
                    return b""
                with open(fd, "rb", closefd=False) as file:
                    return file.read(min(limit, found.st_size))
            finally:
                opened.close()

    def put(self, path: str, data: bytes) -> None:
        """Write an object, whose name has its digest."""
        with self._folder_of(path) as (folder, base), folder.temporary(data) as temporary:
            os.replace(folder.at(temporary), folder.at(base), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)

    def create(self, path: str, data: bytes) -> None:
        """Create a file: a link to a complete one, which fails if the name is taken."""
        with self._folder_of(path) as (folder, base), folder.temporary(data) as temporary:
            try:
                os.link(folder.at(temporary), folder.at(base), src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
            except FileExistsError:
                raise
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                folder.unlink(temporary)  # a full disk then has the room that the object takes
                folder.write(base, data)  # readers wait for the rest of an incomplete object

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder."""
        if not path and os.path.isfile(self.root):
            return [_describe(os.path.basename(self.root), os.stat(self.root))]
        listed = []
        with self._open(path) as folder, os.scandir(folder.path if folder.fd is None else folder.fd) as found:
            for one in found:
                with suppress(FileNotFoundError):
                    listed.append(_describe(one.name, folder.stat(one.name)))
        return listed

    def delete(self, path: str) -> None:
        """Delete an object."""
        with self._folder_of(path) as (folder, base):
            folder.unlink(base)

    def delete_folder(self, path: str) -> None:
        """Delete a folder with all that is in it."""
        with self._folder_of(path) as (folder, base):
            folder.remove(base)

    def _open_root(self) -> _Opened:
        descriptors, flags = _Descriptors(), os.O_RDONLY | getattr(os, "O_DIRECTORY", 0)
        return _Opened(self.root, descriptors, descriptors.open(self.root, flags) if _CAN_OPEN_IN else None)

    @contextmanager
    def _open(self, path: str) -> Iterator[_Opened]:
        """Open a folder in this one."""
        opened = self._open_root()
        try:
            for base in filter(None, path.split("/")):
                outer = opened
                opened = outer.enter(base)
                outer.descriptors.close()
            yield opened
        finally:
            opened.descriptors.close()

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[_Opened, str]]:
        """Open the folder of an object; yield it with the object's name in it."""
        parent, _, base = path.rpartition("/")
        with self._open(parent) as opened:
            yield opened, base


def _describe(base: str, found: os.stat_result) -> dict[str, Any]:
    """Describe an entry of a folder as fsspec does."""
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return {"name": base, "size": found.st_size, "type": kind, "mtime": found.st_mtime}

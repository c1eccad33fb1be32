"""Folder on an SFTP server, in which links are not followed.

The protocol cannot open a folder in another one, so each is looked at before a request.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from collectives.store.folders import Folder, parents_of


class SftpFolder(Folder):
    """Folder on a server, through fsspec's client, which is paramiko's."""

    def make_root(self) -> None:
        """Make the folder itself."""
        self.fs.makedirs(self.root, exist_ok=True)
        if not stat.S_ISDIR(self.fs.ftp.stat(self.root).st_mode):
            raise NotADirectoryError(self.root)

    def make_parents(self, path: str) -> None:
        """Make the folders of an object; whatever is in their places is removed."""
        for full in map(self.full, parents_of(path)):
            try:
                if stat.S_ISDIR(self.fs.ftp.lstat(full).st_mode):
                    continue
                self.fs.ftp.remove(full)
            except FileNotFoundError:
                pass
            try:
                self.fs.ftp.mkdir(full)
            except OSError:
                if not stat.S_ISDIR(self.fs.ftp.lstat(full).st_mode):  # another peer was not faster
                    raise

    def read(self, path: str, limit: int) -> bytes:
        """Read at most ``limit`` bytes of an object."""
        self._check_parents(path)
        full = self.full(path)
        found = self.fs.ftp.lstat(full)
        if not stat.S_ISREG(found.st_mode):  # a pipe would block the server
            return b""
        with self.fs.ftp.open(full, "rb") as file:
            data: bytes = file.read(min(limit, found.st_size or 0))
        return data

    def put(self, path: str, data: bytes) -> None:
        """Write an object, whose name has its digest."""
        with self._temporary(path, data) as temporary:
            self.fs.ftp.posix_rename(temporary, self.full(path))

    def create(self, path: str, data: bytes) -> None:
        """Create a file: the protocol's rename, unlike that of POSIX, fails if the name is taken."""
        full = self.full(path)
        with self._temporary(path, data) as temporary:
            try:
                self.fs.ftp.rename(temporary, full)
            except OSError:
                try:
                    self.fs.ftp.lstat(full)
                except FileNotFoundError:
                    pass
                else:
                    raise FileExistsError(path) from None
                raise

    def entries(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder; names that are no UTF-8 are left out, since paramiko's list fails."""
        from paramiko.sftp import CMD_CLOSE, CMD_HANDLE, CMD_NAME, CMD_OPENDIR, CMD_READDIR
        from paramiko.sftp_attr import SFTPAttributes

        self._check_parents(f"{path}/" if path else "")
        ftp, full = self.fs.ftp, self.full(path)
        kind, answer = ftp._request(CMD_OPENDIR, full)
        if kind != CMD_HANDLE:
            raise OSError(f"the SFTP server answers {kind} to a request for a list")
        handle = answer.get_binary()
        listed: list[dict[str, Any]] = []
        try:
            while True:
                try:
                    kind, answer = ftp._request(CMD_READDIR, handle)
                except EOFError:
                    return listed
                if kind != CMD_NAME:
                    raise OSError(f"the SFTP server answers {kind} to a request for a list")
                for _ in range(answer.get_int()):
                    name = answer.get_binary()
                    answer.get_binary()  # the line of ``ls -l``
                    found = SFTPAttributes._from_msg(answer)
                    with suppress(UnicodeDecodeError):
                        if name not in (b".", b".."):
                            listed.append(_describe(name.decode(), found))
        finally:
            ftp._request(CMD_CLOSE, handle)

    def delete(self, path: str) -> None:
        """Delete an object."""
        self._check_parents(path)
        self.fs.ftp.remove(self.full(path))

    @contextmanager
    def _temporary(self, path: str, data: bytes) -> Iterator[str]:
        """Write a file beside an object; it is removed at the end of the context, if it is still there."""
        self._check_parents(path)
        temporary = f"{self.full(path).rpartition('/')[0]}/.{secrets.token_hex(8)}.tmp"
        try:
            self.fs.pipe_file(temporary, data)
            size = self.fs.ftp.lstat(temporary).st_size  # some servers report no write that is incomplete
            if size != len(data):
                raise OSError(f"the server has written {size} of {len(data)} bytes; its disk may be full")
            yield temporary
        finally:
            with suppress(OSError, EOFError):
                self.fs.ftp.remove(temporary)

    def _check_parents(self, path: str) -> None:
        """Raise NotADirectoryError if a folder of an object is none, also if it is a link to one."""
        for full in map(self.full, parents_of(path)):
            if not stat.S_ISDIR(self.fs.ftp.lstat(full).st_mode):
                raise NotADirectoryError(full)


def _describe(base: str, found: Any) -> dict[str, Any]:
    """Describe an entry of a folder as fsspec does."""
    kind = "directory" if stat.S_ISDIR(found.st_mode) else "file" if stat.S_ISREG(found.st_mode) else "other"
    return {"name": base, "size": found.st_size or 0, "type": kind, "mtime": found.st_mtime}

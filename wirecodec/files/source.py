"""Ranges of bytes of a file of this machine, or of an object behind fsspec."""

from __future__ import annotations

import os
from threading import Lock
from typing import Any, Protocol

import numpy as np

from wirecodec.arrays import Bytes


class Source(Protocol):
    """Protocol of a file of which ranges are read.

    Attributes:
        size: length in bytes.
    """

    size: int

    def read(self, start: int, stop: int) -> Bytes:
        """Return the bytes of a range, or fewer if the file has become shorter."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


class LocalFile:
    """File of this machine. It is read, not mapped: a file that becomes shorter would end the process."""

    def __init__(self, path: str) -> None:
        self._file, self._lock = open(path, "rb", buffering=0), Lock()  # noqa: SIM115
        self.size = os.fstat(self._file.fileno()).st_size

    def read(self, start: int, stop: int) -> Bytes:
        """Return the bytes of a range."""
        data, at = np.empty(stop - start, np.uint8), 0
        while at < data.size:
            count = self._read_into(data[at:], start + at)
            if not count:
                break
            at += count
        return data[:at]

    def _read_into(self, data: Bytes, offset: int) -> int:
        if hasattr(os, "preadv"):
            return os.preadv(self._file.fileno(), [data.data], offset)
        with self._lock:  # threads share the position
            self._file.seek(offset)
            return self._file.readinto(data.data) or 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class RemoteFile:
    """Object of a file system of fsspec.

    Args:
        url: of the object.
        options: of the file system.
    """

    def __init__(self, url: str, options: dict[str, Any]) -> None:
        self._fs, self._path = connect(url, options)
        self.size = int(self._fs.size(self._path))

    def read(self, start: int, stop: int) -> Bytes:
        """Return the bytes of a range, by one request."""
        return np.frombuffer(self._fs.cat_file(self._path, start=start, end=stop), np.uint8)

    def close(self) -> None:
        """Do nothing: each read is a request of its own."""


def connect(url: str, options: dict[str, Any]) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it. Raises ImportError without fsspec."""
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{url!r} needs fsspec: pip install fsspec") from error
    found: tuple[Any, str] = fsspec.core.url_to_fs(url, **options)
    return found


def open_source(path: str, options: dict[str, Any]) -> Source:
    """Open a path, or a URL with a protocol."""
    return RemoteFile(path, options) if "://" in path else LocalFile(path)

"""Output files: written completely, or left unchanged."""

from __future__ import annotations

import io
import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from wirecodec.cli.files import FileArgument, find_stream


@contextmanager
def open_output(
    file: FileArgument, *, durable: bool = False, follow_links: bool = True
) -> Iterator[BinaryIO]:
    """Open a file for writing, and replace the old one only if the block succeeds.

    The bytes go to a temporary file in the same folder, which then takes the name of the file. If the block
    raises, the temporary file is removed and the old file is unchanged. An existing file keeps its mode.
    Devices, pipes and standard output cannot be replaced: they are written directly.

    Args:
        file: the file to write, or "-" for standard output.
        durable: whether the bytes are on the disk before the file is replaced, and its name is at the end.
        follow_links: whether a symbolic link keeps pointing to its target, which is replaced. Otherwise the
            link is replaced, and its target stays as it is.

    Yields:
        A binary file, open for writing.

    Raises:
        ValueError: standard output is a terminal.
        OSError: the file cannot be written; the message names it.

    Examples:
        >>> with open_output(Path("/dev/null")) as file:
        ...     n = file.write(b"bytes")
    """
    name = str(file) if isinstance(file, Path) else "standard output"
    opening = _open_file(file, durable, follow_links) if isinstance(file, Path) else _open_stdout()
    with name_output(name), opening as opened:
        yield opened


@contextmanager
def name_output(name: str) -> Iterator[None]:
    """Put the name of an output into the errors of the operating system, in place of a temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # NumPy reports a short write without an error number
            raise OSError(f"cannot write {name!r}: {error}") from None
        raise OSError(error.errno, error.strerror, name) from None


@contextmanager
def _open_stdout() -> Iterator[BinaryIO]:
    """Open standard output for bytes; raise ValueError if a person would see them."""
    stream = find_stream(sys.stdout)
    if stream.isatty():
        raise ValueError("standard output is a terminal; write to a file or a pipe")
    with io.BufferedWriter(_Sequential(stream)) as file:
        yield file
    stream.flush()


@contextmanager
def _open_file(path: Path, durable: bool, follow_links: bool) -> Iterator[BinaryIO]:
    """Open a device or a pipe directly, and the replacement of any other file."""
    old = path.stat() if path.exists() else None
    if old is not None and is_stream(path):
        with path.open("wb", buffering=0) as device, io.BufferedWriter(_Sequential(device)) as file:
            yield file
        return
    if old is not None:
        check_writable(path)
    target = Path(os.path.realpath(path)) if follow_links else path
    with _replacement(target, old, durable) as replacement:
        yield replacement


def check_writable(path: Path) -> None:
    """Check that a file may be changed, although its folder allows its replacement. Raises OSError."""
    path.open("r+b").close()


def is_stream(file: FileArgument) -> bool:
    """Return whether a file is written directly: standard output, a device, or a pipe."""
    if not isinstance(file, Path):
        return True
    try:
        status = file.stat()
    except OSError:
        return False
    return not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)) or _is_open_as(1, status)


def is_replaceable(path: Path) -> bool:
    """Return whether another file can take the name of a file: it is no stream, and not ``/dev/stdin``."""
    return not is_stream(path) and not _is_open_as(0, path.stat())


@contextmanager
def _replacement(target: Path, old: os.stat_result | None, durable: bool) -> Iterator[BinaryIO]:
    """Open a temporary file beside ``target`` and rename it to ``target`` if the block succeeds."""
    temporary = name_temporary(target)
    file = temporary.open("xb")
    try:
        with file:
            yield file
            if durable:
                sync(file)
        if old is not None:
            temporary.chmod(stat.S_IMODE(old.st_mode))
        temporary.replace(target)
        if durable:
            sync_folder(target.parent)
    except BaseException:  # KeyboardInterrupt, too, must not leave the temporary file
        with suppress(OSError):
            temporary.unlink()
        raise


def name_temporary(target: Path) -> Path:
    """Return a name beside a path that no file has."""
    return target.with_name(f".wirecodec-{secrets.token_hex(8)}.tmp")


def sync(file: BinaryIO) -> None:
    """Wait until the bytes of a file are on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the names of a folder's files are on the disk; some file systems cannot say."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_open_as(descriptor: int, status: os.stat_result) -> bool:
    """Return whether standard input or output is this file, as in ``-o /dev/stdout > FILE``."""
    try:
        return os.path.samestat(status, os.fstat(descriptor))
    except OSError:
        return False


class _Sequential(io.RawIOBase):
    """File without a descriptor and without seeking, which NumPy and zipfile write from front to back."""

    def __init__(self, file: BinaryIO | io.FileIO) -> None:
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return self._file.write(data)

"""File systems of fsspec: how each creates an object, and fails if its name is taken.

Agreement rests on this one operation. The default of fsspec looks first and writes afterwards, which is not
enough: two peers would both succeed. So only file systems are accepted that have a real one, by the list
below or by a method ``create_exclusively(path, data)`` of their own.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

_MEMORY_LOCK = threading.Lock()
_CONDITIONAL = {"s3", "s3a", "gs", "gcs"}
"""Protocols whose file systems send a condition with the object: If-None-Match, or generation 0."""
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
"""Errors of file systems without hard links."""
_S3 = {"s3", "s3a"}
_AZURE = {"abfs", "az", "abfss"}
_SFTP = {"sftp", "ssh"}


class UnsuitableStore(ValueError):
    """Error of a store that cannot create an object exclusively, so that peers cannot agree in it."""


def protocols_of(fs: Any) -> set[str]:
    """Return the names of a file system's protocol."""
    protocol = fs.protocol
    return {protocol} if isinstance(protocol, str) else set(protocol)


def complete_options(url: str, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of a file system, with those that a program has not given.

    No instance is shared with other users. The client of S3 makes one attempt per request: ``Files`` repeats
    requests, and must see the first failure.
    """
    options = {"skip_instance_cache": True, **(given or {})}
    if url.partition("://")[0] in _S3:
        options["config_kwargs"] = {
            "retries": {"total_max_attempts": 1},
            **(options.get("config_kwargs") or {}),
        }
    return options


def is_object_store(fs: Any) -> bool:
    """Return whether a file system is a client of an object store, which connects with the first request."""
    return bool(getattr(fs, "async_impl", False))


def endpoint_of(fs: Any) -> str | None:
    """Return the endpoint that the options name, or None."""
    clients = getattr(fs, "client_kwargs", None) or {}
    found = getattr(fs, "endpoint_url", None) or clients.get("endpoint_url")
    return str(found) if found else None


def check_suitable(fs: Any) -> None:
    """Raise UnsuitableStore if a file system has no exclusive creation that is known."""
    if hasattr(fs, "create_exclusively"):
        return
    known = _CONDITIONAL | _AZURE | _SFTP | {"file", "local", "memory"}
    if not protocols_of(fs) & known:
        raise UnsuitableStore(
            f"a store of {type(fs).__name__} cannot be used: it is not known to create an object only if"
            f" there is none, by which peers agree; use one of {', '.join(sorted(known))}, or a file"
            " system with a method create_exclusively(path, data) that raises FileExistsError"
        )


def create(fs: Any, path: str, data: bytes) -> None:
    """Create an object with its whole content; raise FileExistsError if there is one."""
    if hasattr(fs, "create_exclusively"):
        fs.create_exclusively(path, data)
        return
    protocols = protocols_of(fs)
    if is_local(fs):
        _link(path, data)
    elif "memory" in protocols:
        with _MEMORY_LOCK:
            fs.pipe_file(path, data, mode="create")
    elif protocols & _SFTP:
        _rename(fs, path, data)
    else:
        try:
            fs.pipe_file(path, data, **({"overwrite": False} if protocols & _AZURE else {"mode": "create"}))
        except FileExistsError:
            raise
        except Exception as error:
            if _is_refused_condition(error):
                raise FileExistsError(path) from error
            raise


def _is_refused_condition(error: BaseException | None) -> bool:
    """Return whether a request failed because its condition did not hold: HTTP's status 412.

    File systems report it by an OSError with a cause of their own kind, or by their own kind.
    """
    while error is not None:
        response = getattr(error, "response", None)
        found = response.get("Error", {}).get("Code") if isinstance(response, dict) else None
        status = getattr(error, "status", None) or getattr(error, "code", None)
        if found in ("PreconditionFailed", "412") or status in (412, "412"):
            return True
        error = error.__cause__
    return False


def read(fs: Any, path: str, limit: int) -> bytes:
    """Return at most ``limit`` bytes of an object; nothing of what is no object, such as a folder or a pipe.

    Raises FileNotFoundError if there is none.
    """
    if is_local(fs):
        # A pipe that somebody has put there must not block.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with open(descriptor, "rb") as file:
            return file.read(limit) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""
    try:
        data: bytes = fs.cat_file(path, start=0, end=limit)
    except FileNotFoundError:
        raise
    except Exception:
        if fs.size(path) == 0:  # servers refuse a range of an empty object
            return b""
        raise
    return data


def is_local(fs: Any) -> bool:
    """Return whether paths are those of this machine."""
    return bool(protocols_of(fs) & {"file", "local"}) and not hasattr(fs, "create_exclusively")


def put(fs: Any, path: str, data: bytes) -> None:
    """Write an object, whose name has its digest; writing it twice has no further effect."""
    if is_local(fs):
        temporary = _write_temporary(path, data)
        try:
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    else:
        fs.pipe_file(path, data)


def _link(path: str, data: bytes) -> None:
    """Create a local file: a link to a complete one, which fails if the name is taken."""
    temporary = _write_temporary(path, data)
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        with open(path, "xb") as file:  # readers wait for the rest of an incomplete object
            file.write(data)
    finally:
        with suppress(OSError):
            os.unlink(temporary)


def _write_temporary(path: str, data: bytes) -> str:
    temporary = os.path.join(os.path.dirname(path), f".{secrets.token_hex(8)}.tmp")
    with open(temporary, "xb") as file:
        file.write(data)
    return temporary


def _rename(fs: Any, path: str, data: bytes) -> None:
    """Create a file over SFTP: its rename, unlike that of POSIX, fails if the name is taken."""
    temporary = f"{path.rpartition('/')[0]}/.{secrets.token_hex(8)}.tmp"
    fs.pipe_file(temporary, data)
    try:
        fs.ftp.rename(temporary, path)
    except OSError:
        if fs.exists(path):
            raise FileExistsError(path) from None
        raise
    finally:
        with suppress(OSError):
            fs.rm_file(temporary)

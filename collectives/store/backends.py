"""File systems of fsspec: which of them a run can be in, and how each creates an object exclusively.

Agreement rests on this one operation. The default of fsspec looks first and writes afterwards, which is not
enough: two peers would both succeed. So only file systems are accepted that have a real one, by the list
below or by a method ``create_exclusively(path, data)`` of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from collectives.store.folders import Folder, MemoryFolder
from collectives.store.local import LocalFolder
from collectives.store.sftp import SftpFolder

_CONDITIONAL = {"s3", "s3a", "gs", "gcs"}
"""Protocols whose file systems send a condition with the object: If-None-Match, or generation 0."""
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


def open_folder(url: str, storage_options: Mapping[str, Any] | None) -> Folder:
    """Return the folder of a URL.

    Raises:
        ImportError: fsspec, or the package of the protocol, is missing.
        UnsuitableStore: the store cannot create an object exclusively, or the file system takes the URL for
            that of another folder.
    """
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise ImportError("StoreComm needs the package fsspec: pip install fsspec", name="fsspec") from error
    is_sftp = url.partition("://")[0] in _SFTP
    for special in ("::", "?", "#") if is_sftp else ("::",):
        if special in url:
            raise UnsuitableStore(
                f"the URL {url!r} has {special!r}, which fsspec does not take for a part of a name;"
                " give the folder another name"
            )
    fs, root = url_to_fs(url, **complete_options(url, storage_options))
    root = root.rstrip("/")
    check_suitable(fs)
    check_root(url, root, is_local=is_local(fs))
    protocols = protocols_of(fs)
    if hasattr(fs, "create_exclusively"):
        return Folder(fs, root)
    if is_local(fs):
        return LocalFolder(fs, root)
    if protocols & _SFTP:
        return SftpFolder(fs, root)
    kind = MemoryFolder if "memory" in protocols else Folder
    return kind(fs, root, {"overwrite": False} if protocols & _AZURE else {"mode": "create"})


def is_local(fs: Any) -> bool:
    """Return whether paths are those of this machine."""
    return bool(protocols_of(fs) & {"file", "local"}) and not hasattr(fs, "create_exclusively")


def check_root(url: str, root: str, *, is_local: bool) -> None:
    """Raise UnsuitableStore if a file system's path of a folder is not the path that its URL names.

    Some drop what follows "?", an empty fragment, or white space; two URLs would then be one folder.
    """
    _, separator, path = url.partition("://")
    parts = path.split("/")[1:] if separator else url.replace(os.sep, "/").split("/")
    if not separator and parts[0].startswith("~"):
        del parts[0]  # a home
    named, found = ([part for part in one if part not in ("", ".")] for one in (parts, root.split("/")))
    is_dotted = not is_local and ({".", ".."} & {*parts})
    if found[len(found) - len(named) :] != named or is_dotted or "?versionId=" in root:
        raise UnsuitableStore(
            f"the file system takes the URL {url!r} for the folder {root!r}; give the folder a name without"
            " '?', '#', white space at its ends, and parts '.' and '..'"
        )

"""Opening of a folder of a store for a command that shows what is in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from collectives.errors import CollectiveError
from collectives.store.backends import UnsuitableStore
from collectives.store.files import Files

_PATIENCE = 20.0
"""Seconds for which requests are repeated while the store fails."""


def open_files(url: str, storage_options: str | None) -> Files:
    """Open a folder of a store, with the JSON of its file system's options.

    Raises:
        ValueError: the options are no JSON object, or there is no such store.
    """
    given = _parse_options(storage_options)
    try:
        return Files(url, "", given, _PATIENCE)
    except UnsuitableStore:
        raise
    except ImportError as error:
        raise ValueError(str(error)) from error
    except Exception as error:  # file systems raise errors of many kinds
        raise _explain(url, error) from error


@contextmanager
def explained(url: str) -> Iterator[None]:
    """Raise an error of a store as a ValueError."""
    try:
        yield
    except CollectiveError as error:
        raise _explain(url, error) from error


def _explain(url: str, error: Exception) -> ValueError:
    """Return the error of a store that cannot be used; it names the option with the store's settings."""
    kind = "" if isinstance(error, CollectiveError) else f"{type(error).__name__}: "
    advice = "; check --storage-options" if "://" in url else ""
    return ValueError(f"{url} cannot be read: {kind}{error}{advice}")


def _parse_options(text: str | None) -> dict[str, Any]:
    """Parse the JSON of ``--storage-options``; raise ValueError if it is no object."""
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise ValueError(f"--storage-options is no valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise ValueError("--storage-options must be a JSON object")
    return found

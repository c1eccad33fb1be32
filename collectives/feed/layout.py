"""Names of objects in the folder of a feed: formats/spec/feeds.md, section 1."""

from __future__ import annotations

import re

from collectives.store.layout import SLOTS

FOLDER = "feed"
"""Folder of a feed in that of its run, beside what a StoreComm of the same name has."""
VERSIONS, OBJECTS, READERS = "versions", "objects", "readers"
_VERSION = re.compile(r"([0-9]{12})\.([0-9]{2})")
_OBJECT = re.compile(r"([0-9]{12})\.[0-9a-f]{64}")


def path_of_version(number: int, slot: int) -> str:
    """Return the path of a slot for the record of a version."""
    return f"{VERSIONS}/{number:012d}.{slot:02d}"


def path_of_object(number: int, digest: bytes) -> str:
    """Return the path of a patch to a version, or of the anchor of a version."""
    return f"{OBJECTS}/{number:012d}.{digest.hex()}"


def path_of_reader(name: str) -> str:
    """Return the path of a reader's report."""
    return f"{READERS}/{name}"


def parse_version(base: str) -> int | None:
    """Return the number of a version from the last part of a path, or None."""
    found = _VERSION.fullmatch(base)
    return int(found[1]) if found and int(found[2]) < SLOTS else None


def parse_object(base: str) -> int | None:
    """Return the number of the version that an object makes, or None."""
    found = _OBJECT.fullmatch(base)
    return int(found[1]) if found else None
